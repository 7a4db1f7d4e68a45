/* SPDX-License-Identifier: MIT */
/* The global step of a strategy: the count of training steps of the job. */
#include "copse/compat/train_step.h"
#include "core/replica/strategy.h"

uint64_t copse_global_step(const copse_strategy *st)
{
    uint64_t step = 0;
    if (!st)
        return 0;
    return st->table->count((copse_strategy *)(uintptr_t)st, false, &step) == COPSE_OK
               ? step
               : st->global_step;
}

void copse_global_step_set(copse_strategy *st, uint64_t value)
{
    if (!st ||
        (st->ctx && !copse__callback_allows(&st->ctx->base.log, "copse_global_step_set", st)))
        return;
    if (st->table->count(st, true, &value) != COPSE_OK)
        copse__log(&st->ctx->base.log, COPSE_LOG_WARN,
                   "global step: the parameter server did not take "
                   "it: %s",
                   copse_last_error());
}
