/* SPDX-License-Identifier: MIT */
/* The examples of the documents of tf.distribute, as programs of Copse, on all strategies. */
#include "copse/distribute/call.h"
#include "copse/distribute/input.h"
#include "copse/ops.h"
#include "copse/train/update.h"
#include "tests/rig/value/replica_rig.h"

/* ---- with strategy.scope(): v = tf.Variable(1.0); print(v.device) ---- */

static void variables_are_on_the_devices_of_their_strategy(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        static const float one = 1;
        copse_variable *v;
        copse_value *value, *local[MAX_RANKS];
        size_t count;
        float x;
        OK(copse_scope_enter(st));
        OK(copse_variable_create(
            copse_current_strategy(),
            &(struct copse_variable_params){ .name = fresh("example"), .values = &one }, &v));
        OK(copse_scope_leave(st));
        OK(copse_variable_value(v, &value));
        copse_local_results(value, local, MAX_RANKS, &count);
        assert_int_equal(count, n);
        for (uint32_t r = 0; r < n; r++) {
            OK(copse_variable_read(v, r, &x));
            assert_true(x == 1);
            assert_non_null(copse_strategy_device(st, r));
            if (n > 1)
                assert_int_equal(copse_value_rank(local[r]), r);
        }
        copse_value_release(&value);
    }
}

/* ---- def step_fn(x): return x * 2; for i in range(10): result += strategy.run(step_fn, (i,)) ----
   The argument is the same for all replicas: so is the result, and 90 on every strategy. */

static copse_status step_fn(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    (void)rc, (void)count, (void)user;
    return copse_value_multiply_by(args[0], 2, result);
}

static float sum_of_runs(copse_strategy *st)
{
    copse_value *result = scalar(0);
    OK(copse_scope_enter(st));
    for (int i = 0; i < 10; i++) {
        copse_value *x = scalar((float)i), *y, *mean, *next;
        OK(copse_strategy_run(st, step_fn, &x, 1, NULL, &y));
        OK(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, y, NULL, &mean));
        OK(copse_value_add(result, mean, &next));
        copse_value_release(&x);
        copse_value_release(&y);
        copse_value_release(&mean);
        copse_value_release(&result);
        result = next;
    }
    OK(copse_scope_leave(st));
    const float total = scalar_of(result);
    copse_value_release(&result);
    return total;
}

static void runs_in_a_loop_add_up(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        assert_true(sum_of_runs(st) == 90);
        const uint64_t recorded = copse_call_recorded(st);
        assert_true(sum_of_runs(st) == 90);
        assert_int_equal(copse_call_recorded(st), recorded);
        (void)n;
    }
}

/* ---- @tf.function def replica_fn(input): return input * 2.0; strategy.run(replica_fn, (3.0,)) ----
   and values from a function: value_context.num_replicas_in_sync, times 2 */

/* `user`: the type of the value; arithmetic is f32. */
static copse_tensor *twice(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_cast(g, copse_input(in, "0"), COPSE_F32);
    return copse_cast(g, copse_add(g, x, x), *(const copse_type *)user);
}

static void functions_of_a_graph_run_on_replicas(void **unused)
{
    static copse_type types[] = { COPSE_F32, COPSE_I32 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_value *three = scalar(3), *numbers, *y, *local[MAX_RANKS], *at[MAX_RANKS];
        const int32_t replicas = (int32_t)copse_strategy_replicas_in_sync(st);
        size_t count;
        int32_t x;
        OK(copse_strategy_map(st, twice, &types[0], three, &y));
        copse_local_results(y, local, MAX_RANKS, &count);
        assert_int_equal(count, n);
        for (uint32_t r = 0; r < n; r++)
            assert_true(scalar_of(local[r]) == 6);
        copse_value_release(&y);
        for (uint32_t r = 0; r < n; r++)
            OK(copse_value_create_on(st, r, COPSE_I32, COPSE_SCALAR, &replicas, &at[r]));
        numbers = per_replica(st, at);
        OK(copse_strategy_map(st, twice, &types[1], numbers, &y));
        copse_local_results(y, local, MAX_RANKS, &count);
        assert_true(copse_value_type(local[n - 1]) == COPSE_I32);
        OK(copse_value_read(local[n - 1], &x));
        assert_int_equal(x, 2 * replicas);
        copse_value_release(&y);
        copse_value_release(&numbers);
        copse_value_release(&three);
    }
}

/* ---- for x in strategy.experimental_distribute_dataset(dataset): strategy.run(train_step, (x,)) */

enum { ROWS = 10, GLOBAL = 4 };

struct training {
    copse_variable *seen;
    copse_strategy *st;
};

/* Adds the rows of the minibatch to a replica-local sum. */
static copse_tensor *add_rows(copse_graph *g, const copse_batch *in, void *user)
{
    const struct training *t = user;
    copse_tensor *x = copse_sum(g, copse_input(in, "x"), NULL, 0, false);
    copse_update(g, t->seen, copse_add(g, copse_variable_tensor(t->seen), x));
    return NULL;
}

static copse_status train_step(copse_replica_context *rc, copse_value *const *args, size_t count,
                               void *user, copse_value **result)
{
    (void)rc, (void)count, (void)result;
    return copse_call(add_rows, user, args[0], NULL);
}

static void run_all(struct training *t, copse_distributed *walk, int most)
{
    copse_value *batch;
    copse_status s = COPSE_OK;
    for (int i = 0; i < most && !(s = copse_distributed_next_value(walk, t->st, &batch)); i++) {
        OK(copse_strategy_run(t->st, train_step, &batch, 1, t, NULL));
        copse_value_release(&batch);
    }
    assert_true(s == COPSE_OK || s == COPSE_ERR_END);
}

static copse_variable *local_sum(copse_strategy *st)
{
    const struct copse_variable_params p = { .name = fresh("example"),
                                             .synchronization = COPSE_SYNC_ON_READ,
                                             .aggregation = COPSE_AGGREGATION_SUM };
    copse_variable *v;
    OK(copse_variable_create(st, &p, &v));
    return v;
}

static float sum_of(copse_strategy *st, copse_variable *v)
{
    copse_value *sum;
    OK(copse_scope_enter(st));
    OK(copse_read(v, &sum));
    OK(copse_scope_leave(st));
    const float x = scalar_of(sum);
    copse_value_release(&sum);
    return x;
}

/* numpy_input = np.ones([10]); experimental_make_numpy_dataset; experimental_distribute_dataset */
static copse_dataset *ones_dataset(void)
{
    static float x[ROWS];
    copse_dataset *data;
    for (int i = 0; i < ROWS; i++)
        x[i] = 1;
    OK(copse_dataset_columns(ctx, &(struct copse_column){ "x", COPSE_F32, COPSE_SCALAR, x }, 1,
                             ROWS, &data));
    return data;
}

static void distributed_datasets_are_walked(void **unused)
{
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        copse_dataset *data = ones_dataset();
        struct training t = { local_sum(st), st };
        copse_distributed *walk;
        OK(copse_distributed_create(
            ctx,
            &(struct copse_distributed_params){
                .data = data, .batches = { .batch = GLOBAL }, .input = { .replicas = n } },
            &walk));
        run_all(&t, walk, 100);
        assert_true(sum_of(st, t.seen) == ROWS);
        /* a second epoch has the same signatures (element_spec): nothing is recorded */
        const uint64_t recorded = copse_call_recorded(st);
        OK(copse_distributed_start(walk, 1, 0));
        run_all(&t, walk, 100);
        assert_int_equal(copse_call_recorded(st), recorded);
        assert_true(sum_of(st, t.seen) == 2 * ROWS);
        copse_distributed_release(&walk);
        copse_dataset_release(&data);
    }
}

/* ---- def dataset_fn(input_context): from_tensors([[1.]]).repeat().batch(per_replica_batch) ---- */

struct endless {
    float x[8];
    struct copse_column column;
    size_t rows;
};

static copse_status next_ones(void *user, struct copse_host_batch *out)
{
    const struct endless *e = user;
    out->columns = &e->column;
    out->column_count = 1;
    out->count = e->rows;
    return COPSE_OK;
}

static copse_status dataset_fn(void *user, const struct copse_input_context *in,
                               struct copse_pipeline_source *out)
{
    struct endless *e = user;
    COPSE_TRY(copse_input_per_replica_batch(in, (size_t)(2 * in->replicas), &e->rows));
    for (int i = 0; i < 8; i++)
        e->x[i] = 1;
    e->column = (struct copse_column){ "x", COPSE_F32, COPSE_SHAPE(1), e->x };
    out->next = next_ones;
    out->user = e;
    return COPSE_OK;
}

static void datasets_come_from_a_function(void **unused)
{
    enum { STEPS = 5 };
    (void)unused;
    FOR_EACH_STRATEGY(st, n)
    {
        struct endless e;
        struct training t = { local_sum(st), st };
        copse_distributed *walk;
        OK(copse_distributed_from_function(
            ctx,
            &(struct copse_distributed_fn_params){
                .pipeline = dataset_fn, .user = &e, .input = { .replicas = n } },
            &walk));
        run_all(&t, walk, STEPS);
        assert_true(sum_of(st, t.seen) == (float)(STEPS * 2 * n));
        copse_distributed_release(&walk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_are_on_the_devices_of_their_strategy),
        cmocka_unit_test(runs_in_a_loop_add_up),
        cmocka_unit_test(functions_of_a_graph_run_on_replicas),
        cmocka_unit_test(distributed_datasets_are_walked),
        cmocka_unit_test(datasets_come_from_a_function),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
