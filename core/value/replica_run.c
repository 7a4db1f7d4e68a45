/* SPDX-License-Identifier: MIT */
/* Runs and merge calls: a function on every replica with values as arguments and results. */
#include "core/value/replica_run.h"

struct value_run {
    struct copse_run run;
    copse_replica_fn *fn;
    copse_value *const *args;
    size_t count;
    void *user;
    copse_value *results[COPSE_MAX_REPLICAS];
};

/* ---- runs ---- */

/* The function's arguments as this replica sees them. */
static copse_status replica_run_call(struct copse_run *base, uint32_t rank)
{
    struct value_run *run = (struct value_run *)base;
    copse_value *args[COPSE_MAX_ARGUMENTS] = { 0 };
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < run->count && s == COPSE_OK; i++)
        if (run->args[i])
            s = copse_note(copse__select_replica(run->args[i], rank, &args[i]),
                           "in argument %zu of a run", i);
    if (s == COPSE_OK)
        s = run->fn((copse_replica_context *)base->replicas[rank].frame.handle, args, run->count,
                    run->user, &run->results[rank]);
    copse__values_release(args, run->count);
    return s;
}

/* The merge function in the cross-replica context; `run` may be NULL. */
static copse_status call_merge(copse_strategy *st, struct copse_run *run,
                               const struct copse_merge *m, copse_value *const *args,
                               copse_value **result)
{
    struct copse_frame frame;
    *result = NULL;
    copse__context_push_cross(&frame, st, COPSE_HOST);
    frame.run = run;
    return copse__context_pop(&frame, m->fn(st, args, m->count, m->user, result));
}

/* Replica 0's merge function runs, its result is split. */
static copse_status replica_run_merge(struct copse_run *run)
{
    copse_strategy *st = run->strategy;
    const struct copse_merge *first = run->replicas[0].merge;
    copse_value *args[COPSE_MAX_ARGUMENTS] = { 0 }, *result = NULL;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < first->count && s == COPSE_OK; i++) {
        copse_value *values[COPSE_MAX_REPLICAS];
        for (uint32_t r = 0; r < st->replica_count; r++)
            values[r] = run->replicas[r].merge->args[i];
        s = copse_note(
            copse__regroup(st, COPSE_VALUE_PER_REPLICA, values, NULL, st->replica_count, &args[i]),
            "in argument %zu of %s", i, first->what);
    }
    if (s == COPSE_OK)
        s = copse_note(call_merge(st, run, first, args, &result), "in %s", first->what);
    for (uint32_t r = 0; r < st->replica_count && s == COPSE_OK && result; r++)
        s = copse__select_replica(result, r, &run->replicas[r].merge->result);
    copse__values_release(args, first->count);
    copse_value_release(&result);
    return s;
}

static copse_status take_result(struct value_run *run, copse_value **result)
{
    copse_strategy *st = run->run.strategy;
    if (st->replica_count > 1)
        return copse__regroup(st, COPSE_VALUE_PER_REPLICA, run->results, NULL, st->replica_count,
                              result);
    *result = run->results[0];
    run->results[0] = NULL;
    return COPSE_OK;
}

copse_status copse__check_arguments(const char *what, copse_value *const *args, size_t count)
{
    if (count > 0)
        COPSE_TRY(copse_need(what, args));
    if (count > COPSE_MAX_ARGUMENTS)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: %zu arguments; at most %d are possible", what,
                          count, COPSE_MAX_ARGUMENTS);
    return COPSE_OK;
}

static copse_status replica_run_begin(copse_strategy *st, copse_replica_fn *fn,
                                      copse_value *const *args, size_t count, void *user,
                                      copse_value **out)
{
    COPSE_TRY(copse_need("run", fn));
    COPSE_TRY(copse__check_arguments("run", args, count));
    COPSE_TRY(copse__require_cross(st, "run"));
    for (size_t i = 0; i < count; i++) /* before the first replica runs */
        if (args[i])
            COPSE_TRY(copse_note(copse__check_components(args[i], st->replica_count),
                                 "in argument %zu of a run", i));
    struct value_run run = { .fn = fn,
                             .args = args,
                             .count = count,
                             .user = user,
                             .run = { .strategy = st,
                                      .call = replica_run_call,
                                      .merge = replica_run_merge,
                                      .caller = copse__context_top(),
                                      .callbacks = copse__callback_top() } };
    copse_status s = copse__run_replicas(&run.run);
    if (s == COPSE_OK)
        s = take_result(&run, out);
    copse__values_release(run.results, st->replica_count);
    return s;
}

copse_status copse_strategy_run(copse_strategy *st, copse_replica_fn *fn, copse_value *const *args,
                                size_t count, void *user, copse_value **result)
{
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("run", st));
    copse_value *all = NULL;
    copse_strategy_retain(st);
    copse__group_begin(&st->group, "run");
    const copse_status s =
        copse__group_end(&st->group, replica_run_begin(st, fn, args, count, user, &all));
    if (result)
        *result = all;
    else
        copse_value_release(&all);
    copse_strategy_release(&st);
    return s;
}

/* ---- merge calls ---- */

/* One replica does not wait, and its values need no regrouping. */
static copse_status merge_alone(copse_strategy *st, struct copse_run *run, struct copse_merge *m)
{
    copse_value *result;
    copse_status s = call_merge(st, run, m, m->args, &result);
    if (s == COPSE_OK && result)
        s = copse__select_replica(result, 0, &m->result);
    copse_value_release(&result);
    return s;
}

copse_status copse__merge_call(copse_replica_context *rc, struct copse_merge *m)
{
    COPSE_TRY(copse_require_replica(rc));
    const struct copse_frame *f = copse__context_top();
    if (f && f->is_graph)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "replica %u on %s: %s inside a loss function, which builds "
                          "a graph and runs once for all steps; use copse_all_reduce "
                          "there",
                          f->rank, copse_replica_device(rc), m->what);
    COPSE_TRY(copse__callback_check(m->what, NULL));
    if (!f || f->strategy->replica_count == 1)
        return merge_alone(copse_current_strategy(), f ? f->run : NULL, m);
    const copse_status s = copse__run_wait(f->run, f->rank, m);
    if (s != COPSE_OK)
        copse_value_release(&m->result);
    return s;
}

copse_status copse_merge_call(copse_replica_context *rc, copse_merge_fn *fn,
                              copse_value *const *args, size_t count, void *user,
                              copse_value **result)
{
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("merge call", fn));
    COPSE_TRY(copse__check_arguments("merge call", args, count));
    struct copse_merge m = {
        .what = "a merge call", .fn = fn, .user = user, .args = args, .count = count
    };
    COPSE_TRY(copse__merge_call(rc, &m));
    if (result)
        *result = m.result;
    else
        copse_value_release(&m.result);
    return COPSE_OK;
}
