/* SPDX-License-Identifier: MIT */
#include "core/rule/rows.h"

#include <stdio.h>

#define SQUARE_ROOT_PAPER "Duchi, Hazan and Singer, \"Adaptive subgradient methods\", JMLR 12, 2011"
#define KINGMA            "Kingma and Ba, \"Adam\", ICLR 2015"

extern const struct copse_rule_kernel copse_rule_kernel_adam, copse_rule_kernel_sgd,
    copse_rule_kernel_momentum, copse_rule_kernel_adaptive, copse_rule_kernel_trust,
    copse_rule_kernel_adam8, copse_rule_kernel_adopt;

/* Slots, as members and as a text: ALWAYS("m"); INITIAL("sum"), which begins with the setting
   `initial`; CENTRED("mean") and MOMENTUM("momentum"), which the rule has with these settings. */
#define SLOT_ALWAYS(name)   name, COPSE_SLOT_ALWAYS, false
#define SLOT_INITIAL(name)  name, COPSE_SLOT_ALWAYS, true
#define SLOT_CENTRED(name)  name, COPSE_SLOT_CENTRED, false
#define SLOT_MOMENTUM(name) name, COPSE_SLOT_MOMENTUM, false
#define TEXT_ALWAYS(name)   name
#define TEXT_INITIAL(name)  name
#define TEXT_CENTRED(name)  "[" name "]"
#define TEXT_MOMENTUM(name) "[" name "]"
#define SLOTS_0()           .info.slots = ""
#define SLOTS_1(a)          .info.slots = TEXT_##a, .slots = { { SLOT_##a } }
#define SLOTS_2(a, b)       .info.slots = TEXT_##a " " TEXT_##b, .slots = { { SLOT_##a }, { SLOT_##b } }
#define SLOTS_3(a, b, c)                              \
    .info.slots = TEXT_##a " " TEXT_##b " " TEXT_##c, \
    .slots = { { SLOT_##a }, { SLOT_##b }, { SLOT_##c } }
#define SLOTS_4(a, b, c, d)                                        \
    .info.slots = TEXT_##a " " TEXT_##b " " TEXT_##c " " TEXT_##d, \
    .slots = { { SLOT_##a }, { SLOT_##b }, { SLOT_##c }, { SLOT_##d } }

/* Kind, name, kernel, title, source, slots; then the members that are not 0. */
#define RULE(kind_, name_, kernel_, title_, source_, ...)       \
    [COPSE_##kind_] = { .info.kind = COPSE_##kind_,             \
                        .info.name = name_,                     \
                        .info.title = title_,                   \
                        .info.source = source_,                 \
                        .kernel = &copse_rule_kernel_##kernel_, \
                        __VA_ARGS__ }

static const struct copse_rule_row rows[] = {
    RULE(ADAM, "adam", adam, "Adam", KINGMA ", algorithm 1", SLOTS_2(ALWAYS("m"), ALWAYS("v")),
         .info.learning_rate = 1e-3f, .info.beta1 = 0.9f, .info.beta2 = 0.999f,
         .info.epsilon = 1e-8f, .rows = COPSE_ROWS_LAZY),
    RULE(ADAMW, "adamw", adam, "AdamW",
         "Loshchilov and Hutter, \"Decoupled weight decay\", ICLR 2019, algorithm 2",
         SLOTS_2(ALWAYS("m"), ALWAYS("v")), .info.learning_rate = 1e-3f, .info.beta1 = 0.9f,
         .info.beta2 = 0.999f, .info.epsilon = 1e-8f, .decays_apart = true),
    RULE(SGD, "sgd", sgd, "Gradient descent", "Robbins and Monro, 1951", SLOTS_0(),
         .info.learning_rate = 1e-2f, .rows = COPSE_ROWS_EXACT),
    RULE(MOMENTUM, "momentum", momentum, "Momentum", "Polyak, 1964", SLOTS_1(ALWAYS("v")),
         .info.learning_rate = 1e-2f, .info.momentum = 0.9f, .rows = COPSE_ROWS_LAZY),
    RULE(NESTEROV, "nesterov", momentum, "Nesterov's momentum",
         "Sutskever et al., \"On the importance of initialization and momentum\", ICML 2013",
         SLOTS_1(ALWAYS("v")), .info.learning_rate = 1e-2f, .info.momentum = 0.9f, .number = 1,
         .rows = COPSE_ROWS_LAZY),
    RULE(ADAGRAD, "adagrad", adaptive, "Adagrad", SQUARE_ROOT_PAPER, SLOTS_1(INITIAL("sum")),
         .info.learning_rate = 1e-2f, .info.epsilon = 1e-10f, .number = COPSE_ADAPTIVE_ADAGRAD,
         .has = COPSE_HAS_INITIAL, .rows = COPSE_ROWS_EXACT),
    RULE(ADADELTA, "adadelta", adaptive, "Adadelta", "Zeiler, \"ADADELTA\", arXiv:1212.5701, 2012",
         SLOTS_2(ALWAYS("v"), ALWAYS("delta")), .info.learning_rate = 1.0f, .info.beta2 = 0.9f,
         .info.epsilon = 1e-6f, .number = COPSE_ADAPTIVE_ADADELTA),
    RULE(RMSPROP, "rmsprop", adaptive, "RMSProp",
         "Tieleman and Hinton, lecture 6.5, 2012; centred: Graves, arXiv:1308.0850, 2013",
         SLOTS_3(ALWAYS("v"), CENTRED("mean"), MOMENTUM("momentum")), .info.learning_rate = 1e-2f,
         .info.beta2 = 0.99f, .info.epsilon = 1e-8f, .number = COPSE_ADAPTIVE_RMSPROP,
         .has = COPSE_HAS_CENTRED | COPSE_HAS_IN_ROOT),
    RULE(AMSGRAD, "amsgrad", adaptive, "AMSGrad",
         "Reddi, Kale and Kumar, \"On the convergence of Adam and beyond\", ICLR 2018",
         SLOTS_3(ALWAYS("m"), ALWAYS("v"), ALWAYS("largest")), .info.learning_rate = 1e-3f,
         .info.beta1 = 0.9f, .info.beta2 = 0.999f, .info.epsilon = 1e-8f,
         .number = COPSE_ADAPTIVE_AMSGRAD),
    RULE(ADAMAX, "adamax", adaptive, "Adamax", KINGMA ", algorithm 2",
         SLOTS_2(ALWAYS("m"), ALWAYS("u")), .info.learning_rate = 2e-3f, .info.beta1 = 0.9f,
         .info.beta2 = 0.999f, .info.epsilon = 1e-8f, .number = COPSE_ADAPTIVE_ADAMAX),
    RULE(NADAM, "nadam", adaptive, "NAdam",
         "Dozat, \"Incorporating Nesterov momentum into Adam\", ICLR workshop 2016",
         SLOTS_2(ALWAYS("m"), ALWAYS("v")), .info.learning_rate = 2e-3f, .info.beta1 = 0.9f,
         .info.beta2 = 0.999f, .info.epsilon = 1e-8f, .info.momentum_decay = 4e-3f,
         .number = COPSE_ADAPTIVE_NADAM, .has = COPSE_HAS_MOMENTUM_DECAY),
    RULE(LION, "lion", adaptive, "Lion",
         "Chen et al., \"Symbolic discovery of optimization algorithms\", arXiv:2302.06675, 2023",
         SLOTS_1(ALWAYS("m")), .info.learning_rate = 1e-4f, .info.beta1 = 0.9f, .info.beta2 = 0.99f,
         .number = COPSE_ADAPTIVE_LION, .decays_apart = true),
    RULE(FTRL, "ftrl", adaptive, "FTRL-Proximal",
         "McMahan et al., \"Ad click prediction\", KDD 2013, algorithm 1",
         SLOTS_2(INITIAL("sum"), ALWAYS("linear")), .info.learning_rate = 1e-3f,
         .info.initial = 0.1f, .number = COPSE_ADAPTIVE_FTRL,
         .has = COPSE_HAS_INITIAL | COPSE_HAS_L1 | COPSE_HAS_L2),
    RULE(PROXIMAL_SGD, "proximal_sgd", sgd, "Proximal gradient descent",
         "Duchi and Singer, \"Forward-backward splitting\", JMLR 10, 2009", SLOTS_0(),
         .info.learning_rate = 1e-2f, .number = 1, .has = COPSE_HAS_L1 | COPSE_HAS_L2),
    RULE(PROXIMAL_ADAGRAD, "proximal_adagrad", adaptive, "Proximal Adagrad", SQUARE_ROOT_PAPER,
         SLOTS_1(INITIAL("sum")), .info.learning_rate = 1e-2f, .info.initial = 0.1f,
         .number = COPSE_ADAPTIVE_PROXIMAL, .has = COPSE_HAS_INITIAL | COPSE_HAS_L1 | COPSE_HAS_L2),
    RULE(LARS, "lars", trust, "LARS",
         "You, Gitman and Ginsburg, \"Large batch training of convolutional networks\", "
         "arXiv:1708.03888, 2017, algorithm 1",
         SLOTS_1(ALWAYS("v")), .info.learning_rate = 1.0f, .info.momentum = 0.9f,
         .info.trust = 1e-3f, .number = COPSE_TRUST_LARS, .has = COPSE_HAS_TRUST),
    RULE(LAMB, "lamb", trust, "LAMB",
         "You et al., \"Large batch optimization for deep learning\", ICLR 2020, algorithm 2",
         SLOTS_2(ALWAYS("m"), ALWAYS("v")), .info.learning_rate = 1e-3f, .info.beta1 = 0.9f,
         .info.beta2 = 0.999f, .info.epsilon = 1e-6f, .number = COPSE_TRUST_LAMB),
    RULE(ADAM8, "adam8", adam8, "Adam with 8-bit slots",
         "Dettmers et al., \"8-bit optimizers via block-wise quantization\", ICLR 2022",
         SLOTS_4(ALWAYS("m"), ALWAYS("m_scale"), ALWAYS("v"), ALWAYS("v_scale")),
         .info.learning_rate = 1e-3f, .info.beta1 = 0.9f, .info.beta2 = 0.999f,
         .info.epsilon = 1e-8f),
    RULE(ADOPT, "adopt", adopt, "ADOPT",
         "Taniguchi et al., \"ADOPT: Modified Adam can converge with any beta2 with the optimal "
         "rate\", NeurIPS 2024, algorithm 2",
         SLOTS_2(ALWAYS("m"), ALWAYS("v")), .info.learning_rate = 1e-3f, .info.beta1 = 0.9f,
         .info.beta2 = 0.9999f, .info.epsilon = 1e-6f),
};

const struct copse_rule_row *copse__rule_row(copse_optimizer_kind kind)
{
    return (size_t)kind < COPSE_COUNT(rows) ? &rows[kind] : NULL;
}

const struct copse_optimizer_rule *copse_optimizer_rule_at(size_t index)
{
    return index < COPSE_COUNT(rows) ? &rows[index].info : NULL;
}

copse_status copse_optimizer_rule_find(const char *name, const struct copse_optimizer_rule **out)
{
    char names[400] = "";
    size_t used = 0;
    COPSE_TRY(copse_need("optimizer_rule_find", name, out));
    *out = NULL;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        if (strcmp(rows[i].info.name, name) == 0) {
            *out = &rows[i].info;
            return COPSE_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 rows[i].info.name);
    }
    return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: there is no rule '%s': it is one of %s", name,
                      names);
}
