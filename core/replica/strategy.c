/* SPDX-License-Identifier: MIT */
/* A strategy as everything else sees it: see strategy.h. */
#include "core/replica/strategy.h"

#include "copse/distribute/accelerator.h"
#include "copse/distribute/collective.h"
#include "core/reduce/value/value_reduce.h"

/* ---- what belongs to a strategy ---- */

copse_status copse__strategy_reducer(copse_strategy *st, copse_value_reducer **out)
{
    copse_queue *queues[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < st->replica_count; r++)
        queues[r] = st->replicas[r].queue;
    if (!st->reducer)
        COPSE_TRY(copse__value_reducer_create(st->ctx, queues, st->replica_count, &st->reducer));
    *out = st->reducer;
    return COPSE_OK;
}

copse_status copse__strategy_count(copse_strategy *st, bool is_set, uint64_t *value)
{
    st->global_step = is_set ? *value : st->global_step + *value;
    *value = st->global_step;
    return COPSE_OK;
}

bool copse__strategy_has_one_queue(const copse_strategy *st)
{
    for (uint32_t r = 1; r < st->replica_count; r++)
        if (st->replicas[r].queue != st->replicas[0].queue)
            return false;
    return true;
}

void copse__dependant_add(copse_strategy *st, struct copse_dependant *d, const void *kind)
{
    d->kind = kind;
    d->next = st->dependants;
    st->dependants = d;
}

void copse__dependant_remove(copse_strategy *st, struct copse_dependant *d)
{
    struct copse_dependant **link = &st->dependants;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
}

void *copse__dependant_next(const copse_strategy *st, const struct copse_dependant *d,
                            const void *kind)
{
    struct copse_dependant *next = d ? d->next : st->dependants;
    while (next && next->kind != kind)
        next = next->next;
    return next;
}

/* ---- references ---- */

copse_strategy *copse_strategy_retain(copse_strategy *st)
{
    if (st && st->table->dispose)
        copse__ref(&st->refs);
    return st;
}

void copse_strategy_release(copse_strategy **st)
{
    if (!st || !*st)
        return;
    if ((*st)->table->dispose && copse__unref(&(*st)->refs))
        (*st)->table->dispose(*st);
    *st = NULL;
}

/* ---- what it is ---- */

COPSE_PROPERTY(copse_strategy_kind, copse_strategy_kind_of, copse_strategy, x->table->kind,
               COPSE_STRATEGY_DEFAULT)
COPSE_PROPERTY(const char *, copse_strategy_name, copse_strategy, x->table->name, "")
COPSE_PROPERTY(uint32_t, copse_strategy_replicas, copse_strategy, x->replica_count, 0)
COPSE_PROPERTY(uint32_t, copse_strategy_replicas_in_sync, copse_strategy, x->group.ranks, 0)
COPSE_PROPERTY(uint32_t, copse_strategy_first_rank, copse_strategy, x->group.first, 0)

const struct copse_device_info *copse_strategy_device(const copse_strategy *st, uint32_t replica)
{
    return st && replica < st->replica_count && st->replicas[replica].dev
               ? &st->replicas[replica].dev->info
               : NULL;
}

copse_status copse_strategy_update_config(const copse_strategy *st,
                                          const struct copse_context_params *config,
                                          struct copse_context_params *out)
{
    COPSE_TRY(copse_need("strategy", st, config, out));
    COPSE_TRY(copse_no_reserved(copse_context_params, config));
    COPSE_TRY(copse_no_reserved(copse_cache_params, &config->cache));
    *out = *config;
    return COPSE_OK;
}

uint64_t copse_strategy_submissions(const copse_strategy *st)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; st && r < st->replica_count; r++) {
        bool is_first = true;
        for (uint32_t i = 0; i < r; i++)
            is_first &= st->replicas[i].queue != st->replicas[r].queue;
        sum += is_first ? copse_queue_submissions(st->replicas[r].queue) : 0;
    }
    return sum;
}

void copse_strategy_variables(copse_strategy *st, copse_variable *const **list, size_t *count)
{
    if (list)
        *list = st ? st->variables.at : NULL;
    if (count)
        *count = st ? st->variables.count : 0;
}
