/* SPDX-License-Identifier: MIT */
/* What the replicas of all workers have for a variable becomes one value, by the variable's
   aggregation. */
#include "core/value/cross_device.h"
#include "core/value/replica_run.h"

/* The mean of i32 values has no i32 unless all are the same. */
static copse_status aggregate_equal(copse_variable *v, copse_value *value, copse_status mine,
                                    copse_value **out)
{
    char what[COPSE_WHAT_BYTES];
    copse_value *all;
    bool is_same = true;
    copse__call_text("values that must be equal", v->name, what);
    COPSE_TRY(copse__value_gather(v->strategy, value, what, mine, &all));
    const struct copse_block *first = all->items[0]->block;
    for (size_t i = 1; i < all->count; i++)
        is_same &= memcmp(all->items[i]->block->host, first->host, (size_t)v->count * 4) == 0;
    if (is_same)
        *out =
            copse_value_retain(v->strategy->group.workers == 1 ? value->items[0] : all->items[0]);
    copse_value_release(&all);
    if (!is_same)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': i32 values that differ have no i32 mean", v->name);
    return COPSE_OK;
}

static copse_status aggregate_first(copse_variable *v, copse_value *value, copse_status mine,
                                    copse_value **out)
{
    char what[COPSE_WHAT_BYTES];
    if (v->strategy->group.workers == 1) {
        *out = mine ? NULL : copse_value_retain(value->items[0]);
        return mine;
    }
    copse__call_text("the first of all", v->name, what);
    return copse__value_of_first(v->strategy, value, what, mine, out);
}

copse_status copse__variable_aggregate(copse_variable *v, copse_value *value, copse_status mine,
                                       copse_value **out)
{
    copse_strategy *st = v->strategy;
    const bool is_mean = v->aggregation == COPSE_AGGREGATION_MEAN;
    *out = NULL;
    if (v->aggregation == COPSE_AGGREGATION_NONE) /* the same on all workers */
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "variable '%s': has no aggregation, and its replicas may "
                          "differ; make it with one",
                          v->name);
    if (v->aggregation == COPSE_AGGREGATION_ONLY_FIRST_REPLICA)
        return aggregate_first(v, value, mine, out);
    if (is_mean && v->tensor.type == COPSE_I32)
        return aggregate_equal(v, value, mine, out);
    if (mine)
        return copse__group_barrier(&st->group, v->name, 0, mine);
    const copse_reduce_op op = is_mean ? COPSE_REDUCE_MEAN : COPSE_REDUCE_SUM;
    return copse_note(
        copse__cross_reduce_for(v->name, st->cross, st, op, &value, &copse__to_host, 1, out),
        "while aggregating variable '%s'", v->name);
}
