/* SPDX-License-Identifier: MIT */
/* Constants keep their values from step to step, on every replica, in every recording and in a run
   of several steps: a loss with them has the bits of a loss with a frozen variable. */
#include "copse/device/function.h"
#include "copse/distribute/accelerator.h"
#include "copse/loop/feed.h"
#include "core/base/base.h"
#include "tests/rig/train/step_rig.h"

enum { WIDTH = 3, TOGETHER = 3, STEPS = 15 };
static const float factors[WIDTH] = { 0.5f, -1.25f, 2.0f }, starts[WIDTH] = { 0.1f, 0.2f, -0.3f };
static const size_t sizes[STEPS / TOGETHER] = { 8, 5, 11, 5, 8 };

struct job {
    copse_strategy *st;
    copse_trainer *t;
    copse_variable *w, *frozen; /* NULL: a constant instead */
};

/* Mean of (x factor w - one_hot)^2 over rows of x: two constants, one of them of one_hot. */
static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct job *j = user;
    copse_tensor *factor;
    if (j->frozen)
        factor = copse_variable_tensor(j->frozen);
    else
        factor = copse_constant(g, COPSE_F32, COPSE_SHAPE(WIDTH), factors);
    copse_tensor *x = copse_input(in, "x");
    x = copse_mul(g, x, factor);
    x = copse_mul(g, x, copse_variable_tensor(j->w));
    copse_tensor *classes = copse_input(in, "y");
    classes = copse_one_hot(g, classes, WIDTH);
    return copse_mean_squared_error(g, x, classes);
}

static void train(struct job *j, double *losses)
{
    static float x[16 * WIDTH];
    static int32_t y[16];
    for (size_t i = 0; i < COPSE_COUNT(x); i++)
        x[i] = (float)(i % 7) * 0.125f - 0.25f;
    for (size_t i = 0; i < COPSE_COUNT(y); i++)
        y[i] = (int32_t)(i % WIDTH);
    for (size_t i = 0; i < STEPS; i++) {
        struct copse_step_result got;
        const bool is_run = copse_accelerator_steps_per_run(j->st) > 1;
        const struct copse_host_batch b = rig_kept(
            (struct copse_host_batch){ RIG_XY(WIDTH, x, y), .count = sizes[i / TOGETHER] });
        OK(is_run ? copse_trainer_feed(j->t, &b) : copse_trainer_step(j->t, &b));
        if (i % TOGETHER != TOGETHER - 1)
            continue;
        if (is_run)
            OK(copse_trainer_run(j->t));
        for (size_t k = i + 1 - TOGETHER; k <= i; k++) {
            OK(copse_trainer_result(j->t, true, &got));
            losses[k] = got.loss;
        }
    }
}

static void run(copse_strategy *st, bool is_constant, double *losses, float *w)
{
    struct job j = { .st = st };
    j.w = rig_variable(st, is_constant ? "w1" : "w2", COPSE_SHAPE(WIDTH), starts);
    if (!is_constant)
        OK(copse_variable_create(st,
                                 &(struct copse_variable_params){ .name = "factor",
                                                                  .shape = COPSE_SHAPE(WIDTH),
                                                                  .values = factors,
                                                                  .is_frozen = true },
                                 &j.frozen));
    const struct copse_trainer_params p = {
        .loss = loss,
        .user = &j,
        .variables = &j.w,
        .variable_count = 1,
        .recordings = 2,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.1f },
    };
    OK(copse_trainer_create(st, &p, &j.t));
    train(&j, losses);
    OK(copse_variable_read(j.w, copse_strategy_replicas(st) - 1, w));
    copse_trainer_release(&j.t);
}

static void compare(copse_strategy *st, const char *what)
{
    double constant[STEPS], frozen[STEPS];
    float w[2][WIDTH];
    run(st, true, constant, w[0]);
    run(st, false, frozen, w[1]);
    for (size_t i = 0; i < STEPS; i++)
        if (constant[i] != frozen[i])
            fail_msg("%s, step %zu: loss %.9g with constants, %.9g with a frozen variable", what, i,
                     constant[i], frozen[i]);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_true(constant[STEPS - 1] < constant[0]); /* steps of 8 examples */
    copse_strategy_release(&st);
}

static void constants_are_values_on_every_replica(void **state)
{
    (void)state;
    copse_strategy *st;
    compare(rig_strategy(1, NULL), "one replica");
    compare(rig_strategy(3, NULL), "three replicas");
    OK(copse_accelerator_create(ctx, (const char *const[]){ rig_devices[1], rig_devices[1] }, 2,
                                &(struct copse_accelerator_params){ .steps_per_run = TOGETHER },
                                &st));
    compare(st, "an accelerator");
}

/* The graph copies the values. */
static void the_array_may_change(void **state)
{
    (void)state;
    float values[2] = { 1, 2 }, got[2];
    copse_graph *g;
    copse_device *dev;
    copse_function *f;
    OK(copse_graph_create(ctx, &g));
    copse_tensor *c = copse_constant(g, COPSE_F32, COPSE_SHAPE(2), values);
    values[0] = values[1] = 7;
    copse_tensor *y = copse_neg(g, c);
    OK(copse_device_open(ctx, rig_devices[1], NULL, &dev));
    copse_tensor *outputs[] = { y, c };
    OK(copse_function_create(
        dev, &(struct copse_function_params){ .graph = g, .outputs = outputs, .output_count = 2 },
        &f));
    copse_graph_release(&g); /* the function has its own copy */
    for (int i = 0; i < 3; i++) {
        OK(copse_function_run(f));
        OK(copse_function_read(f, 0, got));
        assert_true(got[0] == -1 && got[1] == -2);
        OK(copse_function_read(f, 1, got));
        assert_true(got[0] == 1 && got[1] == 2);
    }
    copse_function_release(&f);
    copse_device_release(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_values_on_every_replica),
        cmocka_unit_test(the_array_may_change),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
