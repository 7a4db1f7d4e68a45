/* SPDX-License-Identifier: MIT */
/* Shared by the tests of wrong use: a stage with all objects that a call may need, and a check that
   a strategy still works. */
#ifndef COPSE_MISUSE_RIG_H
#define COPSE_MISUSE_RIG_H

#include "tests/rig/value/replica_rig.h"

/* The objects for a row. */
struct stage {
    copse_strategy *st, *other;
    /* mirrored SUM and NONE, replica-local SUM; other's */
    copse_variable *sum, *plain, *local, *foreign;
    copse_value *one, *parts; /* an array on the host; a per-replica value */
    copse_replica_context *ended;
    const struct row *row;
};

typedef copse_status body_fn(struct stage *s);

static inline copse_status nothing(copse_replica_context *rc, copse_value *const *args,
                                   size_t count, void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

static inline copse_status merge_nothing(copse_strategy *st, copse_value *const *args, size_t count,
                                         void *user, copse_value **result)
{
    (void)st, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

static inline copse_status released(copse_status s, copse_value **v)
{
    copse_value_release(v);
    return s;
}

static inline copse_status gives_id(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    (void)args, (void)count;
    if (user)
        *(copse_replica_context **)user = rc;
    return copse_value_scalar(ctx, (float)copse_replica_id(rc), result);
}

/* A run with merge calls works correctly. */
static inline copse_status sums_ids(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    copse_value *id;
    (void)args, (void)count, (void)user;
    COPSE_TRY(copse_value_scalar(ctx, (float)copse_replica_id(rc), &id));
    return released(copse_replica_all_reduce(rc, COPSE_REDUCE_SUM, id, result), &id);
}

static inline void still_works(copse_strategy *st, uint32_t n)
{
    copse_value *out, *list[MAX_RANKS];
    size_t count;
    assert_true(stands_outside());
    OK(copse_strategy_run(st, sums_ids, NULL, 0, NULL, &out));
    copse_local_results(out, list, MAX_RANKS, &count);
    for (size_t r = 0; r < count; r++)
        assert_true(scalar_of(list[r]) == (float)(n * (n - 1) / 2));
    copse_value_release(&out);
}

static inline copse_variable *make(copse_strategy *st, copse_synchronization sync,
                                   copse_aggregation aggregation)
{
    copse_variable *v;
    const struct copse_variable_params p = { .name = fresh("v"),
                                             .shape = COPSE_SCALAR,
                                             .synchronization = sync,
                                             .aggregation = aggregation };
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static inline void set_stage(struct stage *s, copse_strategy *st, uint32_t n)
{
    copse_value *parts[MAX_RANKS];
    *s = (struct stage){ .st = st, .other = strategy_of(n == 2 ? 3 : 2, false), .one = scalar(1) };
    s->sum = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_SUM);
    s->plain = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_NONE);
    s->local = make(st, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM);
    s->foreign = make(s->other, COPSE_SYNC_ON_READ, COPSE_AGGREGATION_SUM);
    OK(copse_strategy_run(st, gives_id, NULL, 0, &s->ended, NULL));
    for (uint32_t r = 0; r < n; r++)
        parts[r] = scalar_on(st, r, (float)r);
    s->parts = per_replica(st, parts);
}

#endif
