/* SPDX-License-Identifier: MIT */
/* What every strategy can do with the values of its replicas: reduce, broadcast, update. */
#include "core/value/replica_run.h"

/* ---- reduce ---- */

copse_status copse__strategy_reduce_to_host(copse_strategy *st, copse_reduce_op op,
                                            copse_value *value, copse_value **out)
{
    copse_value *all;
    COPSE_TRY(copse_cross_reduce(st->cross, st, op, value, &copse__to_host, &all));
    const copse_status s = copse__select_replica(all, 0, out);
    copse_value_release(&all);
    return s;
}

copse_status copse_strategy_set_cross_device(copse_strategy *st, copse_cross_device *x)
{
    COPSE_TRY(copse__require_cross(st, "set cross-device operations"));
    COPSE_TRY(copse__require_device(st, "strategy"));
    if (x != st->cross && st->dependants)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "set cross-device operations: the strategy has a trainer or a tower "
                          "optimizer, which was made for its present ones: release it first, set "
                          "the operations, and make it again");
    copse_cross_device_retain(x);
    copse_cross_device_release(&st->cross);
    st->cross = x;
    return COPSE_OK;
}

static copse_status check_reduce(copse_strategy *st, const char *what, copse_reduce_op op,
                                 copse_value *const *values, size_t count, copse_value **out)
{
    COPSE_TRY(copse_need(what, values, out));
    memset(out, 0, count * sizeof *out);
    COPSE_TRY(copse__require_cross(st, what));
    for (size_t i = 0; i < count; i++)
        if (!values[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "%s: value %zu is NULL", what, i);
    return copse_need_known(what, "operation", op, COPSE_REDUCE_MEAN);
}

copse_status copse_strategy_reduce(copse_strategy *st, copse_reduce_op op, copse_value *value,
                                   const int *axis, copse_value **out)
{
    COPSE_TRY(check_reduce(st, "reduce", op, &value, 1, out));
    if (axis)
        return copse__reduce_axis(st, op, value, *axis, out);
    if (st->group.ranks == 1 && !copse__value_is_distributed(value)) {
        *out = copse_value_retain(value);
        return COPSE_OK;
    }
    return copse__strategy_reduce_to_host(st, op, value, out);
}

static copse_status reduce_batch(copse_strategy *st, const char *what, copse_reduce_op op,
                                 copse_value *const *values, const struct copse_destinations *to,
                                 size_t count, copse_value **out)
{
    COPSE_TRY(check_reduce(st, what, op, values, count, out));
    if (st->ctx)
        return copse_cross_batch_reduce(st->cross, st, op, values, to, count, out);
    /* the default strategy: nothing to reduce, and no device to bring anything to */
    for (size_t i = 0; i < count; i++)
        out[i] = copse_value_retain(values[i]);
    return COPSE_OK;
}

copse_status copse_strategy_reduce_to(copse_strategy *st, copse_reduce_op op, copse_value *value,
                                      const struct copse_destinations *to, copse_value **out)
{
    return reduce_batch(st, "reduce_to", op, &value, to, 1, out);
}

copse_status copse_strategy_batch_reduce_to(copse_strategy *st, copse_reduce_op op,
                                            copse_value *const *values,
                                            const struct copse_destinations *to, size_t count,
                                            copse_value **out)
{
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "batch reduce: an empty batch");
    return reduce_batch(st, "batch reduce", op, values, to, count, out);
}

copse_status copse_strategy_broadcast(copse_strategy *st, copse_value *value,
                                      const struct copse_destinations *to, copse_value **out)
{
    COPSE_TRY(check_reduce(st, "broadcast", COPSE_REDUCE_SUM, &value, 1, out));
    if (st->ctx)
        return copse_cross_broadcast(st->cross, st, value, to, out);
    *out = copse_value_retain(value);
    return COPSE_OK;
}

/* ---- update ---- */

/* An update that runs once takes one value for each argument, not one per replica. */
static copse_status check_single(const copse_value *v)
{
    if (copse__value_is_distributed(v) && v->count > 1)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "an update of a variable with one copy runs once: the value "
                          "has %zu components, reduce it to one",
                          v->count);
    for (size_t i = 0; copse__value_is_structure(v) && i < v->count; i++)
        COPSE_TRY(check_single(v->items[i]));
    return COPSE_OK;
}

/* One call for one rank, in its own frame. `is_partial`: some replicas of this worker get none. */
static copse_status update_one(copse_strategy *st, copse_variable *v, uint32_t rank,
                               bool is_partial, copse_update_fn *fn, copse_value *const *args,
                               size_t count, void *user, copse_value **result)
{
    copse_value *own[COPSE_MAX_ARGUMENTS] = { 0 }, *target = NULL;
    copse_status s = v ? copse__value_of_variable(v, rank, &target) : COPSE_OK;
    for (size_t i = 0; i < count && s == COPSE_OK; i++)
        if (args[i])
            s = copse_note(copse__select_update(args[i], rank, &own[i]),
                           "in argument %zu of an update", i);
    if (s == COPSE_OK) {
        struct copse_frame frame;
        copse__context_push_cross(&frame, st, rank);
        frame.is_partial = is_partial;
        s = fn(st, target, own, count, user, result);
        s = copse__context_pop(&frame, s);
    }
    copse__values_release(own, count);
    copse_value_release(&target);
    return copse_note(s, "in the update of replica %u", rank);
}

static copse_status update_all(copse_strategy *st, copse_variable *v, const uint32_t *ranks,
                               size_t rank_count, copse_update_fn *fn, copse_value *const *args,
                               size_t count, void *user, copse_value **result)
{
    copse_value *results[COPSE_MAX_REPLICAS] = { 0 };
    const bool is_partial = rank_count < copse__strategy_copies(st);
    copse_status s = COPSE_OK;
    copse_strategy_retain(st);
    for (size_t i = 0; i < rank_count && s == COPSE_OK; i++)
        s = update_one(st, v, ranks ? ranks[i] : (uint32_t)i, is_partial, fn, args, count, user,
                       &results[i]);
    if (s == COPSE_OK && result && !st->ctx) {
        *result = results[0];
        results[0] = NULL;
    } else if (s == COPSE_OK && result) {
        s = copse__regroup(st, COPSE_VALUE_MIRRORED, results, ranks, rank_count, result);
    }
    copse__values_release(results, rank_count);
    copse_strategy_release(&st);
    return s;
}

static copse_status check_update(copse_strategy *st, copse_update_fn *fn, copse_value *const *args,
                                 size_t count, copse_value **result)
{
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("update", st, fn));
    COPSE_TRY(copse__require_cross(st, "update"));
    return copse__check_arguments("update", args, count);
}

copse_status copse_strategy_update(copse_strategy *st, copse_variable *v, copse_update_fn *fn,
                                   copse_value *const *args, size_t count, void *user,
                                   copse_value **result)
{
    COPSE_TRY(check_update(st, fn, args, count, result));
    COPSE_TRY(copse__variable_of(v, st, "update"));
    for (size_t i = 0; st->table->has_one_copy && i < count; i++)
        if (args[i])
            COPSE_TRY(copse_note(check_single(args[i]), "in argument %zu of an update", i));
    return update_all(st, v, NULL, copse__strategy_copies(st), fn, args, count, user, result);
}

copse_status copse_strategy_update_non_slot(copse_strategy *st, const uint32_t *ranks,
                                            size_t rank_count, copse_update_fn *fn,
                                            copse_value *const *args, size_t count, void *user,
                                            copse_value **result)
{
    COPSE_TRY(check_update(st, fn, args, count, result));
    COPSE_TRY(copse_need("update", ranks));
    if (rank_count == 0 || rank_count > st->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "update: %zu ranks; 1 to %u are possible", rank_count,
                          st->replica_count);
    for (size_t i = 0; i < rank_count; i++)
        for (size_t k = 0; k <= i; k++)
            if (ranks[i] >= st->replica_count || (k < i && ranks[k] == ranks[i]))
                return copse_fail(COPSE_ERR_ARGUMENT,
                                  "update: rank %u is twice there, or not below %u", ranks[i],
                                  st->replica_count);
    return update_all(st, NULL, ranks, rank_count, fn, args, count, user, result);
}

/* ---- in a replica ---- */

static copse_status all_reduce_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                     void *user, copse_value **result)
{
    (void)count;
    return copse_strategy_reduce_to(st, *(const copse_reduce_op *)user, args[0], NULL, result);
}

copse_status copse_replica_all_reduce(copse_replica_context *rc, copse_reduce_op op,
                                      copse_value *value, copse_value **result)
{
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("all-reduce", value, result));
    COPSE_TRY(copse_need_known("all-reduce", "operation", op, COPSE_REDUCE_MEAN));
    struct copse_merge m = {
        .what = op == COPSE_REDUCE_SUM ? "an all-reduce by sum" : "an all-reduce by mean",
        .fn = all_reduce_merge,
        .user = &op,
        .args = &value,
        .count = 1,
    };
    const copse_status s = copse__merge_call(rc, &m);
    *result = m.result;
    return s;
}
