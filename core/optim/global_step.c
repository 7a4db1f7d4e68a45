/* SPDX-License-Identifier: MIT */
/* The global step of a strategy; with parameter servers the first of them counts the steps of all workers. */
#include "copse/train_step.h"
#include "core/replica/servers.h"

/* The server that counts the steps of all workers. */
static struct copse_server *first_of(const copse_strategy *st)
{
    return st->servers->at[0].server;
}

uint64_t copse_global_step(const copse_strategy *st)
{
    uint64_t step = 0;
    if (!st)
        return 0;
    if (st->servers && first_of(st)->table->counter(first_of(st), false, &step) == COPSE_OK)
        return step;
    return st->global_step;
}

void copse_global_step_set(copse_strategy *st, uint64_t value)
{
    if (!st)
        return;
    st->global_step = value;
    if (st->servers && first_of(st)->table->counter(first_of(st), true, &value) != COPSE_OK)
        copse__log(&st->ctx->base.log, COPSE_LOG_WARN, "global step: the parameter server did not take "
                                                       "it: %s", copse_last_error());
}
