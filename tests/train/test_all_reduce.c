/* SPDX-License-Identifier: MIT */
/* Sums over replicas inside a loss function: values, derivatives, batch statistics, equal bits
   whatever the schedule, and replicas that do not agree. */
#include "copse/device/function.h"
#include "copse/distribute/replica.h"
#include "tests/rig/graph_rig.h"
#include "tests/rig/train/norm_model.h"
#include "tests/rig/train/step_rig.h"

/* ---- values and derivatives ---- */

struct shared {
    copse_variable *w;
    copse_averaging op;
    bool is_inside; /* w stands in the operand */
};

/* s = sum of x over the shard; loss = w all_reduce(s), or all_reduce(w s). */
static copse_tensor *shared_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct shared *m = user;
    copse_tensor *s, *w = copse_variable_tensor(m->w);
    s = copse_sum(g, rig_x(in), NULL, 0, false);
    s = copse_reshape(g, s, COPSE_SHAPE(1));
    if (m->is_inside)
        s = copse_mul(g, s, w);
    s = copse_all_reduce(g, s, m->op);
    copse_report(g, "sum", s);
    if (!m->is_inside)
        s = copse_mul(g, s, w);
    return s;
}

static void shared_case(size_t n, copse_averaging op, bool is_inside, size_t rows)
{
    copse_strategy *st = rig_strategy(n, NULL);
    struct shared m = { rig_scalar(st, "w", 2.0f), op, is_inside };
    const struct copse_host_batch batch = rig_rows(rows);
    const double all = (double)(rows * (rows + 1) / 2);
    const double value = op == COPSE_MEAN ? all / (double)n : all;
    struct copse_step_result r;
    copse_trainer *t;
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = shared_loss,
                                .user = &m,
                                .optimizer = { .kind = COPSE_SGD, .learning_rate = 1e-2f } },
                            &t));
    /* A larger batch first, so that a replica without examples had some before. */
    const struct copse_host_batch large = rig_rows(10);
    OK(copse_trainer_evaluate(t, &large, &r));
    OK(copse_trainer_step(t, &large));
    OK(copse_trainer_result(t, true, &r));
    OK(copse_variable_assign(m.w, (const float[]){ 2.0f }));
    OK(copse_trainer_evaluate(t, &batch, &r));
    rig_near(r.reports[0], value * (is_inside ? 2.0 : 1.0), 1e-4);
    rig_near(r.loss, 2.0 * value, 1e-4);
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_result(t, true, &r));
    rig_near(r.loss, 2.0 * value, 1e-4);
    /* Either way the loss of the global batch is w times the value. */
    for (uint32_t k = 0; k < n; k++)
        rig_near((double)rig_value(m.w, k), 2.0 - 1e-2 * value, 1e-5);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void sums_and_derivatives_are_those_of_all_replicas(void **state)
{
    (void)state;
    static const size_t rows[] = { 10, 7, 3 }; /* even, uneven, and empty shards */
    for (size_t n = 1; n <= 5; n++)
        for (size_t i = 0; i < 3; i++)
            for (int inside = 0; inside < 2; inside++) {
                shared_case(n, COPSE_SUM, inside, rows[i]);
                shared_case(n, COPSE_MEAN, inside, rows[i]);
            }
}

/* ---- the bits of means ---- */

#define MEANS 200

struct means {
    copse_variable *w; /* zeros */
    bool is_derivative;
};

/* The gradient of w is the mean over the replicas of x: replica 0 alone depends on w. Either the
   mean is a factor of w, or w is in the operand, and x is the derivative of the mean. */
static copse_tensor *means_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct means *m = user;
    copse_tensor *w =
        copse_multiply_by(g, copse_variable_tensor(m->w), in->replica == 0 ? 1.0f : 0.0f);
    copse_tensor *x = copse_reshape(g, rig_x(in), COPSE_SHAPE(MEANS));
    copse_tensor *y = copse_all_reduce(g, m->is_derivative ? w : x, COPSE_MEAN);
    y = copse_mul(g, y, m->is_derivative ? x : w);
    return copse_sum(g, y, NULL, 0, false);
}

/* Numbers of many magnitudes. */
static void fill_means(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = ldexpf(sinf(1.7f * (float)(i + 1)), (int)(i % 23) - 11);
}

static void graph_means(copse_strategy *st, size_t n, const float *x, bool is_derivative,
                        float *out)
{
    static const float zeros[MEANS];
    struct means m = { rig_variable(st, is_derivative ? "dw" : "w", COPSE_SHAPE(MEANS), zeros),
                       is_derivative };
    copse_trainer *t;
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = means_loss,
                                        .user = &m,
                                        .reduction = COPSE_LOSS_SUM,
                                        .variables = &m.w,
                                        .variable_count = 1,
                                        .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 } },
        &t));
    OK(copse_trainer_step(t, &(struct copse_host_batch){ RIG_X(MEANS, x), .count = n }));
    OK(copse_variable_read(m.w, 0, out));
    for (size_t i = 0; i < MEANS; i++)
        out[i] = -out[i];
    copse_trainer_release(&t);
}

static void value_means(copse_strategy *st, size_t n, const float *x, float *out)
{
    copse_value *parts[8], *all, *mean;
    for (uint32_t r = 0; r < n; r++)
        OK(copse_value_create_on(st, r, COPSE_F32, COPSE_SHAPE(MEANS), x + r * MEANS, &parts[r]));
    OK(copse_value_per_replica(st, parts, n, &all));
    OK(copse_strategy_reduce(st, COPSE_REDUCE_MEAN, all, NULL, &mean));
    OK(copse_value_read(mean, out));
    for (size_t r = 0; r < n; r++)
        copse_value_release(&parts[r]);
    copse_value_release(&all);
    copse_value_release(&mean);
}

static void means_have_the_bits_of_a_reduction_of_values(void **state)
{
    static float x[5 * MEANS], graph[MEANS], values[MEANS];
    (void)state;
    fill_means(x, sizeof x / sizeof *x);
    for (size_t n = 2; n <= 5; n++) {
        copse_strategy *st = rig_strategy(n, NULL);
        value_means(st, n, x, values);
        for (int is_derivative = 0; is_derivative < 2; is_derivative++) {
            unsigned differ = 0;
            graph_means(st, n, x, is_derivative, graph);
            for (size_t i = 0; i < MEANS; i++)
                differ += memcmp(&graph[i], &values[i], sizeof(float)) != 0;
            if (differ)
                fail_msg("%zu replicas, %s: %u of %d means differ", n,
                         is_derivative ? "derivative" : "value", differ, MEANS);
        }
        copse_strategy_release(&st);
    }
}

/* ---- batch normalisation ---- */

static copse_strategy *norm_open(size_t n, const struct copse_strategy_params *params,
                                 struct norm *m, copse_trainer **t)
{
    copse_strategy *st = rig_strategy(n, params);
    OK(norm_create(m, st, t));
    return st;
}

static void norm_run(size_t n, size_t batch, int steps, const struct copse_strategy_params *params,
                     float *values)
{
    static float x[ROWS * IN], other[VALUES];
    static int32_t y[ROWS];
    struct norm m;
    copse_trainer *t;
    norm_data(x, y);
    copse_strategy *st = norm_open(n, params, &m, &t);
    for (int i = 0; i < steps; i++) {
        const size_t first = (size_t)i * batch % (ROWS - batch + 1);
        OK(copse_trainer_step(t, &(struct copse_host_batch){ RIG_XY(IN, x + first * IN, y + first),
                                                             .count = batch }));
    }
    OK(norm_values(&m, 0, values));
    for (uint32_t k = 1; k < n; k++) {
        OK(norm_values(&m, k, other));
        assert_memory_equal(values, other, sizeof other);
    }
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static double distance(const float *a, const float *b)
{
    double difference = 0.0, norm = 0.0;
    for (int i = 0; i < VALUES; i++) {
        difference += pow((double)a[i] - (double)b[i], 2.0);
        norm += pow((double)a[i], 2.0);
    }
    return sqrt(difference / norm);
}

/* Statistics are those of the whole batch, so training is the same as on one device. */
static void normalised_batches_do_not_depend_on_the_split(void **state)
{
    (void)state;
    static float whole[VALUES], split[VALUES];
    static const size_t batches[] = { 24, 23, 3 };
    for (size_t i = 0; i < 3; i++) {
        const int steps = batches[i] == 3 ? 2 : 6;
        norm_run(1, batches[i], steps, NULL, whole);
        for (size_t n = 2; n <= 5; n++) {
            norm_run(n, batches[i], steps, NULL, split);
            printf("  %zu examples, %zu replicas: ||a-b||/||a|| = %.2e\n", batches[i], n,
                   distance(whole, split));
            assert_true(distance(whole, split) <= 1e-5);
        }
    }
}

static void bits_do_not_depend_on_the_exchange(void **state)
{
    (void)state;
    static float base[VALUES], other[VALUES];
    norm_run(3, 20, 3, NULL, base);
    for (int algorithm = COPSE_REDUCE_SHARDED; algorithm <= COPSE_REDUCE_TO_ONE; algorithm++)
        for (int transfer = COPSE_TRANSFER_SHARED; transfer <= COPSE_TRANSFER_STAGED; transfer++) {
            const struct copse_strategy_params params = {
                .reduction = (copse_reduce_algorithm)algorithm,
                .transfer = (copse_transfer)transfer,
                .bucket_bytes = algorithm == COPSE_REDUCE_TREE ? 64 : 0,
            };
            norm_run(3, 20, 3, &params, other);
            assert_memory_equal(base, other, sizeof base);
        }
}

static void step_with_sums_allocates_nothing(void **state)
{
    (void)state;
    static float x[ROWS * IN];
    static int32_t y[ROWS];
    struct copse_memory_stats before = { 0 }, after;
    struct copse_step_result r;
    struct norm m;
    copse_trainer *t;
    norm_data(x, y);
    copse_strategy *st = norm_open(3, NULL, &m, &t);
    for (int i = 0; i < 40; i++) {
        if (i == 20)
            copse_context_memory(ctx, &before);
        OK(copse_trainer_step(
            t, &(struct copse_host_batch){ RIG_XY(IN, x, y), .count = i % 2 ? 20 : 2 }));
        OK(copse_trainer_result(t, true, &r));
    }
    copse_context_memory(ctx, &after);
    assert_int_equal(after.calls, before.calls);
    assert_int_equal(after.device_allocations, before.device_allocations);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* ---- replicas that do not agree ---- */

struct odd {
    copse_variable *w;
    int kind;
};

static copse_tensor *odd_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct odd *m = user;
    copse_tensor *x = rig_x(in), *y, *w = copse_variable_tensor(m->w);
    if (m->kind == 0) /* the size of the shard is in the shape */
        x = copse_all_reduce(g, x, COPSE_SUM);
    y = copse_sum(g, x, NULL, 0, false);
    y = copse_reshape(g, y, COPSE_SHAPE(1));
    for (uint32_t i = 0; m->kind == 1 && i < 1 + in->replica; i++) /* one more on the second */
        y = copse_all_reduce(g, y, COPSE_SUM);
    for (uint32_t i = 0; m->kind == 2 && i < 2 - in->replica; i++) /* one less */
        y = copse_all_reduce(g, y, COPSE_SUM);
    return copse_mul(g, y, w);
}

static void replicas_that_differ_are_named(void **state)
{
    (void)state;
    static const copse_status expected[] = { COPSE_ERR_SHAPE, COPSE_ERR_ARGUMENT,
                                             COPSE_ERR_ARGUMENT };
    const struct copse_host_batch rows = rig_rows(5);
    for (int kind = 0; kind < 3; kind++) {
        copse_strategy *st = rig_strategy(2, NULL);
        struct odd m = { rig_scalar(st, "w", 2.0f), kind };
        copse_trainer *t;
        OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = odd_loss, .user = &m },
                                &t));
        FAILS(expected[kind], copse_trainer_step(t, &rows), "replica 1");
        assert_true(rig_value(m.w, 0) == 2.0f);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

/* A graph of its own has one replica. */
static void alone_it_is_the_identity(void **state)
{
    (void)state;
    copse_graph *g;
    copse_device *dev;
    copse_function *f;
    copse_tensor *mean, *variance;
    const float values[3] = { 1, 2, 6 };
    float got[3];
    OK(copse_graph_create(ctx, &g));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(3));
    copse_tensor *y = copse_all_reduce(g, x, COPSE_SUM);
    assert_ptr_equal(x, y);
    mean = copse_sync_moments(g, x, NULL, 0, &variance);
    copse_tensor *const outputs[] = { mean, variance };
    OK(copse_device_open(ctx, rig_devices[1], NULL, &dev));
    OK(copse_function_create(
        dev, &(struct copse_function_params){ .graph = g, .outputs = outputs, .output_count = 2 },
        &f));
    OK(copse_function_write(f, x, values));
    OK(copse_function_run(f));
    OK(copse_function_read(f, 0, got));
    OK(copse_function_read(f, 1, got + 1));
    rig_near((double)got[0], 3.0, 1e-6);
    rig_near((double)got[1], 14.0 / 3.0, 1e-5);
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_all_reduce(g, x, (copse_averaging)7)),
          "reduction 7");
    x = copse_graph_input(g, "table", COPSE_F32, COPSE_SHAPE(3, 2));
    FAILS(COPSE_ERR_ARGUMENT,
          rig_failure(g, copse_sync_moments(g, x, (const uint32_t[]){ 1 }, 1, &variance)),
          "axis 0");
    copse_function_release(&f);
    copse_device_release(&dev);
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_derivatives_are_those_of_all_replicas),
        cmocka_unit_test(means_have_the_bits_of_a_reduction_of_values),
        cmocka_unit_test(normalised_batches_do_not_depend_on_the_split),
        cmocka_unit_test(bits_do_not_depend_on_the_exchange),
        cmocka_unit_test(step_with_sums_allocates_nothing),
        cmocka_unit_test(replicas_that_differ_are_named),
        cmocka_unit_test(alone_it_is_the_identity),
    };
    return cmocka_run_group_tests_name("all_reduce", tests, open_context, close_context);
}
