/* SPDX-License-Identifier: MIT */
/* Gradients that are accumulated over the micro-batches of one update. */
#include "core/train/execution.h"

copse_status copse__holders_check(const copse_trainer *t)
{
    for (size_t i = 0; t->strategy->store->accumulators > 0 && i < t->trained_count; i++)
        if (t->trained[i]->accumulator && t->trained[i]->accumulator != t)
            return copse_fail(COPSE_ERR_ARGUMENT, "trainer: another trainer gathers gradients of '%s'; "
                                                  "let it finish, or flush it", t->trained[i]->name);
    return COPSE_OK;
}

static void hold(copse_trainer *t)
{
    t->strategy->store->accumulators++;
    for (size_t i = 0; i < t->trained_count; i++)
        t->trained[i]->accumulator = t;
}

void copse__gathered_drop(copse_trainer *t)
{
    if (t->gathered > 0) {
        t->strategy->store->accumulators--;
        for (size_t i = 0; i < t->trained_count; i++)
            t->trained[i]->accumulator = NULL;
    }
    t->gathered = 0;
    t->gathered_examples = 0;
}

struct copse_gathered copse__gathered_add(copse_trainer *t, size_t count)
{
    if (t->gathered == 0)
        t->first_examples = count;
    t->gathered_examples += count;
    return (struct copse_gathered){ t->step + 1, t->gathered, t->gathered_examples,
                                    t->first_examples };
}

void copse__gathered_next(copse_trainer *t)
{
    if (t->gathered + 1 == t->params.accumulate) {
        copse__gathered_drop(t);
        t->step++;
    } else if (t->gathered++ == 0) {
        hold(t);
    }
}

uint32_t copse_trainer_gathered(const copse_trainer *t)
{
    return t ? t->gathered : 0;
}
