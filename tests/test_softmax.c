/* SPDX-License-Identifier: MIT */
/* Softmax, its logarithm and the cross-entropy, on every device found: accuracy of their classes,
   extreme logits, labels out of range, rows of any length. */
#include <math.h>

#include "tests/op_harness.h"

static copse_status softmax(copse_graph *g, copse_tensor *const *in, const void *user,
                            copse_tensor **y)
{
    (void)user;
    return copse_softmax(g, in[0], y);
}

static copse_status log_softmax(copse_graph *g, copse_tensor *const *in, const void *user,
                                copse_tensor **y)
{
    (void)user;
    return copse_log_softmax(g, in[0], y);
}

static copse_status mean_loss(copse_graph *g, copse_tensor *const *in, const void *user,
                              copse_tensor **y)
{
    (void)user;
    return copse_sparse_cross_entropy(g, in[0], in[1], COPSE_MEAN, y);
}

static copse_status sum_loss(copse_graph *g, copse_tensor *const *in, const void *user,
                             copse_tensor **y)
{
    (void)user;
    return copse_sparse_cross_entropy(g, in[0], in[1], COPSE_SUM, y);
}

/* Tolerance class: 8 ULP and one more for each unit of distance from the maximum. */
static void rows_of_any_length(void **state)
{
    (void)state;
    static const struct {
        copse_shape x;
        double range;
    } rows[] = {
        { { 2, { 64, 10 } }, 5 },   { { 2, { 3, 1 } }, 5 },    { { 1, { 7 } }, 5 },
        { { 0, { 0 } }, 5 },        { { 2, { 5, 64 } }, 2 },   { { 2, { 5, 65 } }, 2 },
        { { 3, { 2, 3, 300 } }, 3 }, { { 2, { 2, 9000 } }, 3 }, { { 2, { 30, 10 } }, 40 },
        { { 2, { 0, 10 } }, 5 },    { { 2, { 10, 0 } }, 5 },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const struct harness_input x = { COPSE_F32, rows[i].x, -rows[i].range, rows[i].range,
                                         NULL, false };
        const struct harness_case plain = {
            .name = "softmax", .build = softmax, .in = { x }, .in_count = 1,
            .forward = { .ulp = 8 + 2 * rows[i].range }, .backward = { .ulp = 16, .of_max = 2e-6 },
        };
        harness_run(&plain);
        const struct harness_case logarithm = {
            .name = "log_softmax", .build = log_softmax, .in = { x }, .in_count = 1,
            .forward = { .ulp = 8 }, .backward = { .ulp = 16, .of_max = 2e-6 },
        };
        harness_run(&logarithm);
    }
}

static void cross_entropy(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows, cols;
        double range;
    } sizes[] = { { 64, 10, 4 }, { 1, 1, 4 }, { 3, 2, 4 }, { 130, 10, 4 }, { 5, 700, 3 },
                  { 4, 7, 60 }, { 1000, 3, 2 } };
    for (size_t i = 0; i < COPSE_COUNT(sizes); i++)
        for (int sum = 0; sum < 2; sum++) {
            const struct harness_case c = {
                .name = sum ? "cross_entropy sum" : "cross_entropy mean",
                .build = sum ? sum_loss : mean_loss,
                .in = { { COPSE_F32, { 2, { sizes[i].rows, sizes[i].cols } }, -sizes[i].range,
                          sizes[i].range, NULL, false },
                        { COPSE_I32, { 1, { sizes[i].rows } }, 0, sizes[i].cols, NULL, false } },
                .in_count = 2,
                .forward = { .ulp = 8 }, .backward = { .ulp = 12 + 2 * sizes[i].range },
                .seed = i + 1,
            };
            harness_run(&c);
        }
}

/* A confident and right row has a tiny loss; it must keep its digits. */
static void confident_rows_keep_their_digits(void **state)
{
    (void)state;
    static const double x[] = { 20, 0, 0, -3, 15, -4, 0, 1, 30 }, labels[] = { 0, 1, 2 };
    const struct harness_input in = { COPSE_F32, { 2, { 3, 3 } }, 0, 0, x, false };
    const struct harness_case loss = {
        .name = "loss of confident rows", .build = sum_loss,
        .in = { in, { COPSE_I32, { 1, { 3 } }, 0, 0, labels, true } }, .in_count = 2,
        .forward = { .ulp = 8 }, .backward = { .ulp = 40 }, .skips_differences = true,
    };
    harness_run(&loss);
    const struct harness_case logarithm = {
        .name = "log_softmax of confident rows", .build = log_softmax, .in = { in }, .in_count = 1,
        .forward = { .ulp = 8 }, .has_no_gradient = true,
    };
    harness_run(&logarithm);
}

static void check_rows(copse_status (*build)(copse_graph *, copse_tensor *const *, const void *,
                                             copse_tensor **),
                       const double *x, const double *want, uint32_t cols)
{
    double got[16], *in = (double *)x, *out = got;
    copse_graph *g;
    copse_tensor *t, *y;
    OK(copse_graph_create(harness_context(), &g));
    OK(copse_input(g, "x", COPSE_F32, COPSE_SHAPE(1, cols), &t));
    OK(build(g, &t, NULL, &y));
    for (size_t d = 0; d <= harness_device_count(); d++) {
        if (d == 0)
            harness_in_double(g, &t, &in, 1, &y, 1, NULL, &out);
        else
            harness_on_device(harness_device(d - 1), g, &t, &in, 1, &y, 1, NULL, NULL, &out);
        for (uint32_t k = 0; k < cols; k++)
            if (isnan(want[k]) ? !isnan(got[k])
                               : !(got[k] == want[k] ||
                                   fabs(got[k] - want[k]) < 1e-6 * fabs(want[k])))
                fail_msg("%s: element %u is %g, expected %g",
                         d ? copse_device_describe(harness_device(d - 1))->id : "reference",
                         (unsigned)k, got[k], want[k]);
    }
    copse_graph_release(&g);
}

static void extreme_logits(void **state)
{
    (void)state;
    const double big = 3e38;
    check_rows(softmax, (double[]){ big, -big, big }, (double[]){ 0.5, 0, 0.5 }, 3);
    check_rows(softmax, (double[]){ -INFINITY, 1, 1 }, (double[]){ 0, 0.5, 0.5 }, 3);
    check_rows(softmax, (double[]){ 1, NAN, 2 }, (double[]){ NAN, NAN, NAN }, 3);
    check_rows(softmax, (double[]){ 1, INFINITY, 2 }, (double[]){ NAN, NAN, NAN }, 3);
    check_rows(softmax, (double[]){ -INFINITY, -INFINITY }, (double[]){ NAN, NAN }, 2);
    check_rows(log_softmax, (double[]){ -INFINITY, 1, 1 },
               (double[]){ -INFINITY, -0.69314718055994531, -0.69314718055994531 }, 3);
    check_rows(log_softmax, (double[]){ 1, NAN }, (double[]){ NAN, NAN }, 2);
    check_rows(log_softmax, (double[]){ 1, INFINITY }, (double[]){ NAN, NAN }, 2);
    check_rows(log_softmax, (double[]){ -INFINITY, -INFINITY }, (double[]){ NAN, NAN }, 2);
}

/* A label out of range: NaN for the loss and the gradient of its row, the others stay right. */
static void labels_out_of_range(void **state)
{
    (void)state;
    static const double bad[] = { -1, 3, 2147483647, -2147483648.0 };
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        double x[6] = { 1, 2, 3, 4, 5, 6 }, labels[2] = { 1, bad[i] }, one = 1;
        double loss, dx[6], *in[] = { x, labels, &one }, *out[] = { &loss, dx };
        copse_graph *g;
        copse_tensor *t[3], *y[2];
        OK(copse_graph_create(harness_context(), &g));
        OK(copse_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 3), &t[0]));
        OK(copse_input(g, "labels", COPSE_I32, COPSE_SHAPE(2), &t[1]));
        OK(copse_input(g, "dy", COPSE_F32, COPSE_SCALAR, &t[2]));
        OK(copse_sparse_cross_entropy(g, t[0], t[1], COPSE_SUM, &y[0]));
        OK(copse_gradients(g, y[0], t[2], &t[0], 1, &y[1]));
        for (size_t d = 0; d <= harness_device_count(); d++) {
            if (d == 0)
                harness_in_double(g, t, in, 3, y, 2, NULL, out);
            else
                harness_on_device(harness_device(d - 1), g, t, in, 3, y, 2, NULL, NULL, out);
            assert_true(isnan(loss));
            for (int k = 0; k < 6; k++)
                assert_true(k < 3 ? isfinite(dx[k]) : isnan(dx[k]));
        }
        copse_graph_release(&g);
    }
}

static void losses_of_nothing(void **state)
{
    (void)state;
    for (int sum = 0; sum < 2; sum++) {
        const struct harness_case c = {
            .name = "cross_entropy of nothing", .build = sum ? sum_loss : mean_loss,
            .in = { { COPSE_F32, { 2, { 0, 5 } }, 0, 1, NULL, false },
                    { COPSE_I32, { 1, { 0 } }, 0, 1, NULL, false } },
            .in_count = 2,
        };
        harness_run(&c); /* 0 or NaN on all devices */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_length),     cmocka_unit_test(cross_entropy),
        cmocka_unit_test(confident_rows_keep_their_digits),
        cmocka_unit_test(extreme_logits),         cmocka_unit_test(labels_out_of_range),
        cmocka_unit_test(losses_of_nothing),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
