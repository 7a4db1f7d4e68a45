/* SPDX-License-Identifier: MIT */
/* Contexts: where a thread is, in scopes, replicas, merge and update functions, and that it is
   there again after every error. */
#include "core/base/platform.h"
#include "tests/rig/value/replica_rig.h"

static copse_status returns_nothing(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

/* ---- CTX-1: a fresh thread ---- */

static void look_outside(void *arg)
{
    *(bool *)arg = stands_outside();
}

static void ctx_1(void **unused)
{
    copse_strategy *st = strategy_of(2, false);
    copse_thread other;
    bool is_outside = false;
    (void)unused;
    assert_true(stands_outside());
    OK(copse_scope_enter(st));
    OK(copse__thread_start(&other, look_outside, &is_outside));
    copse__thread_join(&other);
    assert_true(is_outside);
    OK(copse_scope_leave(st));
    assert_true(stands_outside());
}

/* ---- CTX-2 and 3: scopes ---- */

static void ctx_2(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        OK(copse_scope_enter(st));
        assert_true(stands_across(st));
        assert_true(copse_has_strategy());
        assert_int_equal(copse_strategy_replicas(copse_current_strategy()), n);
        OK(copse_scope_leave(st));
        assert_true(stands_outside());
    }
}

static copse_status enters_scope(copse_replica_context *rc, copse_value *const *args, size_t count,
                                 void *user, copse_value **result)
{
    (void)args, (void)count, (void)user, (void)result;
    REFUSED(COPSE_ERR_CONTEXT, copse_scope_enter(copse_replica_strategy(rc)), "in replica");
    REFUSED(COPSE_ERR_CONTEXT, copse_scope_leave(copse_replica_strategy(rc)), "not the innermost");
    return COPSE_OK;
}

static void ctx_3(void **unused)
{
    copse_strategy *s = strategy_of(2, true), *t = strategy_of(3, false);
    copse_strategy *standard = copse_current_strategy();
    (void)unused;
    OK(copse_scope_enter(s));
    OK(copse_scope_enter(s));
    assert_true(stands_across(s));
    FAILS(COPSE_ERR_CONTEXT, copse_scope_enter(t), "do not mix");
    FAILS(COPSE_ERR_CONTEXT, copse_scope_leave(t), "not the innermost");
    OK(copse_scope_leave(s));
    assert_true(stands_across(s));
    OK(copse_strategy_run(s, enters_scope, NULL, 0, NULL, NULL));
    FAILS(COPSE_ERR_CONTEXT, copse_scope_enter(standard), "does not nest");
    OK(copse_scope_leave(s));
    assert_true(stands_outside());
    FAILS(COPSE_ERR_CONTEXT, copse_scope_leave(s), "outside of every strategy");

    OK(copse_scope_enter(standard));
    assert_true(stands_outside());
    FAILS(COPSE_ERR_CONTEXT, copse_scope_enter(standard), "does not nest");
    OK(copse_scope_leave(standard));
    FAILS(COPSE_ERR_CONTEXT, copse_scope_leave(standard), "not the innermost");
}

/* ---- CTX-4: in a replica ---- */

struct seen {
    copse_strategy *st;
    uint32_t ids, calls; /* a bit for each replica */
};

static copse_status update_nothing(copse_strategy *st, copse_value *target,
                                   copse_value *const *args, size_t count, void *user,
                                   copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)user, (void)result;
    return COPSE_OK;
}

static copse_status look_in_replica(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    struct seen *seen = user;
    const uint32_t rank = 0;
    (void)args, (void)count, (void)result;
    CHECK(rc == copse_current_replica() && !copse_current_cross_replica());
    CHECK(copse_replica_strategy(rc) == seen->st && copse_current_strategy() == seen->st);
    CHECK(copse_has_strategy() && copse_require_replica(rc) == COPSE_OK);
    CHECK(copse_replica_count(rc) == copse_strategy_replicas(seen->st));
    const uint32_t id = copse_replica_id(rc);
    CHECK(strcmp(copse_replica_device(rc), copse_strategy_device(seen->st, id)->id) == 0);
    seen->ids |= 1u << id;
    seen->calls++;

    copse_value *x = scalar((float)id), *out;
    CHECK(x && copse_value_rank(x) == id);
    const struct copse_destinations to = { .ranks = &rank, .count = 1 };
    REFUSED(COPSE_ERR_CONTEXT, copse_strategy_reduce(seen->st, COPSE_REDUCE_SUM, x, NULL, &out),
            "merge");
    REFUSED(COPSE_ERR_CONTEXT, copse_strategy_reduce_to(seen->st, COPSE_REDUCE_SUM, x, &to, &out),
            "merge");
    REFUSED(COPSE_ERR_CONTEXT,
            copse_strategy_batch_reduce_to(seen->st, COPSE_REDUCE_SUM, &x, &to, 1, &out), "merge");
    REFUSED(COPSE_ERR_CONTEXT, copse_strategy_broadcast(seen->st, x, NULL, &out), "merge");
    REFUSED(COPSE_ERR_CONTEXT,
            copse_strategy_update_non_slot(seen->st, &rank, 1, update_nothing, NULL, 0, NULL, NULL),
            "merge");
    REFUSED(COPSE_ERR_CONTEXT, copse_strategy_run(seen->st, look_in_replica, NULL, 0, NULL, NULL),
            "merge");
    copse_value_release(&x);
    return COPSE_OK;
}

static void ctx_4(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct seen seen = { .st = st };
        OK(copse_strategy_run(st, look_in_replica, NULL, 0, &seen, NULL));
        assert_int_equal(seen.ids, (1u << n) - 1);
        assert_int_equal(seen.calls, n);
        assert_true(stands_outside());
        OK(copse_scope_enter(st));
        OK(copse_strategy_run(st, look_in_replica, NULL, 0, &seen, NULL));
        assert_true(stands_across(st));
        OK(copse_scope_leave(st));
    }
}

/* ---- CTX-5: in a merge function ---- */

static copse_status look_in_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                  void *user, copse_value **result)
{
    struct seen inner = { .st = st };
    struct seen *outer = user;
    (void)args, (void)count, (void)result;
    CHECK(stands_across(st) && copse_has_strategy() && outer->st == st);
    outer->calls++;
    COPSE_TRY(copse_strategy_run(st, look_in_replica, NULL, 0, &inner, NULL));
    CHECK(inner.calls == copse_strategy_replicas(st) && inner.ids == (1u << inner.calls) - 1);
    CHECK(stands_across(st));
    return COPSE_OK;
}

static copse_status merges(copse_replica_context *rc, copse_value *const *args, size_t count,
                           void *user, copse_value **result)
{
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_merge_call(rc, look_in_merge, NULL, 0, user, NULL));
    return copse_require_replica(rc);
}

static copse_status look_in_default_merge(copse_strategy *st, copse_value *const *args,
                                          size_t count, void *user, copse_value **result)
{
    CHECK(stands_across(st) && !copse_has_strategy() && count == 1);
    CHECK(copse_strategy_kind_of(st) == COPSE_STRATEGY_DEFAULT);
    COPSE_TRY(copse_strategy_run(st, returns_nothing, NULL, 0, NULL, NULL));
    REFUSED(COPSE_ERR_CONTEXT, copse_scope_enter(user), "do not mix");
    *result = copse_value_retain(args[0]);
    return COPSE_OK;
}

static void ctx_5(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct seen seen = { .st = st };
        OK(copse_strategy_run(st, merges, NULL, 0, &seen, NULL));
        assert_int_equal(seen.calls, 1);
        assert_true(stands_outside());
        (void)n;
    }
    copse_value *x = scalar(7), *back;
    OK(copse_merge_call(copse_current_replica(), look_in_default_merge, &x, 1,
                        strategy_of(2, false), &back));
    assert_true(scalar_of(back) == 7.0f);
    assert_true(stands_outside());
    copse_value_release(&x);
    copse_value_release(&back);
}

/* ---- CTX-6: a replica context is the current one, or refused ---- */

static copse_replica_context *kept_context;

static copse_status keep_context(copse_replica_context *rc, copse_value *const *args, size_t count,
                                 void *user, copse_value **result)
{
    (void)args, (void)count, (void)user, (void)result;
    if (copse_replica_id(rc) == 0)
        kept_context = rc;
    return COPSE_OK;
}

static copse_status refuse_kept(copse_replica_context *rc, copse_value *const *args, size_t count,
                                void *user, copse_value **result)
{
    (void)rc, (void)args, (void)count, (void)result;
    REFUSED(COPSE_ERR_CONTEXT, copse_require_replica(kept_context), (const char *)user);
    REFUSED(COPSE_ERR_CONTEXT, copse_merge_call(kept_context, look_in_merge, NULL, 0, NULL, NULL),
            (const char *)user);
    REFUSED(COPSE_ERR_CONTEXT, copse_require_replica(NULL), "another");
    return COPSE_OK;
}

static copse_status outer_context_in_merge(copse_strategy *st, copse_value *const *args,
                                           size_t count, void *user, copse_value **result)
{
    (void)args, (void)count, (void)user, (void)result;
    REFUSED(COPSE_ERR_CONTEXT, copse_require_replica(kept_context), "in no replica context");
    /* known, not current */
    CHECK(copse_replica_id(kept_context) == 0 && copse_replica_strategy(kept_context) == st);
    CHECK(copse_replica_count(kept_context) == copse_strategy_replicas(st));
    return copse_strategy_run(st, refuse_kept, NULL, 0, (void *)"of the same strategy", NULL);
}

static copse_status keeps_and_merges(copse_replica_context *rc, copse_value *const *args,
                                     size_t count, void *user, copse_value **result)
{
    COPSE_TRY(keep_context(rc, args, count, user, result));
    COPSE_TRY(copse_merge_call(rc, outer_context_in_merge, NULL, 0, NULL, NULL));
    return copse_require_replica(rc);
}

static void ctx_6(void **unused)
{
    copse_replica_context *outside = copse_current_replica();
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_strategy *other = strategy_of(n == 2 ? 3 : 2, false);
        OK(copse_strategy_run(st, keeps_and_merges, NULL, 0, NULL, NULL));
        OK(copse_strategy_run(st, keep_context, NULL, 0, NULL, NULL));
        OK(copse_strategy_run(st, refuse_kept, NULL, 0, (void *)"of the same strategy", NULL));
        OK(copse_strategy_run(other, refuse_kept, NULL, 0, (void *)"of another strategy", NULL));
        FAILS(COPSE_ERR_CONTEXT, copse_require_replica(kept_context), "of another strategy");
        assert_int_equal(copse_replica_id(kept_context), UINT32_MAX);
        assert_int_equal(copse_replica_count(kept_context), 0);
        assert_null(copse_replica_strategy(kept_context));
        assert_string_equal(copse_replica_device(kept_context), "");
        kept_context = outside;
        OK(copse_strategy_run(st, refuse_kept, NULL, 0, (void *)"of another strategy", NULL));
        OK(copse_scope_enter(st));
        FAILS(COPSE_ERR_CONTEXT, copse_require_replica(outside), "in no replica context");
        OK(copse_scope_leave(st));
    }
    copse_strategy *gone;
    OK(copse_one_device_create(ctx, "host:0", NULL, &gone));
    OK(copse_strategy_run(gone, keep_context, NULL, 0, NULL, NULL));
    copse_strategy_release(&gone);
    FAILS(COPSE_ERR_CONTEXT, copse_require_replica(kept_context), "of another strategy");
    assert_null(copse_replica_strategy(kept_context));
}

/* ---- CTX-7: the rank of an update function ---- */

static copse_status inner_update(copse_strategy *st, copse_value *target, copse_value *const *args,
                                 size_t count, void *user, copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)result;
    CHECK(copse_current_update_rank() == 1);
    return *(bool *)user ? copse_fail(COPSE_ERR_END, "the inner one") : COPSE_OK;
}

static copse_status outer_update(copse_strategy *st, copse_value *target, copse_value *const *args,
                                 size_t count, void *user, copse_value **result)
{
    const uint32_t one = 1;
    (void)args, (void)count, (void)result;
    CHECK(copse_current_update_rank() == 0 && stands_across(st) && !target);
    const copse_status s =
        copse_strategy_update_non_slot(st, &one, 1, inner_update, NULL, 0, user, NULL);
    CHECK(copse_current_update_rank() == 0 && stands_across(st));
    return s;
}

static void ctx_7(void **unused)
{
    const uint32_t zero = 0;
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        if (n == 1)
            continue;
        for (int fails = 0; fails < 2; fails++) {
            bool inner_fails = fails;
            assert_int_equal(copse_current_update_rank(), COPSE_HOST);
            const copse_status s = copse_strategy_update_non_slot(st, &zero, 1, outer_update, NULL,
                                                                  0, &inner_fails, NULL);
            assert_int_equal(s, fails ? COPSE_ERR_END : COPSE_OK);
            assert_int_equal(copse_current_update_rank(), COPSE_HOST);
            assert_true(stands_outside());
        }
    }
}

/* ---- CTX-8: errors leave the stack as it was ---- */

enum place {
    IN_REPLICA,
    IN_MERGE,
    IN_NESTED_REPLICA,
    IN_NESTED_MERGE,
    IN_UPDATE,
    SCOPE_LEFT_OPEN,
    PLACES
};

struct faulty {
    enum place place;
    uint32_t rank;
};

static copse_status fault(const struct faulty *f, enum place place)
{
    return f->place == place ? copse_fail(COPSE_ERR_END, "planted in place %d", (int)place)
                             : COPSE_OK;
}

static copse_status faulty_update(copse_strategy *st, copse_value *target, copse_value *const *args,
                                  size_t count, void *user, copse_value **result)
{
    (void)st, (void)target, (void)args, (void)count, (void)result;
    return fault(user, IN_UPDATE);
}

static copse_status nested_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                 void *user, copse_value **result)
{
    (void)st, (void)args, (void)count, (void)result;
    return fault(user, IN_NESTED_MERGE);
}

static copse_status nested_replica(copse_replica_context *rc, copse_value *const *args,
                                   size_t count, void *user, copse_value **result)
{
    const struct faulty *f = user;
    (void)args, (void)count, (void)result;
    if (copse_replica_id(rc) == f->rank)
        COPSE_TRY(fault(f, IN_NESTED_REPLICA));
    return copse_merge_call(rc, nested_merge, NULL, 0, user, NULL);
}

static copse_status faulty_merge(copse_strategy *st, copse_value *const *args, size_t count,
                                 void *user, copse_value **result)
{
    const struct faulty *f = user;
    const uint32_t zero = 0;
    const struct standing before = standing();
    (void)args, (void)count, (void)result;
    COPSE_TRY(copse_scope_enter(st));
    if (f->place == SCOPE_LEFT_OPEN)
        return COPSE_OK;
    COPSE_TRY(fault(f, IN_MERGE));
    COPSE_TRY(copse_scope_leave(st));
    copse_status s = copse_strategy_run(st, nested_replica, NULL, 0, user, NULL);
    CHECK(stands(before));
    if (s == COPSE_OK)
        s = copse_strategy_update_non_slot(st, &zero, 1, faulty_update, NULL, 0, user, NULL);
    CHECK(stands(before));
    return s;
}

static copse_status faulty_replica(copse_replica_context *rc, copse_value *const *args,
                                   size_t count, void *user, copse_value **result)
{
    const struct faulty *f = user;
    const struct standing before = standing();
    (void)args, (void)count, (void)result;
    if (copse_replica_id(rc) == f->rank)
        COPSE_TRY(fault(f, IN_REPLICA));
    const copse_status s = copse_merge_call(rc, faulty_merge, NULL, 0, user, NULL);
    CHECK(stands(before));
    return s;
}

static void ctx_8(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        for (uint32_t i = 0; i < 2 * (PLACES + 1); i++) {
            struct faulty f = { i / 2, i % 2 ? n - 1 : 0 }; /* the last place has no fault */
            char text[32];
            snprintf(text, sizeof text, "planted in place %d", (int)f.place);
            const copse_status s = copse_strategy_run(st, faulty_replica, NULL, 0, &f, NULL);
            assert_int_equal(s, f.place == PLACES            ? COPSE_OK
                                : f.place == SCOPE_LEFT_OPEN ? COPSE_ERR_CONTEXT
                                                             : COPSE_ERR_END);
            if (f.place < SCOPE_LEFT_OPEN)
                assert_non_null(strstr(copse_last_error(), text));
            assert_true(stands_outside());
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ctx_1), cmocka_unit_test(ctx_2), cmocka_unit_test(ctx_3),
        cmocka_unit_test(ctx_4), cmocka_unit_test(ctx_5), cmocka_unit_test(ctx_6),
        cmocka_unit_test(ctx_7), cmocka_unit_test(ctx_8),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
