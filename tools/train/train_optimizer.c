/* SPDX-License-Identifier: MIT */
/* The optimizer of `copse train`: its names, its defaults, its further settings. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/optim/groups.h"
#include "copse/optim/rules.h"
#include "copse/optim/schedule.h"
#include "copse/train/model_loss.h"

#include "tools/train/train.h"

enum { MOST_RULES = 64 };

const struct option_name *train_optimizers(void)
{
    static struct option_name names[MOST_RULES + 1];
    const struct copse_optimizer_rule *rule;
    for (size_t i = 0; i < MOST_RULES && (rule = copse_optimizer_rule_at(i)) != NULL; i++)
        names[i] = (struct option_name){ rule->name, (int)rule->kind };
    return names;
}

void train_optimizer_settle(struct train_settings *s, const float *rate)
{
    const copse_optimizer_kind kind = (copse_optimizer_kind)s->optimizer.at->value;
    const struct copse_optimizer_rule *rule = copse_optimizer_rule_at((size_t)kind);
    if (s->momentum == UNSET_MOMENTUM)
        s->momentum = kind == COPSE_RMSPROP ? 0.0f : 0.9f;
    s->lr = rate                                                               ? *rate
            : kind == COPSE_ADAM || kind == COPSE_ADAMW || kind == COPSE_ADAM8 ? 0.002f
            : kind == COPSE_SGD || kind == COPSE_MOMENTUM || kind == COPSE_NESTEROV
                ? 0.05f
                : rule->learning_rate;
}

static const struct {
    const char *name;
    size_t at; /* in the parameters */
} numbers[] = {
#define NUMBER(name)                                         \
    {                                                        \
#        name, offsetof(struct copse_optimizer_params, name) \
    }
    NUMBER(beta1), NUMBER(beta2),          NUMBER(epsilon), NUMBER(initial), NUMBER(l1),
    NUMBER(l2),    NUMBER(momentum_decay), NUMBER(trust),   NUMBER(average), NUMBER(loss_scale),
};

static const struct {
    const char *name;
    size_t at; /* of a uint32_t */
} flags[] = {
    { "centred", offsetof(struct copse_optimizer_params, is_centred) },
    { "epsilon_in_root", offsetof(struct copse_optimizer_params, epsilon_in_root) },
    { "plain_average", offsetof(struct copse_optimizer_params, plain_average) },
};

/* "beta2" and a number; false if there is no such setting. */
static bool train_optimizer_take(const char *name, size_t length, float value,
                                 struct copse_optimizer_params *p)
{
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, name, length) == 0) {
            const uint32_t flag = value == 1.0f;
            memcpy((char *)p + flags[i].at, &flag, sizeof flag);
            return value == 0.0f || value == 1.0f;
        }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strlen(numbers[i].name) == length && strncmp(numbers[i].name, name, length) == 0) {
            memcpy((char *)p + numbers[i].at, &value, sizeof value);
            return true;
        }
    return false;
}

static bool take_all(const char *at, struct copse_optimizer_params *p)
{
    while (*at) {
        const size_t length = strcspn(at, "=,");
        char *end;
        if (at[length] != '=')
            return false;
        const float value = strtof(at + length + 1, &end);
        if (end == at + length + 1 || (*end != ',' && *end != '\0') || !isfinite(value) ||
            !train_optimizer_take(at, length, value, p))
            return false;
        at = end + (*end == ',');
    }
    return true;
}

const char *train_optimizer_check(const struct train_settings *s)
{
    struct copse_optimizer_params p = { .kind = COPSE_ADAM };
    if (!(s->average >= 0.0f && s->average < 1.0f))
        return "--average: a number from 0 to 1 is needed, and less than 1";
    if (s->saves_average && (s->average == 0.0f || !s->save))
        return "--save-average belongs to --average and --save";
    if (s->loss && copse_model_check_loss(s->loss) != COPSE_OK)
        return session_error();
    if ((s->groups && copse_parameter_groups_check(s->groups) != COPSE_OK) ||
        copse_schedule_check(s->schedule) != COPSE_OK)
        return session_error();
    const char *wrong = freeze_check(s);
    if (wrong)
        return wrong;
    return s->rule && !take_all(s->rule, &p) ? "--optimizer-settings: write NAME=NUMBER,...; the "
                                               "names are beta1, beta2, epsilon, initial, l1, l2, "
                                               "momentum_decay, trust, average, centred, "
                                               "epsilon_in_root and plain_average"
                                             : NULL;
}

void train_optimizer_fill(const struct train_settings *s, struct copse_optimizer_params *p)
{
    const copse_optimizer_kind kind = (copse_optimizer_kind)s->optimizer.at->value;
    const bool needs_momentum = kind == COPSE_MOMENTUM || kind == COPSE_NESTEROV;
    if (s->rule)
        (void)take_all(s->rule, p);
    /* The library treats a momentum of 0 as its default; without momentum both rules are SGD. */
    p->kind = needs_momentum && s->momentum == 0.0f ? COPSE_SGD : kind;
    p->learning_rate = s->lr;
    p->momentum = s->momentum;
    p->weight_decay = s->weight_decay;
    if (s->average > 0.0f)
        p->average = s->average;
}
