/* SPDX-License-Identifier: MIT */
/* The learning-rate range test: its rates, the average of losses, where it ends, what it suggests;
   the variables keep their bits. */
#include <math.h>

#include "copse/distribute/parameter_server.h"
#include "copse/loop/find_lr.h"
#include "tests/rig/train/model_rig.h"

enum { ROWS = 100, IN = 4, CLASSES = 3 };

static float x[ROWS * IN];
static int32_t y[ROWS];
static struct copse_lr_range first, second;

static int setup(void **state)
{
    uint32_t r = 5;
    for (int i = 0; i < ROWS * IN; i++) {
        r = r * 1664525u + 1013904223u;
        x[i] = (float)(r >> 8) / 16777216.0f;
    }
    for (int i = 0; i < ROWS; i++)
        y[i] = (x[i * IN] > 0.5f) + (x[i * IN + 1] > 0.5f);
    return open_context(state);
}

static copse_dataset *make_data(void)
{
    copse_dataset *data = NULL;
    const struct copse_array_view features = { COPSE_F32, 2, { ROWS, IN }, x },
                                  labels = { COPSE_I32, 1, { ROWS }, y };
    OK(copse_dataset_create(ctx, &features, &labels, NULL, &data));
    return data;
}

static const struct copse_model_fit_params how = { .batch = 16, .seed = 3 };

/* A test of a new model; its values are the same before and after. */
static copse_status find(size_t replicas, const struct copse_find_lr_params *p,
                         const struct copse_model_fit_params *fit, struct copse_lr_range *out)
{
    enum { MOST = 8 * IN };
    float before[2][MOST] = { { 0 } }, after[2][MOST] = { { 0 } };
    copse_strategy *st = strategy_of(ctx, replicas);
    copse_dataset *data = make_data();
    copse_model *m = make_model(st, data, "dense 8 relu; batch_norm; dense out", NULL);
    copse_variable *const *list;
    size_t count;
    copse_strategy_variables(st, &list, &count);
    assert_int_equal(count, 8); /* 4: the mean of the batch norm */
    OK(copse_variable_read(list[0], 0, before[0]));
    OK(copse_variable_read(list[4], 0, before[1]));
    const copse_status s = copse_model_find_lr(m, data, fit, p, out);
    OK(copse_variable_read(list[0], 0, after[0]));
    OK(copse_variable_read(list[4], 0, after[1]));
    assert_memory_equal(before, after, sizeof before);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
    return s;
}

/* The definition: rates, averages, the baseline, the end, the suggestion. */
static void check(const struct copse_lr_range *r, double start, double end, uint32_t steps)
{
    const uint32_t few = steps / 10 > 5 ? steps / 10 : 5;
    double average = 0.0, lowest = INFINITY, baseline = 0.0;
    uint32_t best = 0;
    assert_true(r->count > 0 && r->count <= steps);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct copse_lr_point *p = &r->points[i];
        const double rate = start * pow(end / start, (double)i / (steps - 1));
        assert_true(fabs((double)p->lr - rate) <= 1e-6 * rate);
        average = 0.9 * average + 0.1 * p->loss;
        const double smoothed = average / (1.0 - pow(0.9, i + 1));
        assert_true(fabs(p->smoothed - smoothed) <= 1e-12 * smoothed);
        if (i < few)
            baseline = (baseline * i + p->loss) / (i + 1);
        else if (i == few || p->smoothed < r->points[best].smoothed)
            best = i;
        lowest = fmin(lowest, p->smoothed);
        const bool diverges = p->smoothed > baseline && p->smoothed > 4.0 * lowest;
        assert_true(!diverges || i + 1 == r->count);
        assert_true(!diverges || r->has_diverged);
    }
    assert_int_equal(r->best, best);
    assert_true(r->has_diverged == (r->count < steps) || r->count == steps);
    const bool is_lower = r->count > few && r->points[best].smoothed < 0.9 * baseline;
    assert_true(r->suggestion ==
                (is_lower ? fmaxf(0.1f * r->points[best].lr, (float)start) : 0.0f));
}

static void rates_grow_until_the_loss_diverges(void **state)
{
    (void)state;
    OK(find(1, NULL, &how, &first));
    check(&first, 1e-7, 10.0, 100);
    assert_true(first.suggestion > 1e-4f && first.suggestion < 1.0f);
    OK(find(1, NULL, &how, &second));
    assert_memory_equal(&first, &second, sizeof first); /* the same seed */
    struct copse_model_fit_params other = how;
    other.seed++;
    OK(find(1, NULL, &other, &second));
    assert_true(first.points[0].loss != second.points[0].loss);
    OK(find(3, NULL, &how, &second));
    check(&second, 1e-7, 10.0, 100);
    assert_true(fabs(second.points[40].loss - first.points[40].loss) < 1e-4);
    const struct copse_find_lr_params mine = { .start_lr = 1e-3f, .end_lr = 0.5f, .steps = 1000 };
    OK(find(1, &mine, &how, &second));
    check(&second, 1e-3, 0.5, 1000);
    /* rates of the optimizer do not count */
    struct copse_model_fit_params rate = how;
    rate.optimizer.learning_rate = 123.0f;
    OK(find(1, NULL, &rate, &second));
    assert_memory_equal(&first, &second, sizeof first);
}

static void rates_without_effect_are_not_suggested(void **state)
{
    const struct copse_find_lr_params low = { .start_lr = 1e-30f, .end_lr = 1e-29f, .steps = 20 };
    const struct copse_find_lr_params high = { .start_lr = 1e30f, .end_lr = 1e38f, .steps = 10 };
    struct copse_model_fit_params sgd = how;
    (void)state;
    sgd.batch = ROWS;
    OK(find(1, &low, &sgd, &first));
    check(&first, 1e-30, 1e-29, 20);
    assert_int_equal(first.count, 20);
    assert_true(first.suggestion == 0.0f && !first.has_diverged);
    sgd.optimizer.kind = COPSE_SGD;
    OK(find(1, &high, &sgd, &first));
    assert_true(first.has_diverged && first.count < 10 && first.suggestion == 0.0f);
}

/* Rates without effect: losses differ by the batches of 2 alone. */
static void noise_suggests_no_rate_below_the_first(void **state)
{
    const struct copse_find_lr_params low = { .start_lr = 1e-9f, .end_lr = 1e-8f, .steps = 50 };
    struct copse_model_fit_params noisy = how;
    (void)state;
    noisy.batch = 2;
    for (noisy.seed = 1; noisy.seed <= 8; noisy.seed++) {
        OK(find(1, &low, &noisy, &first));
        check(&first, 1e-9, 1e-8, 50);
        assert_true(first.suggestion == 0.0f || first.suggestion >= low.start_lr);
    }
}

/* What a trainer that checks finds is the end of the test, and no error. */
static void checks_of_a_trainer_end_the_test(void **state)
{
    const struct copse_find_lr_params high = { .start_lr = 1e30f, .end_lr = 1e38f, .steps = 20 };
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        copse_strategy *st = strategy_of(ctx, 1);
        copse_dataset *data = make_data();
        copse_model *m = make_model(st, data, "dense 8 relu; dense out", NULL);
        copse_variable *const *list;
        copse_trainer *t = NULL;
        copse_loader *batches = NULL;
        copse_schedule *rates = NULL;
        float before[8 * IN], after[8 * IN];
        size_t count;
        copse_strategy_variables(st, &list, &count);
        OK(copse_variable_read(list[0], 0, before));
        OK(copse_find_lr_schedule(ctx, &high, &rates));
        OK(copse_trainer_create(
            st,
            &(struct copse_trainer_params){ .loss = copse_model_loss,
                                            .user = m,
                                            .check_numerics = kind % 3 == 0,
                                            .check_gradients = kind % 3 == 1,
                                            .accumulate = kind < 3 ? 1 : 3,
                                            .optimizer = { .kind = COPSE_SGD,
                                                           .schedule = copse_schedule_rate,
                                                           .schedule_user = rates } },
            &t));
        OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 10 }, &batches));
        OK(copse_trainer_find_lr(t, batches, &high, &first));
        assert_true(first.has_diverged && first.count < 20);
        assert_true(first.suggestion == 0.0f);
        OK(copse_variable_read(list[0], 0, after));
        assert_memory_equal(before, after, sizeof before);
        copse_loader_release(&batches);
        copse_trainer_release(&t);
        copse_schedule_release(&rates);
        copse_model_release(&m);
        copse_dataset_release(&data);
        copse_strategy_release(&st);
    }
}

static void parameter_servers_are_refused(void **state)
{
    copse_strategy *st = NULL;
    (void)state;
    OK(copse_parameter_server_create(ctx, NULL, rig_devices, 1, NULL, &st));
    copse_dataset *data = make_data();
    copse_model *m = make_model(st, data, "dense out", NULL);
    FAILS(COPSE_ERR_UNSUPPORTED, copse_model_find_lr(m, data, &how, NULL, &first),
          "find_lr: parameter servers have the variables");
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

static void wrong_tests_are_refused(void **state)
{
    const struct copse_find_lr_params few = { .steps = 9 }, many = { .steps = 1001 },
                                      falls = { .start_lr = 1.0f, .end_lr = 0.1f },
                                      below = { .start_lr = -1.0f },
                                      infinite = { .end_lr = INFINITY };
    (void)state;
    FAILS(COPSE_ERR_ARGUMENT, find(1, &few, &how, &first), "9 steps; 10 to 1000 are possible");
    FAILS(COPSE_ERR_ARGUMENT, find(1, &many, &how, &first), "1001 steps");
    FAILS(COPSE_ERR_ARGUMENT, find(1, &falls, &how, &first), "from 1 to 0.1: they must");
    FAILS(COPSE_ERR_ARGUMENT, find(1, &below, &how, &first), "above 0 and grow");
    FAILS(COPSE_ERR_ARGUMENT, find(1, &infinite, &how, &first), "above 0 and grow");

    copse_strategy *st = strategy_of(ctx, 1);
    copse_dataset *data = make_data();
    copse_model *m = make_model(st, data, "dense out", NULL);
    copse_trainer *t = train(m, data, 1);
    copse_loader *batches = NULL;
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 10 }, &batches));
    FAILS(COPSE_ERR_ARGUMENT, copse_trainer_find_lr(t, batches, NULL, &first),
          "the trainer has made 4 steps");
    copse_loader_release(&batches);
    copse_trainer_release(&t);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

/* A step is an update, of three batches of 10 here. */
static void micro_batches_make_a_step(void **state)
{
    copse_strategy *st = strategy_of(ctx, 2);
    copse_dataset *data = make_data();
    copse_model *m = make_model(st, data, "dense out", NULL);
    copse_trainer *t = NULL;
    copse_loader *batches = NULL;
    copse_schedule *rates = NULL;
    (void)state;
    OK(copse_find_lr_schedule(ctx, NULL, &rates));
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){
            .loss = copse_model_loss,
            .user = m,
            .accumulate = 3,
            .optimizer = { .schedule = copse_schedule_rate, .schedule_user = rates } },
        &t));
    OK(copse_loader_create(data, &(struct copse_loader_params){ .batch = 10 }, &batches));
    OK(copse_trainer_find_lr(t, batches, NULL, &first));
    check(&first, 1e-7, 10.0, 100);
    assert_int_equal(copse_trainer_steps(t), first.count);
    copse_loader_release(&batches);
    copse_trainer_release(&t);
    copse_schedule_release(&rates);
    copse_model_release(&m);
    copse_dataset_release(&data);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_grow_until_the_loss_diverges),
        cmocka_unit_test(rates_without_effect_are_not_suggested),
        cmocka_unit_test(noise_suggests_no_rate_below_the_first),
        cmocka_unit_test(checks_of_a_trainer_end_the_test),
        cmocka_unit_test(parameter_servers_are_refused),
        cmocka_unit_test(wrong_tests_are_refused),
        cmocka_unit_test(micro_batches_make_a_step),
    };
    return cmocka_run_group_tests(tests, setup, close_context);
}
