/* SPDX-License-Identifier: MIT */
/* Collectives of values when workers do not come to the same one, cannot take part, or are lost on
   the way: who it is is said on all the others, and nobody waits for ever. */
#include <stdatomic.h>

#include "copse/distribute/replica.h"
#include "tests/rig/workers/worker_rig.h"

static copse_status sum_of(copse_strategy *st, copse_reduce_op op, copse_type type,
                           copse_shape shape)
{
    static const float zeros[8];
    copse_value *c[8] = { NULL }, *v, *out = NULL;
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++)
        COPSE_TRY(copse_value_create_on(st, r, type, shape, zeros, &c[r]));
    copse_status s = copse_value_per_replica(st, c, copse_strategy_replicas(st), &v);
    for (uint32_t r = 0; r < copse_strategy_replicas(st); r++)
        copse_value_release(&c[r]);
    if (s)
        return s;
    s = copse_strategy_reduce(st, op, v, NULL, &out);
    copse_value_release(&v);
    copse_value_release(&out);
    return s;
}

static copse_status local_variable(copse_strategy *st, const char *name, copse_variable **v)
{
    return copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = name,
                                         .shape = COPSE_SHAPE(2),
                                         .synchronization = COPSE_SYNC_ON_READ,
                                         .aggregation = COPSE_AGGREGATION_SUM },
        v);
}

/* ---- other collectives ---- */

struct pair {
    copse_reduce_op op;
    copse_type type;
    copse_shape shape;
    const char *says; /* of the second worker's */
};

static copse_status do_pair(struct worker *w, copse_strategy *st)
{
    const struct pair *p = w->job;
    COPSE_TRY(sum_of(st, COPSE_REDUCE_SUM, COPSE_F32, COPSE_SHAPE(2))); /* all is well */
    return w->rank ? sum_of(st, p->op, p->type, p->shape)
                   : sum_of(st, COPSE_REDUCE_SUM, COPSE_F32, COPSE_SHAPE(2));
}

static copse_status other_variable(struct worker *w, copse_strategy *st)
{
    copse_variable *v[2];
    copse_value *out;
    COPSE_TRY(local_variable(st, "loss", &v[0]));
    COPSE_TRY(local_variable(st, "accuracy", &v[1]));
    for (uint32_t i = 0; i < 2; i++) {
        COPSE_TRY(copse_read(v[w->rank ? 1 - i : i], &out));
        copse_value_release(&out);
    }
    return COPSE_OK;
}

/* A variable on the one, a sum on the other. */
static copse_status other_kind(struct worker *w, copse_strategy *st)
{
    copse_variable *v;
    return w->rank ? sum_of(st, COPSE_REDUCE_SUM, COPSE_F32, COPSE_SHAPE(2))
                   : local_variable(st, "loss", &v);
}

static void assert_both_say(struct worker *w, const char *first, const char *second)
{
    for (uint32_t v = 0; v < 2; v++)
        if (w[v].status != COPSE_ERR_ARGUMENT || !strstr(w[v].text, "is at another collective") ||
            !strstr(w[v].text, first) || !strstr(w[v].text, second))
            fail_msg("worker %u: %s: %s", v, copse_status_name(w[v].status), w[v].text);
    assert_non_null(strstr(w[0].text, "worker 1 (h1:1)"));
    assert_non_null(strstr(w[1].text, "worker 0 (h0:1)"));
}

static void clu_5(void **state)
{
    static const struct pair pairs[] = {
        { COPSE_REDUCE_MEAN, COPSE_F32, { 1, { 2 } }, "mean of f32 [2]" },
        { COPSE_REDUCE_MEAN, COPSE_I32, { 1, { 3 } }, "mean of i32 [3] (24 bytes" },
    };
    struct worker w[2];
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(pairs); i++) {
        run_workers_over(&copse__transport_local, w, 2, 1 + (uint32_t)i % 2, &pairs[i], do_pair);
        assert_both_say(w, "sum of f32 [2] (8 bytes", pairs[i].says);
    }
    run_workers(w, 2, 1, other_variable);
    assert_both_say(w, "for 'loss'", "for 'accuracy'");
    run_workers(w, 2, 1, other_kind);
    assert_both_say(w, "variable 'loss'", "sum of f32 [2]");
}

/* ---- operands that differ ---- */

static copse_status array_of(copse_type type, copse_shape shape, copse_value **out)
{
    static const float zeros[256];
    return copse_value_create(ctx, type, shape, zeros, out);
}

static copse_status sparse_rows(uint32_t rows, copse_value **out)
{
    static const float zeros[8];
    static const int32_t row = 0;
    return copse_value_sparse(
        ctx, &(struct copse_sparse_params){ COPSE_SHAPE(rows, 2), 1, &row, zeros }, out);
}

enum { CASES = 9 };

/* What the last of three workers has, and the others, in case `i`. */
static copse_status odd_value(uint32_t i, bool is_odd, copse_value **out)
{
    static const struct odd_case {
        copse_type type;
        copse_shape shape;
    } cases[] = {
        { COPSE_F32, { 1, { 2 } } },    { COPSE_F32, { 1, { 0 } } },    { COPSE_I32, { 1, { 3 } } },
        { COPSE_F32, { 2, { 1, 3 } } }, { COPSE_F32, { 2, { 3, 1 } } }, { COPSE_F32, { 0, { 0 } } },
    };
    copse_value *list[2] = { NULL };
    copse_status s;
    if (i < COPSE_COUNT(cases))
        return is_odd ? array_of(cases[i].type, cases[i].shape, out)
                      : array_of(COPSE_F32, COPSE_SHAPE(3), out);
    if (i == 6) /* as many elements, and so many digits that the text has no room for them */
        return array_of(COPSE_F32,
                        is_odd ? (copse_shape){ 6, { 1, 1, 1, 1, 1, 256 } }
                               : (copse_shape){ 6, { 1, 1, 1, 1, 256, 1 } },
                        out);
    if (i == 7)
        return is_odd ? sparse_rows(3, out) : sparse_rows(4, out);
    /* a list whose second part differs */
    s = array_of(COPSE_F32, COPSE_SHAPE(3), &list[0]);
    if (!s)
        s = is_odd ? sparse_rows(1, &list[1]) : array_of(COPSE_F32, COPSE_SHAPE(2), &list[1]);
    if (!s)
        s = copse_value_list(ctx, list, 2, out);
    copse_value_release(&list[0]);
    copse_value_release(&list[1]);
    return s;
}

/* seen: how many were refused so, and reductions that came out in between; path: the text of the
   first. */
static copse_status reduce_odd_values(struct worker *w, copse_strategy *st)
{
    static const int axis = 0;
    const bool is_odd = w->rank + 1 == w->size;
    copse_value *v, *out;
    for (uint32_t i = 0; i < CASES; i++) {
        COPSE_TRY(odd_value(i, is_odd, &v));
        copse_status s = copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, v, NULL, &out);
        if (s != COPSE_ERR_SHAPE)
            return copse_fail(COPSE_ERR_INTERNAL, "case %u: %s: %s", i, copse_status_name(s),
                              copse_last_error());
        if (w->seen[0]++ == 0)
            snprintf(w->path, sizeof w->path, "%.63s", copse_last_error());
        copse_value_release(&v);
        s = sum_of(st, COPSE_REDUCE_MEAN, COPSE_F32, COPSE_SHAPE(4));
        w->seen[1] += s == COPSE_OK;
        COPSE_TRY(s);
    }
    /* Along an axis only the other axes must be equal. */
    COPSE_TRY(array_of(COPSE_F32, is_odd ? COPSE_SHAPE(1, 2) : COPSE_SHAPE(5, 2), &v));
    COPSE_TRY(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, v, &axis, &out));
    copse_value_release(&v);
    copse_value_release(&out);
    COPSE_TRY(array_of(COPSE_F32, is_odd ? COPSE_SHAPE(5, 3) : COPSE_SHAPE(5, 2), &v));
    CHECK(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, v, &axis, &out) == COPSE_ERR_SHAPE);
    copse_value_release(&v);
    return sum_of(st, COPSE_REDUCE_SUM, COPSE_F32, COPSE_SHAPE(2));
}

static void operands_that_differ_are_refused_by_all(void **state)
{
    struct worker w[3];
    (void)state;
    run_workers(w, 3, 1, reduce_odd_values);
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++) {
        assert_int_equal(w[v].seen[0], CASES);
        assert_int_equal(w[v].seen[1], CASES);
        const char *says = v == 2
                               ? "cluster: worker 0 (h0:1) has f32 [3] in 'sum', this worker f32 "
                               : "cluster: worker 2 (h2:1) has f32 [2] in 'sum', this worker f32 ";
        if (strncmp(w[v].path, says, 60) != 0)
            fail_msg("worker %u: %s", v, w[v].path);
    }
}

/* A worker that refuses is named first, whatever the shapes of the others are. */
static copse_status refuse_one(struct worker *w, copse_strategy *st)
{
    static const uint32_t nowhere = 7;
    const struct copse_destinations to = { .ranks = &nowhere, .count = 1 };
    copse_value *v, *out;
    COPSE_TRY(array_of(COPSE_F32, COPSE_SHAPE(1 + w->rank), &v));
    w->seen[0] = copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, v, w->rank == 1 ? &to : NULL, &out);
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    copse_value_release(&v);
    return sum_of(st, COPSE_REDUCE_SUM, COPSE_F32, COPSE_SHAPE(2));
}

static void a_refusal_goes_before_operands_that_differ(void **state)
{
    struct worker w[3];
    (void)state;
    run_workers(w, 3, 1, refuse_one);
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++) {
        assert_int_equal(w[v].seen[0], COPSE_ERR_ARGUMENT);
        if (v != 1 && !strstr(w[v].text, "worker 1 (h1:1) could not take part"))
            fail_msg("worker %u: %s", v, w[v].text);
    }
}

/* ---- one that cannot take part ---- */

/* Components of two shapes on worker 1; destinations that are not there on worker 0; then as if
   nothing had been. */
static copse_status refuse(struct worker *w, copse_strategy *st)
{
    static const uint32_t nowhere = 7;
    const struct copse_destinations to = { .ranks = &nowhere, .count = 1 };
    copse_value *c[2], *v, *out;
    for (uint32_t r = 0; r < 2; r++) {
        const float x[2] = { 1, 2 };
        COPSE_TRY(copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(w->rank == 1 && r ? 1 : 2), x,
                                        &c[r]));
    }
    COPSE_TRY(copse_value_per_replica(st, c, 2, &v));
    w->seen[0] = copse_strategy_reduce(st, COPSE_REDUCE_SUM, v, NULL, &out);
    snprintf(w->text, sizeof w->text, "%s", copse_last_error());
    w->seen[1] = copse_strategy_reduce_to(st, COPSE_REDUCE_SUM, v, w->rank ? NULL : &to, &out);
    for (uint32_t r = 0; r < 2; r++)
        copse_value_release(&c[r]);
    copse_value_release(&v);
    return sum_of(st, COPSE_REDUCE_SUM, COPSE_F32, COPSE_SHAPE(2));
}

static void what_one_refuses_all_refuse(void **state)
{
    struct worker w[3];
    (void)state;
    run_workers(w, 3, 2, refuse);
    assert_all_ok(w, 3);
    for (uint32_t v = 0; v < 3; v++) {
        assert_int_equal(w[v].seen[0], COPSE_ERR_SHAPE);
        assert_true(w[v].seen[1] == COPSE_ERR_ARGUMENT || w[v].seen[1] == COPSE_ERR_SHAPE);
        const char *says = v == 1 ? "replica 0 has f32[2], replica 1 f32[1]"
                                  : "worker 1 (h1:1) could not take part";
        if (!strstr(w[v].text, says))
            fail_msg("worker %u: %s", v, w[v].text);
    }
}

/* ---- one that is lost ---- */

#define VICTIM 1

/* The local transport, but the victim dies instead of sending its message number `at`. */
static struct copse_transport_table dying;
static struct {
    bool is_armed; /* set and read by the victim alone */
    uint32_t sent, at;
} plan;

static copse_status send_or_die(struct copse_transport *t, uint32_t peer, uint32_t tag,
                                const void *bytes, size_t size, copse_transport_op **op)
{
    if (t->rank == VICTIM && plan.is_armed && plan.sent++ == plan.at)
        copse__local_hub_kill(t->user, VICTIM);
    return copse__transport_local.send(t, peer, tag, bytes, size, op);
}

/* An allocator that fails the victim once, at its allocation number `fails_at`. */
static _Thread_local bool is_scarce;
static uint32_t allocations, fails_at;
static atomic_int blocks;

static void *scarce(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        atomic_fetch_sub(&blocks, block != NULL);
        free(block);
        return NULL;
    }
    if (is_scarce && ++allocations == fails_at)
        return NULL;
    atomic_fetch_add(&blocks, block == NULL);
    return realloc(block, size);
}

static copse_status largest(void *user, copse_value *const *values, size_t count, copse_value **out)
{
    (void)user;
    (void)count;
    *out = copse_value_retain(values[0]);
    return COPSE_OK;
}

/* Everything that moves bytes of values once. */
static copse_status all_kinds(struct worker *w, copse_strategy *st)
{
    static const int32_t row = 1;
    static const float x[3000];
    static const int axis = 0;
    const struct copse_sparse_params p = { COPSE_SHAPE(4, 1), 1, &row, x };
    const struct copse_cross_device_params own = { .kind = COPSE_CROSS_TO_ONE,
                                                   .accumulate = largest };
    copse_value *values[2], *out[2] = { NULL };
    copse_cross_device *cross;
    copse_variable *v;
    COPSE_TRY(copse_cross_device_create(ctx, &own, &cross));
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(3000), x, &values[0]));
    COPSE_TRY(copse_value_sparse(ctx, &p, &values[1]));
    copse_status s = copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "first",
                                         .shape = COPSE_SHAPE(2),
                                         .synchronization = COPSE_SYNC_ON_READ,
                                         .aggregation = COPSE_AGGREGATION_ONLY_FIRST_REPLICA },
        &v);
    if (w->rank == VICTIM) {
        plan.is_armed = true;
        is_scarce = w->job != NULL;
    }
    if (!s)
        s = copse_strategy_batch_reduce_to(st, COPSE_REDUCE_SUM, values, NULL, 2, out);
    copse_value_release(&out[0]);
    copse_value_release(&out[1]);
    if (!s)
        s = copse_cross_reduce(cross, st, COPSE_REDUCE_SUM, values[0], NULL, out);
    copse_value_release(&out[0]);
    if (!s)
        s = copse_strategy_reduce(st, COPSE_REDUCE_SUM, values[0], &axis, out);
    copse_value_release(&out[0]);
    if (!s)
        s = copse_read(v, out);
    copse_value_release(&out[0]);
    copse_value_release(&values[0]);
    copse_value_release(&values[1]);
    copse_cross_device_release(&cross);
    is_scarce = false;
    return s;
}

static void a_lost_worker_is_named_wherever_it_stops(void **state)
{
    struct worker w[3];
    uint32_t lost = 0;
    (void)state;
    host_alone();
    dying = copse__transport_local;
    dying.send = send_or_die;
    for (plan.at = 0;; plan.at++, lost++) {
        plan.sent = 0;
        plan.is_armed = false;
        run_workers_over(&dying, w, 3, 1, NULL, all_kinds);
        if (w[VICTIM].status == COPSE_OK)
            break; /* it came to the end before */
        for (uint32_t v = 0; v < 3; v += 2)
            if (w[v].status != COPSE_OK && /* who had all it needed */
                (w[v].status != COPSE_ERR_COMM || !strstr(w[v].text, "lost worker 1 (h1:1)")))
                fail_msg("message %u, worker %u: %s: %s", plan.at, v,
                         copse_status_name(w[v].status), w[v].text);
        assert_true(w[0].status != COPSE_OK || w[2].status != COPSE_OK);
    }
    devices_back();
    printf("  lost before each of %u messages\n", lost);
    assert_true(lost > 20);
}

/* Wherever memory ends, nobody waits for ever, and nothing is left. */
static void memory_that_ends_holds_nobody_up(void **state)
{
    struct worker w[2];
    uint32_t refused = 0, came = 0;
    copse_context *plenty = ctx;
    const struct copse_context_params params = { .resize = scarce, .no_self_test = true };
    (void)state;
    host_alone();
    assert_int_equal(copse_context_create(&params, &ctx), COPSE_OK);
    run_workers(w, 2, 1, all_kinds); /* whatever a context keeps from the first time on */
    assert_all_ok(w, 2);
    const int before = atomic_load(&blocks);
    for (fails_at = 1;; fails_at++) {
        allocations = 0;
        run_workers_over(&copse__transport_local, w, 2, 1, &params, all_kinds);
        assert_int_equal(atomic_load(&blocks), before);
        if (allocations < fails_at)
            break;
        came += w[VICTIM].status != COPSE_OK; /* device memory is asked for twice */
        refused += w[0].status == COPSE_ERR_NO_MEMORY &&
                   strstr(w[0].text, "worker 1 (h1:1) could not take part") != NULL;
        assert_true(w[0].status == COPSE_OK || w[0].status == COPSE_ERR_NO_MEMORY ||
                    w[0].status == COPSE_ERR_COMM);
    }
    assert_all_ok(w, 2);
    copse_context_release(&ctx);
    ctx = plenty;
    devices_back();
    printf("  %u allocations, %u came out, %u of them on both workers\n", fails_at - 1, came,
           refused);
    assert_true(came > fails_at / 2 && refused > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clu_5),
        cmocka_unit_test(operands_that_differ_are_refused_by_all),
        cmocka_unit_test(a_refusal_goes_before_operands_that_differ),
        cmocka_unit_test(what_one_refuses_all_refuse),
        cmocka_unit_test(a_lost_worker_is_named_wherever_it_stops),
        cmocka_unit_test(memory_that_ends_holds_nobody_up),
    };
    return cmocka_run_group_tests_name("order_across", tests, open_workers, close_workers);
}
