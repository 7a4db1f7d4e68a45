/* SPDX-License-Identifier: MIT */
/* Calls on several workers: sums of a dataset, by maps and by runs, and a perceptron that a loop of
   maps trains. */
#include "tests/rig/train/loop_rig.h"
#include "tests/rig/workers/worker_rig.h"

static void release_all(copse_value **at, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        copse_value_release(&at[r]);
}

/* ---- for x in dataset: result += run(2 x) ---- */

static copse_tensor *twice(copse_graph *g, const copse_batch *in, void *user)
{
    (void)user;
    return copse_mul(g, copse_input(in, "0"), copse_scalar(g, 2));
}

/* In a replica, the second half by arithmetic. */
static copse_status twice_here(copse_replica_context *rc, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    (void)count;
    (void)user;
    return copse_replica_id(rc) % 2 ? copse_value_multiply_by(args[0], 2, result)
                                    : copse_call(twice, NULL, args[0], result);
}

/* The elements 0 to 9, one for each replica of all workers at a time; a replica without one has
   0. */
static copse_status elements(copse_strategy *st, uint32_t first, copse_value **out)
{
    const uint32_t n = copse_strategy_replicas(st);
    copse_value *at[8] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < n && !s; r++) {
        const uint32_t i = first + copse_strategy_first_rank(st) + r;
        const float x = i < 10 ? (float)i : 0;
        s = copse_value_create_on(st, r, COPSE_F32, COPSE_SCALAR, &x, &at[r]);
    }
    if (!s)
        s = copse_value_per_replica(st, at, n, out);
    release_all(at, n);
    return s;
}

/* result += the sum of `y` over all replicas */
static copse_status add_sum(copse_strategy *st, copse_value *y, copse_value **result)
{
    copse_value *sum, *next;
    COPSE_TRY(copse_strategy_reduce(st, COPSE_REDUCE_SUM, y, NULL, &sum));
    copse_status s = copse_scope_enter(st);
    if (!s) {
        s = copse_value_add(*result, sum, &next);
        const copse_status left = copse_scope_leave(st);
        s = s ? s : left;
    }
    copse_value_release(&sum);
    COPSE_TRY(s);
    copse_value_release(result);
    *result = next;
    return COPSE_OK;
}

static copse_status sum_of_doubles(copse_strategy *st, bool is_run, float *total)
{
    copse_value *result, *x, *y = NULL;
    COPSE_TRY(copse_value_scalar(ctx, 0, &result));
    copse_status s = COPSE_OK;
    for (uint32_t first = 0; first < 10 && !s; first += copse_strategy_replicas_in_sync(st)) {
        COPSE_TRY(elements(st, first, &x));
        s = is_run ? copse_strategy_run(st, twice_here, &x, 1, NULL, &y)
                   : copse_strategy_map(st, twice, NULL, x, &y);
        if (!s)
            s = add_sum(st, y, &result);
        copse_value_release(&x);
        copse_value_release(&y);
    }
    if (!s)
        s = copse_value_read(result, total);
    copse_value_release(&result);
    return s;
}

/* values: the totals of two passes by maps, then of two by runs; seen: what the second passes
   recorded. */
static copse_status add_doubles(struct worker *w, copse_strategy *st)
{
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t before = copse_call_recorded(st);
        COPSE_TRY(sum_of_doubles(st, i >= 2, &w->values[i]));
        w->seen[i] = (uint32_t)(copse_call_recorded(st) - before);
    }
    return COPSE_OK;
}

static void doubles_of_a_dataset_add_up(void **state)
{
    static const uint32_t shapes[][2] = { { 2, 1 }, { 2, 2 }, { 3, 1 } };
    struct worker w[3];
    (void)state;
    for (size_t l = 0; l < COPSE_COUNT(shapes); l++) {
        run_workers(w, shapes[l][0], shapes[l][1], add_doubles);
        assert_all_ok(w, shapes[l][0]);
        for (uint32_t v = 0; v < shapes[l][0]; v++)
            for (uint32_t i = 0; i < 4; i++) {
                assert_true(w[v].values[i] == 90);
                assert_true((w[v].seen[i] == 0) == (i % 2 == 1));
            }
    }
}

/* ---- a perceptron ---- */

static copse_status train_by_trainer(struct worker *w, copse_strategy *st)
{
    return net_train(st, w->values);
}

static copse_status step_by_map(copse_strategy *st, copse_tower_optimizer *t, struct net *n,
                                int step)
{
    copse_value *batch, *result = NULL;
    COPSE_TRY(net_batch(ctx, st, step, &batch));
    copse_status s = copse_strategy_map(st, net_gradients, n, batch, &result);
    if (!s)
        s = net_apply(t, n, 0, 4, result);
    if (!s)
        s = copse_tower_finish(t);
    copse_value_release(&batch);
    copse_value_release(&result);
    return s;
}

static copse_status train_by_maps(struct worker *w, copse_strategy *st)
{
    struct net n;
    copse_tower_optimizer *t;
    COPSE_TRY(net_create(st, &n));
    COPSE_TRY(copse_tower_create(st, &(struct copse_tower_params){ .optimizer = net_rule }, &t));
    copse_status s = COPSE_OK;
    for (int step = 0; step < STEPS && !s; step++)
        s = step_by_map(st, t, &n, step);
    CHECK(s || copse_call_recorded(st) == w->replicas);
    if (!s)
        s = net_read(st, &n, w->values);
    copse_tower_release(&t);
    return s;
}

static void a_loop_of_maps_gives_the_trainers_bits(void **state)
{
    struct worker maps[2], trainer[2], one[1];
    (void)state;
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        run_workers(trainer, 2, replicas, train_by_trainer);
        assert_all_ok(trainer, 2);
        run_workers(maps, 2, replicas, train_by_maps);
        assert_all_ok(maps, 2);
        run_workers(one, 1, 2 * replicas, train_by_maps);
        assert_all_ok(one, 1);
        for (uint32_t v = 0; v < 2; v++) {
            assert_memory_equal(maps[v].values, trainer[0].values, WEIGHTS * sizeof(float));
            assert_memory_equal(maps[v].values, one[0].values, WEIGHTS * sizeof(float));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_of_a_dataset_add_up),
        cmocka_unit_test(a_loop_of_maps_gives_the_trainers_bits),
    };
    return cmocka_run_group_tests_name("calls_across", tests, open_workers, close_workers);
}
