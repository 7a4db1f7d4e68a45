/* SPDX-License-Identifier: MIT */
/* Settings that are refused by name, and a collective strategy of a process that trains alone. */
#include <math.h>

#include "copse/compat/gradients.h"
#include "copse/compat/replicated.h"
#include "copse/distribute/collective.h"
#include "tests/rig/train/train_model.h"
#include "tests/rig/value/value_rig.h"

static copse_context *ctx;

static int open_context(void **state)
{
    const struct copse_context_params params = { .disable = "opencl,vulkan" };
    (void)state;
    return copse_context_create(&params, &ctx) ? -1 : 0;
}

static int close_context(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

static copse_strategy *two_replicas(void)
{
    static const char *const ids[] = { "host:0", "host:0" };
    copse_strategy *st;
    OK(copse_mirrored_create(ctx, ids, 2, NULL, &st));
    return st;
}

static copse_tensor *squares_of(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *in_x = copse_input(in, "x");
    return copse_mean_squared_error(g, in_x, user);
}

static copse_variable *make(copse_strategy *st, const char *name,
                            copse_synchronization synchronization)
{
    copse_variable *v;
    const struct copse_variable_params params = { .name = name,
                                                  .shape = COPSE_SHAPE(2),
                                                  .synchronization = synchronization,
                                                  .aggregation = COPSE_AGGREGATION_SUM };
    OK(copse_variable_create(st, &params, &v));
    return v;
}

static void a_scale_is_finite(void **state)
{
    static const float scales[] = { NAN, INFINITY, -INFINITY };
    copse_strategy *st = two_replicas();
    copse_variable *v;
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(scales); i++) {
        const struct copse_variable_params params = { .name = "w",
                                                      .shape = COPSE_SHAPE(2),
                                                      .scale = scales[i],
                                                      .initializer = COPSE_INIT_NORMAL };
        FAILS(COPSE_ERR_ARGUMENT, copse_variable_create(st, &params, &v),
              "variable 'w': its scale is ");
    }
    copse_strategy_release(&st);
}

/* ---- a variable twice in a list ---- */

static void a_trainer_takes_a_variable_once(void **state)
{
    copse_strategy *st = two_replicas();
    copse_variable *a = make(st, "a", COPSE_SYNC_AUTO), *b = make(st, "b", COPSE_SYNC_AUTO);
    copse_variable *const list[] = { a, b, a };
    copse_trainer *t;
    const struct copse_trainer_params params = {
        .loss = squares_of, .user = copse_variable_tensor(a), .variables = list, .variable_count = 3
    };
    (void)state;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &params, &t), "'a' is twice in the list");
    copse_strategy_release(&st);
}

static copse_status differentiate_twice(copse_replica_context *rc, copse_value *const *args,
                                        size_t count, void *user, copse_value **result)
{
    copse_tower_optimizer *t = user;
    copse_strategy *st = copse_replica_strategy(rc);
    copse_variable *const *all;
    size_t all_count;
    (void)args, (void)count, (void)result;
    copse_strategy_variables(st, &all, &all_count);
    copse_variable *const list[] = { all[0], all[0] };
    struct copse_tower_gradient pairs[] = { { .variable = all[0] }, { .variable = all[0] } };
    copse_value *x;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), (const float[]){ 1, 2 }, &x));
    const struct copse_tower_loss loss = { .loss = squares_of,
                                           .user = copse_variable_tensor(all[0]),
                                           .x = x };
    copse_status s = copse_tower_compute(t, &loss, pairs, 2, NULL);
    CHECK(s == COPSE_ERR_ARGUMENT && strstr(copse_last_error(), "'a' is twice in the list"));
    s = copse_tower_minimize(t, &loss, list, 2, false, NULL);
    CHECK(s == COPSE_ERR_ARGUMENT && strstr(copse_last_error(), "'a' is twice in the list"));
    copse_value_release(&x);
    return COPSE_OK;
}

static void a_tower_takes_a_variable_once(void **state)
{
    copse_strategy *st = two_replicas();
    copse_tower_optimizer *t;
    (void)state;
    (void)make(st, "a", COPSE_SYNC_AUTO);
    OK(copse_tower_create(st, &(struct copse_tower_params){ .optimizer = { .kind = COPSE_SGD } },
                          &t));
    OK(copse_strategy_run(st, differentiate_twice, NULL, 0, t, NULL));
    copse_tower_release(&t);
    copse_strategy_release(&st);
}

/* ---- a list that is shorter than its count ---- */

/* What is behind the list: addresses that must not be read. */
#define BEYOND(a)                                                          \
    {                                                                      \
        a, (copse_variable *)(uintptr_t)8, (copse_variable *)(uintptr_t)24 \
    }

static void a_trainer_reads_variables_alone(void **state)
{
    copse_strategy *st = two_replicas();
    copse_variable *a = make(st, "a", COPSE_SYNC_AUTO);
    (void)make(st, "b", COPSE_SYNC_AUTO);
    copse_variable *const list[] = BEYOND(a), *const near[] = {
        a, (copse_variable *)(void *)((char *)a + 16)
    };
    copse_trainer *t;
    struct copse_trainer_params params = { .loss = squares_of,
                                           .user = copse_variable_tensor(a),
                                           .variables = list,
                                           .variable_count = SIZE_MAX / 8 };
    (void)state;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &params, &t),
          "does the list have as many as were counted?; in variable 1 of ");
    params.variables = near;
    params.variable_count = 2;
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_create(st, &params, &t), "in variable 1 of 2 to train");
    copse_strategy_release(&st);
}

static copse_status minimize_beyond(copse_replica_context *rc, copse_value *const *args,
                                    size_t count, void *user, copse_value **result)
{
    copse_tower_optimizer *t = user;
    copse_variable *const *all;
    size_t all_count;
    copse_value *x;
    (void)args, (void)count, (void)result;
    copse_strategy_variables(copse_replica_strategy(rc), &all, &all_count);
    copse_variable *const list[] = BEYOND(all[0]);
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(2), (const float[]){ 1, 2 }, &x));
    const struct copse_tower_loss loss = { .loss = squares_of,
                                           .user = copse_variable_tensor(all[0]),
                                           .x = x };
    const copse_status s = copse_tower_minimize(t, &loss, list, SIZE_MAX / 64, false, NULL);
    copse_value_release(&x);
    CHECK(s == COPSE_ERR_ARGUMENT &&
          strstr(copse_last_error(), "does the list have as many as were counted?"));
    return COPSE_OK;
}

static void a_tower_and_metrics_read_variables_alone(void **state)
{
    copse_strategy *st = two_replicas();
    copse_tower_optimizer *t;
    (void)state;
    (void)make(st, "a", COPSE_SYNC_AUTO);
    OK(copse_tower_create(st, &(struct copse_tower_params){ .optimizer = { .kind = COPSE_SGD } },
                          &t));
    OK(copse_strategy_run(st, minimize_beyond, NULL, 0, t, NULL));
    copse_tower_release(&t);
    copse_variable *const list[] = BEYOND(make(st, "m", COPSE_SYNC_ON_READ));
    FAILS(COPSE_ERR_ARGUMENT, copse_metrics_reduce(st, list, SIZE_MAX / 8), "counted?; in state 1");
    copse_strategy_release(&st);
}

static void multiply_beyond(copse_graph *g, struct copse_gradient *pairs, size_t count, void *user)
{
    const struct copse_multiplier factors[] = { { .variable = pairs[0].variable, .factor = 1 },
                                                { .variable = (copse_variable *)(uintptr_t)8 } };
    (void)user;
    copse_gradients_multiply(g, pairs, count, factors, 2);
}

static void factors_are_of_variables(void **state)
{
    copse_strategy *st = two_replicas();
    copse_variable *a = make(st, "a", COPSE_SYNC_AUTO);
    const float x[4] = { 1, 2, 3, 4 };
    copse_trainer *t;
    (void)state;
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = squares_of,
                                                            .user = copse_variable_tensor(a),
                                                            .transform = multiply_beyond },
                            &t));
    FAILS(COPSE_ERR_ARGUMENT,
          copse_trainer_step(
              t, &(struct copse_host_batch){ COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2), x }),
                                             .count = 2 }),
          "factor 1 is of no variable");
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

static void a_metric_is_reduced_once(void **state)
{
    copse_strategy *st = two_replicas();
    copse_variable *m = make(st, "m", COPSE_SYNC_ON_READ);
    copse_variable *const list[] = { m, m };
    (void)state;
    OK(copse_metrics_reduce(st, list, 1));
    FAILS(COPSE_ERR_ARGUMENT, copse_metrics_reduce(st, list, 2), "'m' is twice in the list");
    copse_strategy_release(&st);
}

/* ---- one process without a description of a cluster ---- */

static float x[MODEL_ROWS * MODEL_IN];
static int32_t y[MODEL_ROWS];

static double train(copse_strategy *st, float *weights)
{
    struct model m = { .dropout = 0.0f };
    const struct copse_host_batch batch = { RIG_XY(MODEL_IN, x, y), .count = 33 };
    struct copse_step_result result = { 0 };
    copse_trainer *t;
    OK(model_create(&m, st));
    const struct copse_trainer_params params = { .loss = model_loss, .user = &m };
    OK(copse_trainer_create(st, &params, &t));
    for (int i = 0; i < 3; i++) {
        OK(copse_trainer_step(t, &batch));
        OK(copse_trainer_result(t, true, &result));
    }
    OK(copse_variable_read(m.variables[1], 0, weights));
    copse_trainer_release(&t);
    return result.loss;
}

static void a_collective_of_one_process_is_local(void **state)
{
    static const char *const ids[] = { "host:0", "host:0" };
    float mine[MODEL_IN * 64] = { 0 }, mirrored[MODEL_IN * 64] = { 0 };
    copse_strategy *alone, *st = two_replicas();
    (void)state;
    OK(copse_collective_create(ctx, NULL, ids, 2, NULL, &alone));
    assert_int_equal(copse_strategy_kind_of(alone), COPSE_STRATEGY_COLLECTIVE);
    assert_string_equal(copse_strategy_name(alone), "collective");
    assert_int_equal(copse_strategy_replicas(alone), 2);
    assert_int_equal(copse_strategy_replicas_in_sync(alone), 2);
    assert_int_equal(copse_strategy_first_rank(alone), 0);
    model_data(x, y);
    const double loss = train(alone, mine);
    assert_true(loss == train(st, mirrored));
    assert_memory_equal(mine, mirrored, sizeof mine);
    FAILS(COPSE_ERR_ARGUMENT, copse_collective_create(ctx, NULL, ids, 2, NULL, NULL), "NULL");
    copse_strategy_release(&alone);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scale_is_finite),
        cmocka_unit_test(a_trainer_reads_variables_alone),
        cmocka_unit_test(a_tower_and_metrics_read_variables_alone),
        cmocka_unit_test(factors_are_of_variables),
        cmocka_unit_test(a_trainer_takes_a_variable_once),
        cmocka_unit_test(a_tower_takes_a_variable_once),
        cmocka_unit_test(a_metric_is_reduced_once),
        cmocka_unit_test(a_collective_of_one_process_is_local),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
