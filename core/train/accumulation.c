/* SPDX-License-Identifier: MIT */
/* Gradients that are accumulated over the micro-batches of one update. The variables belong to this
   trainer meanwhile. */
#include "core/train/trainer.h"

copse_status copse__accumulation_check(const copse_trainer *t)
{
    for (size_t i = 0; t->strategy->store->accumulators > 0 && i < t->trained.count; i++)
        if (t->trained.at[i]->accumulator && t->trained.at[i]->accumulator != t)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "trainer: another trainer gathers gradients of '%s'; "
                              "let it finish, or flush it",
                              t->trained.at[i]->name);
    return COPSE_OK;
}

static void set_accumulator(copse_trainer *t, const copse_trainer *accumulator)
{
    for (size_t i = 0; i < t->trained.count; i++)
        t->trained.at[i]->accumulator = accumulator;
}

void copse__accumulation_drop(copse_trainer *t)
{
    if (t->accumulation.parts > 0) {
        t->strategy->store->accumulators--;
        set_accumulator(t, NULL);
    }
    t->accumulation = (struct copse_accumulation){ .parts = 0 };
}

void copse__accumulation_add(struct copse_accumulation *a, size_t examples)
{
    if (a->parts == 0)
        *a = (struct copse_accumulation){ .first_examples = examples };
    a->examples += examples;
}

void copse__accumulation_next(copse_trainer *t)
{
    if (t->accumulation.parts + 1 == t->params.accumulate) {
        copse__accumulation_drop(t);
        t->step++;
    } else if (t->accumulation.parts++ == 0) {
        t->strategy->store->accumulators++;
        set_accumulator(t, t);
    }
}
