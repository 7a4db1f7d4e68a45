/* SPDX-License-Identifier: MIT */
/* Runs whose replicas differ are refused and leave the strategy as it was; runs of odd numbers of
   replicas, of special values, of arguments of another strategy, and of one replica; failures
   without a text. */
#include <math.h>

#include "tests/rig/misuse_rig.h"

/* ---- runs that cannot end well ---- */

enum fault {
    FEWER_MERGES,
    MORE_MERGES,
    OTHER_KIND,
    OTHER_VARIABLE,
    OTHER_CHANGE,
    OTHER_OPERATION,
    OTHER_COUNT,
    OTHER_SHAPE,
    ARGUMENT_LISTS,
    RESULT_LISTS,
    RESULT_DICTS,
    RESULT_MISSING,
    RESULT_KINDS,
    FAILS_FIRST,
    FAILS_LATE,
    FAILS_TEXTLESS,
    FAULTS
};

struct wrong {
    struct stage *s;
    enum fault fault;
    uint32_t odd; /* the replica that differs */
};

static copse_value *list_of(copse_value *item, size_t count)
{
    copse_value *items[2] = { item, item }, *list = NULL;
    return copse_value_list(ctx, items, count, &list) ? NULL : list;
}

static copse_value *dict_of(copse_value *item, const char *name)
{
    copse_value *dict = NULL;
    return copse_value_dict(ctx, &name, &item, 1, &dict) ? NULL : dict;
}

static copse_status merge_with(copse_replica_context *rc, copse_value *const *args, size_t count)
{
    return copse_merge_call(rc, merge_nothing, args, count, NULL, NULL);
}

static copse_status all_reduce(copse_replica_context *rc, copse_reduce_op op, copse_value *v)
{
    copse_value *out = NULL;
    return released(copse_replica_all_reduce(rc, op, v, &out), &out);
}

static copse_status meet_wrongly(copse_replica_context *rc, const struct wrong *w, bool is_odd,
                                 copse_value *own)
{
    copse_variable *v = is_odd && w->fault == OTHER_VARIABLE ? w->s->plain : w->s->sum;
    copse_value *two[] = { own, own }, *structure;
    switch (w->fault) {
    case FEWER_MERGES:
        return is_odd ? COPSE_OK : merge_with(rc, NULL, 0);
    case MORE_MERGES:
        return is_odd ? merge_with(rc, NULL, 0) : COPSE_OK;
    case OTHER_KIND:
        return is_odd ? copse_assign(v, own) : merge_with(rc, two, 1);
    case OTHER_VARIABLE:
        return copse_assign(v, own);
    case OTHER_CHANGE:
        return is_odd ? copse_assign_add(v, own) : copse_assign(v, own);
    case OTHER_OPERATION:
        return all_reduce(rc, is_odd ? COPSE_REDUCE_MEAN : COPSE_REDUCE_SUM, own);
    case OTHER_COUNT:
        return merge_with(rc, two, is_odd ? 2 : 1);
    case OTHER_SHAPE:
        COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), (const float[]){ 1, 2 },
                                     &structure));
        return released(all_reduce(rc, COPSE_REDUCE_SUM, is_odd ? structure : own), &structure);
    case ARGUMENT_LISTS:
        structure = list_of(own, is_odd ? 2 : 1);
        return released(merge_with(rc, &structure, 1), &structure);
    default:
        return merge_with(rc, two, 1);
    }
}

static copse_status differs(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    const struct wrong *w = user;
    const bool is_odd = copse_replica_id(rc) == w->odd;
    copse_value *own;
    (void)args, (void)count;
    COPSE_TRY(copse_value_scalar(ctx, (float)copse_replica_id(rc), &own));
    copse_status s = COPSE_OK;
    if (is_odd && w->fault == FAILS_FIRST)
        s = copse_fail(COPSE_ERR_FORMAT, "planted before the merge");
    if (s == COPSE_OK)
        s = merge_with(rc, &own, 1);
    if (s == COPSE_OK)
        s = meet_wrongly(rc, w, is_odd, own);
    if (s == COPSE_OK && is_odd && w->fault == FAILS_LATE)
        s = copse_fail(COPSE_ERR_FORMAT, "planted behind the merge");
    if (s == COPSE_OK && is_odd && w->fault == FAILS_TEXTLESS)
        s = COPSE_ERR_FORMAT;
    if (s == COPSE_OK && w->fault == RESULT_LISTS)
        *result = list_of(own, is_odd ? 2 : 1);
    else if (s == COPSE_OK && w->fault == RESULT_DICTS)
        *result = dict_of(own, is_odd ? "odd" : "name");
    else if (s == COPSE_OK && w->fault == RESULT_KINDS)
        *result = is_odd ? list_of(own, 1) : dict_of(own, "name");
    else if (s == COPSE_OK && !(w->fault == RESULT_MISSING && is_odd))
        *result = copse_value_retain(own);
    copse_value_release(&own);
    return s;
}

static const struct {
    copse_status want;
    const char *word;
} outcomes[FAULTS] = {
    [FEWER_MERGES] = { COPSE_ERR_CONTEXT, "all must make the same ones" },
    [MORE_MERGES] = { COPSE_ERR_CONTEXT, "all must make the same ones" },
    [OTHER_KIND] = { COPSE_ERR_CONTEXT, "an assignment to variable" },
    [OTHER_VARIABLE] = { COPSE_ERR_CONTEXT, "all must make the same calls" },
    [OTHER_CHANGE] = { COPSE_ERR_CONTEXT, "an addition to variable" },
    [OTHER_OPERATION] = { COPSE_ERR_CONTEXT, "an all-reduce by mean" },
    [OTHER_COUNT] = { COPSE_ERR_SHAPE, "arguments in replica 0" },
    [OTHER_SHAPE] = { COPSE_ERR_SHAPE, "replica" },
    [ARGUMENT_LISTS] = { COPSE_ERR_SHAPE, "list of 2" },
    [RESULT_LISTS] = { COPSE_ERR_SHAPE, "list of 2" },
    [RESULT_DICTS] = { COPSE_ERR_SHAPE, "has an item" },
    [RESULT_MISSING] = { COPSE_ERR_SHAPE, "nothing" },
    [RESULT_KINDS] = { COPSE_ERR_SHAPE, "dictionary" },
    [FAILS_FIRST] = { COPSE_ERR_FORMAT, "before the merge" },
    [FAILS_LATE] = { COPSE_ERR_FORMAT, "behind the merge" },
    [FAILS_TEXTLESS] = { COPSE_ERR_FORMAT, "returned ERR_FORMAT" },
};

static void runs_that_differ_are_refused(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct stage s;
        set_stage(&s, st, n);
        s.plain = make(st, COPSE_SYNC_ON_WRITE, COPSE_AGGREGATION_MEAN);
        for (uint32_t i = 0; n > 1 && i < 2 * FAULTS; i++) {
            struct wrong w = { &s, (enum fault)(i / 2), i % 2 ? n - 1 : 0 };
            copse_value *out;
            const copse_status got = copse_strategy_run(st, differs, NULL, 0, &w, &out);
            if (got != outcomes[w.fault].want ||
                !strstr(copse_last_error(), outcomes[w.fault].word))
                fail_msg("fault %d of replica %u of %u: %s, not %s about '%s': %s", (int)w.fault,
                         w.odd, n, copse_status_name(got),
                         copse_status_name(outcomes[w.fault].want), outcomes[w.fault].word,
                         copse_last_error());
            assert_null(out);
            still_works(st, n);
        }
        copse_value_release(&s.one);
        copse_value_release(&s.parts);
    }
}

/* ---- what numbers do ---- */

static void is_reduced(copse_strategy *st, uint32_t n, const float *values, float sum)
{
    copse_value *parts[MAX_RANKS], *v, *out;
    for (uint32_t r = 0; r < n; r++)
        parts[r] = scalar_on(st, r, values[r]);
    v = per_replica(st, parts);
    for (int op = COPSE_REDUCE_SUM; op <= COPSE_REDUCE_MEAN; op++) {
        OK(copse_strategy_reduce(st, (copse_reduce_op)op, v, NULL, &out));
        const float want = op == COPSE_REDUCE_MEAN ? sum / (float)n : sum, got = scalar_of(out);
        if (isnan(want) ? !isnan(got) : got != want)
            fail_msg("%u replicas, operation %d: %g, not %g", n, op, (double)got, (double)want);
        copse_value_release(&out);
    }
    copse_value_release(&v);
}

static void odd_numbers_of_replicas_and_special_values(void **unused)
{
    static const uint32_t counts[] = { 1, 3, 5, 7 };
    (void)unused;
    for (uint32_t i = 0; i < 2 * COPSE_COUNT(counts); i++) {
        const uint32_t n = counts[i / 2];
        copse_strategy *st = strategy_of(n, i % 2);
        float values[MAX_RANKS] = { 1, 2, 3, 4, 5, 6, 7 };
        is_reduced(st, n, values, (float)(n * (n + 1) / 2));
        values[n - 1] = NAN;
        is_reduced(st, n, values, NAN);
        values[0] = INFINITY;
        values[n - 1] = n == 1 ? INFINITY : -INFINITY;
        is_reduced(st, n, values, n == 1 ? INFINITY : NAN);

        copse_value *parts[MAX_RANKS], *v, *out;
        for (uint32_t r = 0; r < n; r++)
            OK(copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(0, 3), NULL, &parts[r]));
        v = per_replica(st, parts);
        OK(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, v, NULL, &out));
        assert_int_equal(copse_value_shape(out).rank, 2);
        assert_int_equal(copse_value_shape(out).dims[0], 0);
        copse_value_release(&out);
        copse_value_release(&v);
    }
}

/* ---- functions that fail without a text ---- */

static copse_status replica_without_text(copse_replica_context *rc, copse_value *const *args,
                                         size_t count, void *user, copse_value **result)
{
    copse_merge_fn *merge = *(copse_merge_fn **)user;
    (void)args, (void)count, (void)result;
    return merge ? copse_merge_call(rc, merge, NULL, 0, NULL, NULL) : COPSE_ERR_FORMAT;
}

static copse_status merge_without_text(copse_strategy *st, copse_value *const *args, size_t count,
                                       void *user, copse_value **result)
{
    (void)st, (void)args, (void)count, (void)user, (void)result;
    return COPSE_ERR_FORMAT;
}

static copse_status update_without_text(copse_strategy *st, copse_value *target,
                                        copse_value *const *args, size_t count, void *user,
                                        copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)user, (void)result;
    return COPSE_ERR_FORMAT;
}

/* Their text is not that of whatever failed before. */
static void has_own_text(copse_status s)
{
    if (s != COPSE_ERR_FORMAT || strstr(copse_last_error(), "nonsense") ||
        !strstr(copse_last_error(), "returned ERR_FORMAT"))
        fail_msg("%s: %s", copse_status_name(s), copse_last_error());
}

static void textless_failures_say_so(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        const uint32_t last = n - 1;
        copse_reduce_op op;
        copse_merge_fn *merge = NULL;
        for (int i = 0; i < 3; i++) {
            FAILS(COPSE_ERR_ARGUMENT, copse_reduce_op_parse("nonsense", &op), "nonsense");
            if (i == 2)
                has_own_text(copse_strategy_update_non_slot(st, &last, 1, update_without_text, NULL,
                                                            0, NULL, NULL));
            else
                has_own_text(copse_strategy_run(st, replica_without_text, NULL, 0, &merge, NULL));
            merge = merge_without_text;
        }
    }
}

/* ---- arguments of another strategy ---- */

static copse_status counts_calls(copse_replica_context *rc, copse_value *const *args, size_t count,
                                 void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)result;
    ++*(uint32_t *)user;
    return COPSE_OK;
}

/* Neither does a component go unseen, nor do some replicas run where others have none. */
static void components_are_one_for_each_replica(void **unused)
{
    (void)unused;
    for (uint32_t n = 1; n <= 4; n++) {
        copse_value *parts[4], *v, *structure, *out;
        uint32_t calls = 0;
        for (uint32_t r = 0; r < n; r++)
            parts[r] = scalar((float)r);
        v = per_replica(strategy_of(n, false), parts);
        structure = list_of(v, 2);
        for (uint32_t other = 1; other <= 4; other++)
            if (other != n) {
                FAILS(COPSE_ERR_ARGUMENT,
                      copse_strategy_run(strategy_of(other, false), counts_calls, &v, 1, &calls,
                                         &out),
                      "argument 0 of a run");
                FAILS(COPSE_ERR_ARGUMENT,
                      copse_strategy_run(strategy_of(other, false), counts_calls, &structure, 1,
                                         &calls, &out),
                      "one for each replica");
            }
        assert_int_equal(calls, 0);
        OK(copse_strategy_run(strategy_of(n, false), counts_calls, &structure, 1, &calls, &out));
        assert_int_equal(calls, n);
        copse_value_release(&v);
        copse_value_release(&structure);
    }
}

/* One replica is no strategy at all: results stay what the function gave, without arithmetic. */
static void one_replica_is_plain(void **unused)
{
    (void)unused;
    for (int mixed = 0; mixed < 2; mixed++) {
        copse_strategy *st = strategy_of(1, mixed);
        copse_value *x = scalar(0.1f), *out;
        OK(copse_strategy_run(st, sums_ids, NULL, 0, NULL, &out));
        assert_int_equal(copse_value_kind_of(out), COPSE_VALUE_ARRAY);
        copse_value_release(&out);
        OK(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, x, NULL, &out));
        assert_ptr_equal(out, x);
        copse_value_release(&out);
        copse_value_release(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_that_differ_are_refused),
        cmocka_unit_test(odd_numbers_of_replicas_and_special_values),
        cmocka_unit_test(textless_failures_say_so),
        cmocka_unit_test(components_are_one_for_each_replica),
        cmocka_unit_test(one_replica_is_plain),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
