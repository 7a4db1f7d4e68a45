/* SPDX-License-Identifier: MIT */
/* Evaluation, prediction and saving with the moving averages of the variables: their values against
   double precision, training that goes on with the same bits, and what is refused, under every
   strategy. */
#include <math.h>

#include "copse/copse.h"
#include "copse/predict.h"
#include "copse/train/average.h"
#include "copse/train/slots.h"
#include "copse/train/weights.h"
#include "core/comm/local.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"
#include "tests/rig/workers/worker_rig.h"

enum {
    FIRST = 300,
    SECOND = 7,
    THIRD = 5,
    ALL = FIRST + SECOND + THIRD,
    VARIABLES = 3,
    ROWS = 12,
    STEPS = 6,
    STRATEGIES = 4
};

static const struct {
    const char *name;
    int count;
} parts[VARIABLES] = { { "first", FIRST }, { "second", SECOND }, { "kept", THIRD } };

#include "tests/rig/train/mean_rig.h"

static const struct copse_optimizer_params settings = {
    .kind = COPSE_SGD, .learning_rate = 0.1f, .average = 0.8f, .groups = "kept: frozen"
};

static struct copse_host_batch batch_of(int i)
{
    static struct copse_column x;
    x = (struct copse_column){ "x", COPSE_F32, COPSE_SHAPE(ALL), data_x[i] };
    return (struct copse_host_batch){ .columns = &x, .column_count = 1, .count = ROWS };
}

/* ---- the truth: averages after `steps` updates, and the loss of batch 0 with them ---- */

static double run_truth(int steps, double mean[ALL])
{
    double loss = 0, sums[ALL];
    for (int i = 0; i < ALL; i++) {
        double value = (double)first_value(i), all = 0, weights = 0;
        sums[i] = gradient_of(0, i);
        for (int t = 1; t <= steps && i < FIRST + SECOND; t++) {
            double g = gradient_of(t - 1, i);
            value -= 0.1 * g;
            /* the mean with weights d^(steps - t) */
            const double weight = pow((double)settings.average, steps - t);
            all += weight * value;
            weights += weight;
        }
        mean[i] = weights > 0 ? all / weights : value;
        loss += mean[i] * sums[i];
    }
    return loss;
}

static void compare(const char *name, const float *is, const double *want)
{
    for (int i = 0; i < ALL; i++)
        if (!(fabs((double)is[i] - want[i]) <= 2e-6))
            fail_msg("%s: element %d is %.9g, not %.9g", name, i, (double)is[i], want[i]);
}

/* ---- tests ---- */

/* Evaluates with averages after each step: the loss and predictions are those of the averages, and
   the run has the bits of one that does not evaluate. */
static void evaluation_uses_averages_and_changes_nothing(void **state)
{
    const char *name;
    float whole[ALL], value[ALL], before[ALL], row[ROWS];
    double mean[ALL];
    struct copse_step_result result;
    copse_strategy *st;
    struct model m;
    copse_trainer *t;
    (void)state;
    for (int i = 0; (st = strategy_of(i, &name)); i++) {
        OK(create(st, &settings, &m, &t));
        OK(train(t, 0, STEPS));
        OK(read_values(&m, whole));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
        st = strategy_of(i, &name);
        OK(create(st, &settings, &m, &t));
        for (int step = 0; step <= STEPS; step++) {
            if (step > 0)
                OK(train(t, step - 1, step));
            const double loss = run_truth(step, mean);
            OK(read_values(&m, before));
            assert_false(copse_trainer_is_averaged(t));
            OK(copse_trainer_average_begin(t));
            assert_true(copse_trainer_is_averaged(t));
            OK(read_values(&m, value));
            compare(name, value, mean);
            const struct copse_host_batch batch = batch_of(0);
            OK(copse_trainer_evaluate(t, &batch, &result));
            if (!(fabs((double)result.loss - loss) <= 2e-4))
                fail_msg("%s: the loss is %.9g, not %.9g", name, (double)result.loss, loss);
            OK(copse_trainer_predict(t, product, &m, &batch, row, sizeof row));
            double sum = 0;
            for (int r = 0; r < ROWS; r++)
                sum += (double)row[r] / ROWS;
            assert_true(fabs(sum - loss) <= 2e-4);
            OK(copse_trainer_average_end(t));
            OK(read_values(&m, value));
            assert_memory_equal(value, before, sizeof value);
        }
        OK(read_values(&m, value));
        assert_memory_equal(value, whole, sizeof value);
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

static void plain_averages_begin_with_the_first_values(void **state)
{
    struct copse_optimizer_params plain = settings;
    const char *name;
    copse_strategy *st;
    (void)state;
    plain.plain_average = 1;
    for (int i = 0; (st = strategy_of(i, &name)); i++) {
        float value[ALL];
        double truth[ALL], mean[ALL];
        struct model m;
        copse_trainer *t;
        for (int k = 0; k < ALL; k++)
            truth[k] = mean[k] = (double)first_value(k);
        OK(create(st, &plain, &m, &t));
        for (int step = 1; step <= STEPS; step++) {
            for (int k = 0; k < FIRST + SECOND; k++) {
                truth[k] -= 0.1 * gradient_of(step - 1, k);
                mean[k] = step == 1 ? truth[k] : 0.8 * mean[k] + 0.2 * truth[k];
            }
            OK(train(t, step - 1, step));
            OK(copse_trainer_average_begin(t));
            OK(read_values(&m, value));
            compare(name, value, mean);
            OK(copse_trainer_average_end(t));
        }
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
}

static void every_replica_has_the_averages(void **state)
{
    const char *name;
    float of[3][FIRST];
    struct model m;
    copse_trainer *t;
    copse_strategy *st = strategy_of(MIRRORED, &name);
    (void)state;
    OK(create(st, &settings, &m, &t));
    OK(train(t, 0, 3));
    OK(copse_trainer_average_begin(t));
    for (uint32_t r = 0; r < 3; r++)
        OK(copse_variable_read(m.v[0], r, of[r]));
    assert_memory_equal(of[0], of[1], sizeof of[0]);
    assert_memory_equal(of[0], of[2], sizeof of[0]);
    OK(copse_trainer_average_end(t));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* A file that is saved in between has the averages. A restored run has the same ones. */
static void saved_files_have_averages(void **state)
{
    const char *name;
    float value[ALL], again[ALL];
    double mean[ALL];
    copse_strategy *st;
    struct model m;
    copse_trainer *t;
    (void)state;
    temp_begin();
    run_truth(3, mean);
    for (int i = 0; (st = strategy_of(i, &name)); i++) {
        OK(create(st, &settings, &m, &t));
        OK(train(t, 0, 3));
        OK(copse_trainer_checkpoint(t, temp_path("run"), NULL));
        OK(copse_trainer_average_begin(t));
        OK(copse_trainer_save(t, temp_path("model")));
        OK(read_values(&m, value));
        copse_trainer_release(&t); /* in between */
        copse_strategy_release(&st);
        st = strategy_of(i, &name);
        OK(create(st, &settings, &m, &t));
        OK(copse_trainer_load(t, temp_path("model"), NULL, NULL));
        OK(read_values(&m, again));
        compare(name, again, mean);
        assert_memory_equal(value, again, sizeof value);
        OK(copse_trainer_average_begin(t)); /* a restore ends it */
        OK(copse_trainer_restore(t, temp_path("run"), NULL, NULL));
        assert_false(copse_trainer_is_averaged(t));
        OK(copse_trainer_average_begin(t));
        OK(read_values(&m, again));
        assert_memory_equal(value, again, sizeof value);
        OK(copse_trainer_average_end(t));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    temp_end();
}

/* A step with a gradient that is not finite: the average of its variable is not finite, the others'
   are. */
static void averages_of_infinite_values(void **state)
{
    static float x[ROWS * ALL];
    const char *name;
    float value[ALL], own[ALL];
    struct model m;
    copse_trainer *t;
    copse_strategy *st = strategy_of(MIRRORED, &name);
    (void)state;
    for (int i = 0; i < ROWS * ALL; i++)
        x[i] = i % ALL < FIRST ? INFINITY : 0.0f;
    const struct copse_column column = { "x", COPSE_F32, COPSE_SHAPE(ALL), x };
    const struct copse_host_batch batch = { .columns = &column, .column_count = 1, .count = ROWS };
    OK(create(st, &settings, &m, &t));
    OK(copse_trainer_step(t, &batch));
    OK(copse_trainer_average_begin(t));
    OK(read_values(&m, value));
    for (int i = 0; i < ALL; i++)
        /* zero gradients: the average is the value */
        if (i < FIRST ? isfinite(value[i]) : value[i] != first_value(i))
            fail_msg("element %d is %g", i, (double)value[i]);
    OK(copse_trainer_average_end(t));
    OK(read_values(&m, own));
    assert_true(own[0] == -INFINITY);
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

/* ---- several workers ---- */

static float of_worker[4][ALL];

static copse_status run_in_worker(struct worker *w, copse_strategy *st)
{
    float before[ALL], after[ALL];
    struct copse_step_result result;
    const struct copse_column x = { "x", COPSE_F32, COPSE_SHAPE(ALL), data_x[0] };
    const struct copse_host_batch batch = { .columns = &x, .column_count = 1, .count = ROWS };
    struct model m;
    copse_trainer *t;
    COPSE_TRY(create(st, &settings, &m, &t));
    copse_status s = train(t, 0, 3);
    if (!s)
        s = read_values(&m, before);
    if (!s)
        s = copse_trainer_average_begin(t);
    if (!s)
        s = copse_trainer_evaluate(t, &batch, &result);
    if (!s)
        s = read_values(&m, of_worker[w->rank]);
    if (!s)
        s = copse_trainer_average_end(t);
    if (!s)
        s = read_values(&m, after);
    if (!s)
        s = train(t, 3, STEPS);
    if (!s && memcmp(before, after, sizeof before) != 0)
        s = copse_fail(COPSE_ERR_INTERNAL, "the values did not come back");
    copse_trainer_release(&t);
    return s;
}

static void workers_have_whole_averages(void **state)
{
    struct worker w[2];
    double mean[ALL];
    (void)state;
    host_alone();
    run_workers_over(&copse__transport_local, w, 2, 2, NULL, run_in_worker);
    assert_all_ok(w, 2);
    run_truth(3, mean);
    compare("two workers", of_worker[0], mean);
    assert_memory_equal(of_worker[0], of_worker[1], sizeof of_worker[0]);
    devices_back();
}

/* ---- what is refused ---- */

static void refused(copse_status s, copse_status code, const char *says)
{
    assert_int_equal(s, code);
    if (!strstr(copse_last_error(), says))
        fail_msg("%s", copse_last_error());
}

static void changes_in_between_are_refused(void **state)
{
    const char *name;
    struct model m;
    copse_trainer *t;
    copse_strategy *st = strategy_of(ONE_DEVICE, &name);
    const struct copse_host_batch batch = batch_of(0);
    (void)state;
    temp_begin();
    OK(create(st, &settings, &m, &t));
    OK(train(t, 0, 1));
    OK(copse_trainer_save(t, temp_path("model")));
    refused(copse_trainer_average_end(t), COPSE_ERR_ARGUMENT, "have their own values");
    OK(copse_trainer_average_begin(t));
    refused(copse_trainer_average_begin(t), COPSE_ERR_ARGUMENT, "have their averages");
    refused(copse_trainer_step(t, &batch), COPSE_ERR_ARGUMENT, "copse_trainer_average_end first");
    refused(copse_trainer_flush(t), COPSE_ERR_ARGUMENT, "copse_trainer_average_end first");
    refused(copse_trainer_checkpoint(t, temp_path("run"), NULL), COPSE_ERR_ARGUMENT,
            "copse_trainer_average_end first");
    refused(copse_trainer_load(t, temp_path("model"), NULL, NULL), COPSE_ERR_ARGUMENT,
            "copse_trainer_average_end first");
    OK(copse_trainer_average_end(t));
    OK(train(t, 1, 2));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    st = strategy_of(ACCELERATOR, &name);
    OK(create(st, &settings, &m, &t));
    OK(train(t, 0, 1));
    OK(copse_trainer_average_begin(t));
    OK(copse_trainer_feed(t, &batch));
    refused(copse_trainer_run(t), COPSE_ERR_ARGUMENT, "copse_trainer_average_end first");
    OK(copse_trainer_average_end(t));
    OK(copse_trainer_run(t));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    temp_end();
}

static void strategies_without_averages_are_refused(void **state)
{
    static const char *const ids[] = { "host:0", "host:0" };
    const struct copse_optimizer_params none = { .kind = COPSE_SGD };
    const char *name;
    struct model m;
    copse_trainer *t;
    copse_strategy *st = strategy_of(ONE_DEVICE, &name);
    (void)state;
    OK(create(st, &none, &m, &t));
    refused(copse_trainer_average_begin(t), COPSE_ERR_ARGUMENT, "keeps no averages: set `average`");
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    OK(copse_parameter_server_create(ctx, NULL, ids, 2, NULL, &st));
    OK(create(st, &settings, &m, &t));
    OK(train(t, 0, 1));
    refused(copse_trainer_average_begin(t), COPSE_ERR_UNSUPPORTED,
            "parameter servers have the variables");
    OK(train(t, 1, 2));
    copse_trainer_release(&t);
    copse_strategy_release(&st);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_uses_averages_and_changes_nothing),
        cmocka_unit_test(plain_averages_begin_with_the_first_values),
        cmocka_unit_test(every_replica_has_the_averages),
        cmocka_unit_test(saved_files_have_averages),
        cmocka_unit_test(averages_of_infinite_values),
        cmocka_unit_test(workers_have_whole_averages),
        cmocka_unit_test(changes_in_between_are_refused),
        cmocka_unit_test(strategies_without_averages_are_refused),
    };
    make_data();
    return cmocka_run_group_tests(tests, open_workers, close_workers);
}
