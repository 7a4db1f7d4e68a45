/* SPDX-License-Identifier: MIT */
#include "core/rule/rows.h"

#include <stdio.h>

#define ALWAYS COPSE_SLOT_ALWAYS
#define SQUARE_ROOT_PAPER "Duchi, Hazan and Singer, \"Adaptive subgradient methods\", JMLR 12, 2011"
#define KINGMA            "Kingma and Ba, \"Adam\", ICLR 2015"

static const struct copse_rule_row rows[] = {
    [COPSE_ADAM] = {
        .rows = COPSE_ROWS_LAZY,
        .info = { .kind = COPSE_ADAM, .name = "adam", .title = "Adam", .source = KINGMA ", algorithm 1",
                  .slots = "m v",
                  .learning_rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f },
        .kernel = COPSE_KERNEL_adam, .decay = 1, .slots = { { "m", ALWAYS, false }, { "v", ALWAYS, false } } },
    [COPSE_ADAMW] = {
        .info = { .kind = COPSE_ADAMW, .name = "adamw", .title = "AdamW",
                  .source = "Loshchilov and Hutter, \"Decoupled weight decay\", ICLR 2019, algorithm 2",
                  .slots = "m v",
                  .learning_rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f },
        .kernel = COPSE_KERNEL_adam, .decay = 2, .slots = { { "m", ALWAYS, false }, { "v", ALWAYS, false } } },
    [COPSE_SGD] = {
        .rows = COPSE_ROWS_EXACT,
        .info = { .kind = COPSE_SGD, .name = "sgd", .title = "Gradient descent",
                  .source = "Robbins and Monro, 1951", .slots = "",
                  .learning_rate = 1e-2f },
        .kernel = COPSE_KERNEL_sgd, .decay = 1 },
    [COPSE_MOMENTUM] = {
        .rows = COPSE_ROWS_LAZY,
        .info = { .kind = COPSE_MOMENTUM, .name = "momentum", .title = "Momentum", .source = "Polyak, 1964",
                  .slots = "v",
                  .learning_rate = 1e-2f, .momentum = 0.9f },
        .kernel = COPSE_KERNEL_momentum, .decay = 1, .slots = { { "v", ALWAYS, false } } },
    [COPSE_NESTEROV] = {
        .rows = COPSE_ROWS_LAZY,
        .info = { .kind = COPSE_NESTEROV, .name = "nesterov", .title = "Nesterov's momentum",
                  .source = "Sutskever et al., \"On the importance of initialization and momentum\", ICML 2013",
                  .slots = "v", .learning_rate = 1e-2f, .momentum = 0.9f },
        .kernel = COPSE_KERNEL_momentum, .number = 1, .decay = 1, .slots = { { "v", ALWAYS, false } } },
    [COPSE_ADAGRAD] = {
        .rows = COPSE_ROWS_EXACT,
        .info = { .kind = COPSE_ADAGRAD, .name = "adagrad", .title = "Adagrad", .source = SQUARE_ROOT_PAPER,
                  .slots = "sum",
                  .learning_rate = 1e-2f, .epsilon = 1e-10f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_ADAGRAD, .decay = 1, .has = COPSE_HAS_INITIAL,
        .slots = { { "sum", ALWAYS, true } } },
    [COPSE_ADADELTA] = {
        .info = { .kind = COPSE_ADADELTA, .name = "adadelta", .title = "Adadelta",
                  .source = "Zeiler, \"ADADELTA\", arXiv:1212.5701, 2012",
                  .slots = "v delta", .learning_rate = 1.0f, .beta2 = 0.9f, .epsilon = 1e-6f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_ADADELTA, .decay = 1,
        .slots = { { "v", ALWAYS, false }, { "delta", ALWAYS, false } } },
    [COPSE_RMSPROP] = {
        .info = { .kind = COPSE_RMSPROP, .name = "rmsprop", .title = "RMSProp",
                  .source = "Tieleman and Hinton, lecture 6.5, 2012; centred: Graves, arXiv:1308.0850, 2013",
                  .slots = "v [mean] [momentum]", .learning_rate = 1e-2f, .beta2 = 0.99f, .epsilon = 1e-8f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_RMSPROP, .decay = 1, .has = COPSE_HAS_CENTRED,
        .slots = { { "v", ALWAYS, false }, { "mean", COPSE_SLOT_CENTRED, false },
                   { "momentum", COPSE_SLOT_MOMENTUM, false } } },
    [COPSE_AMSGRAD] = {
        .info = { .kind = COPSE_AMSGRAD, .name = "amsgrad", .title = "AMSGrad",
                  .source = "Reddi, Kale and Kumar, \"On the convergence of Adam and beyond\", ICLR 2018",
                  .slots = "m v largest", .learning_rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f,
                   .epsilon = 1e-8f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_AMSGRAD, .decay = 1,
        .slots = { { "m", ALWAYS, false }, { "v", ALWAYS, false }, { "largest", ALWAYS, false } } },
    [COPSE_ADAMAX] = {
        .info = { .kind = COPSE_ADAMAX, .name = "adamax", .title = "Adamax", .source = KINGMA ", algorithm 2",
                  .slots = "m u",
                  .learning_rate = 2e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_ADAMAX, .decay = 1,
        .slots = { { "m", ALWAYS, false }, { "u", ALWAYS, false } } },
    [COPSE_NADAM] = {
        .info = { .kind = COPSE_NADAM, .name = "nadam", .title = "NAdam",
                  .source = "Dozat, \"Incorporating Nesterov momentum into Adam\", ICLR workshop 2016",
                  .slots = "m v",
                  .learning_rate = 2e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f,
        .momentum_decay = 4e-3f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_NADAM, .decay = 1,
        .has = COPSE_HAS_MOMENTUM_DECAY,
        .slots = { { "m", ALWAYS, false }, { "v", ALWAYS, false } } },
    [COPSE_LION] = {
        .info = { .kind = COPSE_LION, .name = "lion", .title = "Lion",
                  .source = "Chen et al., \"Symbolic discovery of optimization algorithms\", arXiv:2302.06675, 2023",
                  .slots = "m", .learning_rate = 1e-4f, .beta1 = 0.9f, .beta2 = 0.99f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_LION, .decay = 2,
        .slots = { { "m", ALWAYS, false } } },
    [COPSE_FTRL] = {
        .info = { .kind = COPSE_FTRL, .name = "ftrl", .title = "FTRL-Proximal",
                  .source = "McMahan et al., \"Ad click prediction\", KDD 2013, algorithm 1",
                  .slots = "sum linear",
                  .learning_rate = 1e-3f, .initial = 0.1f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_FTRL, .decay = 1,
        .has = COPSE_HAS_INITIAL | COPSE_HAS_L1 | COPSE_HAS_L2, .slots = { { "sum", ALWAYS, true },
        { "linear", ALWAYS, false } } },
    [COPSE_PROXIMAL_SGD] = {
        .info = { .kind = COPSE_PROXIMAL_SGD, .name = "proximal_sgd", .title = "Proximal gradient descent",
                  .source = "Duchi and Singer, \"Forward-backward splitting\", JMLR 10, 2009", .slots = "",
                  .learning_rate = 1e-2f },
        .kernel = COPSE_KERNEL_sgd, .number = 1, .decay = 1, .has = COPSE_HAS_L1 | COPSE_HAS_L2 },
    [COPSE_PROXIMAL_ADAGRAD] = {
        .info = { .kind = COPSE_PROXIMAL_ADAGRAD, .name = "proximal_adagrad", .title = "Proximal Adagrad",
                  .source = SQUARE_ROOT_PAPER, .slots = "sum",
                  .learning_rate = 1e-2f, .initial = 0.1f },
        .kernel = COPSE_KERNEL_adaptive, .number = COPSE_ADAPTIVE_PROXIMAL, .decay = 1,
        .has = COPSE_HAS_INITIAL | COPSE_HAS_L1 | COPSE_HAS_L2, .slots = { { "sum", ALWAYS, true } } },
    [COPSE_LARS] = {
        .info = { .kind = COPSE_LARS, .name = "lars", .title = "LARS",
                  .source = "You, Gitman and Ginsburg, \"Large batch training of convolutional networks\", "
                            "arXiv:1708.03888, 2017, algorithm 1",
                  .slots = "v", .learning_rate = 1.0f, .momentum = 0.9f, .trust = 1e-3f },
        .kernel = COPSE_KERNEL_trust, .number = COPSE_TRUST_LARS, .decay = 1, .has = COPSE_HAS_TRUST,
        .slots = { { "v", ALWAYS, false } } },
    [COPSE_LAMB] = {
        .info = { .kind = COPSE_LAMB, .name = "lamb", .title = "LAMB",
                  .source = "You et al., \"Large batch optimization for deep learning\", ICLR 2020, algorithm 2",
                  .slots = "m v", .learning_rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f },
        .kernel = COPSE_KERNEL_trust, .number = COPSE_TRUST_LAMB, .decay = 1,
        .slots = { { "m", ALWAYS, false }, { "v", ALWAYS, false } } },
    [COPSE_ADAM8] = {
        .info = { .kind = COPSE_ADAM8, .name = "adam8", .title = "Adam with 8-bit slots",
                  .source = "Dettmers et al., \"8-bit optimizers via block-wise quantization\", ICLR 2022",
                  .slots = "m m_scale v v_scale",
                  .learning_rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f },
        .kernel = COPSE_KERNEL_adam8, .decay = 1,
        .slots = { { "m", ALWAYS, false }, { "m_scale", ALWAYS, false }, { "v", ALWAYS, false },
                   { "v_scale", ALWAYS, false } } },
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
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", rows[i].info.name);
    }
    return copse_fail(COPSE_ERR_ARGUMENT, "optimizer: there is no rule '%s': it is one of %s", name, names);
}
