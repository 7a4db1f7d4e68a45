/* SPDX-License-Identifier: MIT */
/* Agreement between the workers of a trainer: the same settings, the same step and batch, and what
   all do when one of them fails. */
#include <stdio.h>

#include "core/train/trainer.h"

copse_status copse__workers_agree(copse_trainer *t)
{
    const struct copse_trainer_params *p = &t->params;
    char rule[COPSE_RULE_TEXT], text[COPSE_RULE_TEXT + 256];
    snprintf(text, sizeof text,
             "loss %d\n%sseed %llu\nmicro-batches %u\nsharding %d\nbatch size %llu\ngating "
             "%d\nchecks %d %d\nprecision %d\n",
             (int)p->reduction, copse__rule_text(&p->optimizer, rule), (unsigned long long)p->seed,
             p->accumulate, (int)p->sharding, (unsigned long long)p->batch_size, (int)p->gating,
             p->check_numerics, p->check_gradients, (int)p->precision);
    return copse__group_agree(&t->strategy->group, "the settings of the trainer", text);
}

copse_status copse__workers_report(copse_trainer *t, copse_status why)
{
    if (why != COPSE_OK && t &&
        (t->is_failed || copse__group_has_failed_device(&t->strategy->group)))
        copse__group_abort(&t->strategy->group);
    return why;
}

copse_status copse__workers_refuse(copse_trainer *t, copse_status why)
{
    return copse__group_refuse(&t->strategy->group, "a step", copse__workers_report(t, why));
}

copse_status copse__workers_abort(copse_trainer *t, uint64_t since, copse_status why)
{
    if (why && !copse__group_was_refused(&t->strategy->group, since))
        copse__group_abort(&t->strategy->group);
    return why;
}

copse_status copse__workers_notify(copse_trainer *t, uint64_t since, copse_status why)
{
    const struct copse_group *g = &t->strategy->group;
    const bool is_early = copse__group_is_whole(g, since) && !copse__group_was_refused(g, since);
    return why && is_early && !t->is_failed ? copse__workers_refuse(t, why)
                                            : copse__workers_abort(t, since, why);
}
