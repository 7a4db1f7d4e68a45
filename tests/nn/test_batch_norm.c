/* SPDX-License-Identifier: MIT */
/* Batch norm: statistics of the global batch, moving averages, evaluation by the averages, and the
   same results for any number of replicas. */
#include <math.h>

#include "core/base/base.h"
#include "core/base/random.h"
#include "tests/nn/layer_rig.h"
#include "tests/rig/found.h"

enum { ROWS = 20, WIDTH = 3, WIDE = 8, CLASSES = 3 };

static float features[ROWS * WIDTH];
static int32_t labels[ROWS];

static void make_data(void)
{
    struct copse_stream s;
    copse__stream_init(&s, 31, 0);
    for (int i = 0; i < ROWS; i++) {
        labels[i] = (int32_t)copse__stream_below(&s, CLASSES);
        for (int k = 0; k < WIDTH; k++)
            features[i * WIDTH + k] =
                5.0f * (float)k + copse__stream_normal(&s) + (k == labels[i] ? 2.0f : 0.0f);
    }
}

static copse_tensor *classify(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *logits = copse_layer_apply(user, g, in, rig_x(in));
    return copse_sparse_cross_entropy(g, logits, rig_y(in), COPSE_MEAN);
}

static void read_all(copse_strategy *st, uint32_t replica, float *to, size_t room, size_t *count)
{
    copse_variable *const *list;
    size_t variables;
    *count = 0;
    copse_strategy_variables(st, &list, &variables);
    for (size_t i = 0; i < variables; i++) {
        const copse_shape s = copse_variable_shape(list[i]);
        OK(copse_variable_read(list[i], replica, to + *count));
        *count += (size_t)s.dims[0] * (s.rank > 1 ? s.dims[1] : 1);
        assert_true(*count < room);
    }
}

/* ---- several replicas ---- */

struct outcome {
    double loss[8], evaluated;
    float values[512];
    size_t count;
};

static void train_on(const char *const *ids, size_t count, struct outcome *out)
{
    /* 2: a replica without examples */
    static const size_t rows[8] = { ROWS, 10, 7, ROWS, 2, ROWS, 11, ROWS };
    copse_strategy *st;
    copse_layer *l = parsed("batch_norm; dense 8; batch_norm momentum=0.5; relu; dense out");
    copse_trainer *t;
    struct copse_step_result r;
    OK(copse_mirrored_create(ctx, ids, count, NULL, &st));
    OK(copse_layer_build(
        l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(WIDTH), .outputs = CLASSES }));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = classify,
                                .user = l,
                                .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.05f } },
                            &t));
    for (int i = 0; i < 8; i++) {
        const struct copse_host_batch b = { RIG_XY(WIDTH, features, labels), .count = rows[i] };
        OK(copse_trainer_step(t, &b));
        OK(copse_trainer_result(t, true, &r));
        out->loss[i] = r.loss;
    }
    const struct copse_host_batch b = { RIG_XY(WIDTH, features, labels), .count = ROWS };
    OK(copse_trainer_evaluate(t, &b, &r));
    out->evaluated = r.loss;
    read_all(st, 0, out->values, COPSE_COUNT(out->values), &out->count);
    for (uint32_t k = 1; k < count; k++) { /* all replicas hold the same averages */
        float others[512];
        size_t n;
        read_all(st, k, others, COPSE_COUNT(others), &n);
        assert_memory_equal(others, out->values, n * sizeof *others);
    }
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

static void near(double got, double expected, double limit, const char *what)
{
    if (!(fabs(got - expected) <= limit))
        fail_msg("%s: %.9g, expected %.9g within %.1e", what, got, expected, limit);
}

static void replicas_compute_what_one_device_computes(void **state)
{
    static struct outcome one, three;
    const char *ids[3];
    (void)state;
    make_data();
    find_devices(ctx);
    train_on((const char *const[]){ "host:0" }, 1, &one);
    for (int is_mixed = 0; is_mixed < 2; is_mixed++) {
        for (uint32_t i = 0; i < 3; i++)
            ids[i] = is_mixed ? found[i % found_count] : "host:0";
        train_on(ids, 3, &three);
        assert_int_equal(one.count, three.count);
        for (int i = 0; i < 8; i++)
            near(three.loss[i], one.loss[i], 2e-5, "loss");
        near(three.evaluated, one.evaluated, 2e-5, "evaluated loss");
        for (size_t i = 0; i < one.count; i++)
            near((double)three.values[i], (double)one.values[i],
                 2e-5 * (1 + fabs((double)one.values[i])), "value");
    }
}

/* Their all-reduces have memory next to that of variables. A variable that is made after the first
   step has its own. */
static void later_variables_are_not_overwritten(void **state)
{
    static const char *const ids[] = { "host:0", "host:0" };
    static const float values[] = { 1, 2, 3, 4, 5 };
    const struct copse_variable_params params = { .name = "later",
                                                  .shape = COPSE_SHAPE(5),
                                                  .values = values };
    const struct copse_host_batch b = { RIG_XY(WIDTH, features, labels), .count = ROWS };
    copse_layer *l = parsed("batch_norm; dense out");
    const struct copse_trainer_params trainer = { .loss = classify, .user = l };
    copse_strategy *st;
    copse_trainer *t, *second;
    copse_variable *later;
    struct copse_step_result r;
    (void)state;
    make_data();
    OK(copse_mirrored_create(ctx, ids, 2, NULL, &st));
    OK(copse_layer_build(
        l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(WIDTH), .outputs = CLASSES }));
    OK(copse_trainer_create(st, &trainer, &t));
    for (int i = 0; i < 3; i++) {
        OK(copse_trainer_step(t, &b));
        OK(copse_trainer_result(t, true, &r));
        if (i == 0) {
            OK(copse_variable_create(st, &params, &later));
            OK(copse_trainer_create(st, &trainer, &second)); /* gives it a place on the devices */
        }
        for (uint32_t k = 0; k < 2; k++) {
            float got[5];
            OK(copse_variable_read(later, k, got));
            assert_memory_equal(got, values, sizeof values);
        }
    }
    copse_trainer_release(&second);
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

/* ---- the values ---- */

/* Reports the output of the first row. */
static copse_tensor *report_row(copse_graph *g, const copse_batch *in, void *user)
{
    static const char *const names[WIDTH] = { "0", "1", "2" };
    copse_tensor *part;
    copse_tensor *y = copse_layer_apply(user, g, in, rig_x(in));
    for (uint32_t i = 0; i < WIDTH; i++) {
        part = copse_slice(g, y, (const uint32_t[]){ 0, i }, (const uint32_t[]){ 1, 1 });
        copse_report(g, names[i], part);
    }
    return copse_mean(g, y, NULL, 0, false);
}

static void training_normalizes_by_the_batch_and_evaluation_by_the_averages(void **state)
{
    copse_strategy *st = on_host();
    copse_layer *l = parsed("batch_norm momentum=0.75 epsilon=0.01");
    copse_trainer *t;
    struct copse_step_result r;
    double mean[WIDTH] = { 0 }, variance[WIDTH] = { 0 };
    float got_mean[WIDTH], got_variance[WIDTH];
    (void)state;
    make_data();
    for (int i = 0; i < ROWS * WIDTH; i++)
        mean[i % WIDTH] += (double)features[i] / ROWS;
    for (int i = 0; i < ROWS * WIDTH; i++)
        variance[i % WIDTH] += pow((double)features[i] - mean[i % WIDTH], 2) / ROWS;
    OK(copse_layer_build(l, st, &(struct copse_build_params){ .shape = COPSE_SHAPE(WIDTH) }));
    assert_int_equal(copse_layer_parameters(l), 2 * WIDTH);
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){
                                .loss = report_row,
                                .user = l,
                                .optimizer = { .kind = COPSE_SGD, .learning_rate = 1e-20f } },
                            &t));
    const struct copse_host_batch b = { RIG_X(WIDTH, features), .count = ROWS };
    /* the first averages: mean 0, variance 1; changes nothing */
    OK(copse_trainer_evaluate(t, &b, &r));
    for (int k = 0; k < WIDTH; k++)
        near(r.reports[k], (double)features[k] / sqrt(1.01), 1e-5, "first evaluation");
    OK(copse_trainer_step(t, &b));
    OK(copse_trainer_result(t, true, &r));
    for (int k = 0; k < WIDTH; k++)
        near(r.reports[k], ((double)features[k] - mean[k]) / sqrt(variance[k] + 0.01), 1e-5,
             "training");
    OK(copse_variable_read(variable_of(st, "batch_norm1.mean"), 0, got_mean));
    OK(copse_variable_read(variable_of(st, "batch_norm1.variance"), 0, got_variance));
    for (int k = 0; k < WIDTH; k++) {
        near((double)got_mean[k], 0.25 * mean[k], 1e-5, "mean");
        near((double)got_variance[k], 0.75 + 0.25 * variance[k], 1e-5, "variance");
    }
    OK(copse_trainer_evaluate(t, &b, &r));
    for (int k = 0; k < WIDTH; k++)
        near(r.reports[k], ((double)features[k] - 0.25 * mean[k]) / sqrt(0.76 + 0.25 * variance[k]),
             1e-5, "evaluation");
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

/* A frozen layer is one of an evaluation: a step normalises by its averages, and keeps them. With one
   of scale and offset frozen it trains. */
static void a_frozen_layer_keeps_its_averages(void **state)
{
    static const char *const groups[] = { "batch_norm1.*: frozen", "batch_norm1.scale: frozen" };
    const struct copse_host_batch b = { RIG_XY(WIDTH, features, labels), .count = ROWS };
    (void)state;
    make_data();
    for (int i = 0; i < 2; i++) {
        copse_strategy *st = on_host();
        copse_layer *l = parsed("batch_norm; dense out");
        copse_trainer *t;
        struct copse_step_result evaluated, trained;
        float mean[WIDTH], variance[WIDTH];
        OK(copse_layer_build(
            l, st,
            &(struct copse_build_params){ .shape = COPSE_SHAPE(WIDTH), .outputs = CLASSES }));
        OK(copse_trainer_create(st,
                                &(struct copse_trainer_params){
                                    .loss = classify, .user = l, .optimizer.groups = groups[i] },
                                &t));
        OK(copse_trainer_evaluate(t, &b, &evaluated));
        OK(copse_trainer_step(t, &b));
        OK(copse_trainer_result(t, true, &trained));
        OK(copse_variable_read(variable_of(st, "batch_norm1.mean"), 0, mean));
        OK(copse_variable_read(variable_of(st, "batch_norm1.variance"), 0, variance));
        for (int k = 0; k < WIDTH; k++)
            assert_true((mean[k] == 0.0f && variance[k] == 1.0f) == (i == 0));
        if (i == 0)
            near(trained.loss, evaluated.loss, 1e-6, "loss");
        else
            assert_true(fabs(trained.loss - evaluated.loss) > 1e-3);
        copse_trainer_release(&t);
        copse_layer_release(&l);
        copse_strategy_release(&st);
    }
}

/* Axes between the examples and the features count as examples. */
static void features_are_the_last_axis(void **state)
{
    copse_strategy *st = on_host();
    copse_layer *l = parsed("batch_norm momentum=0; flatten; dense out");
    copse_trainer *t;
    struct copse_step_result r;
    float mean[2];
    (void)state;
    const float x[] = { 1, 10, 2, 20, 3, 30, 6, 60 };
    const int32_t y[] = { 0, 1 };
    OK(copse_layer_build(l, st,
                         &(struct copse_build_params){ .shape = COPSE_SHAPE(2, 2), .outputs = 2 }));
    OK(copse_trainer_create(st, &(struct copse_trainer_params){ .loss = classify, .user = l }, &t));
    const struct copse_host_batch b = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(2, 2), x },
                                                      { "y", COPSE_I32, COPSE_SCALAR, y }),
                                        .count = 2 };
    OK(copse_trainer_step(t, &b));
    OK(copse_trainer_result(t, true, &r));
    OK(copse_variable_read(variable_of(st, "batch_norm1.mean"), 0, mean));
    near((double)mean[0], 3, 1e-6, "mean");
    near((double)mean[1], 30, 1e-5, "mean");
    copse_trainer_release(&t);
    copse_layer_release(&l);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_compute_what_one_device_computes),
        cmocka_unit_test(later_variables_are_not_overwritten),
        cmocka_unit_test(training_normalizes_by_the_batch_and_evaluation_by_the_averages),
        cmocka_unit_test(a_frozen_layer_keeps_its_averages),
        cmocka_unit_test(features_are_the_last_axis),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
