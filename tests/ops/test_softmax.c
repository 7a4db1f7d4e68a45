/* SPDX-License-Identifier: MIT */
/* Softmax, its logarithm and the losses, stated as numbers, on every device found: extreme logits,
   and labels out of range. */
#include <math.h>

#include "tests/rig/conformance/op_harness.h"

static copse_tensor *softmax(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_softmax(g, in[0]);
}

static copse_tensor *log_softmax(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_log_softmax(g, in[0]);
}

static void check_rows(copse_tensor *(*build)(copse_graph *, copse_tensor *const *, const void *),
                       const double *x, const double *want, uint32_t cols)
{
    double got[16], *in = (double *)x, *out = got;
    copse_graph *g;
    OK(copse_graph_create(harness_context(), &g));
    copse_tensor *t = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(1, cols));
    copse_tensor *y = build(g, &t, NULL);
    for (size_t d = 0; d <= harness_device_count(); d++) {
        if (d == 0)
            harness_in_double(g, &t, &in, 1, &y, 1, NULL, &out);
        else
            harness_on_device(harness_device(d - 1), g, &t, &in, 1, &y, 1, NULL, &out);
        for (uint32_t k = 0; k < cols; k++)
            if (isnan(want[k])
                    ? !isnan(got[k])
                    : !(got[k] == want[k] || fabs(got[k] - want[k]) < 1e-6 * fabs(want[k])))
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
        t[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(2, 3));
        t[1] = copse_graph_input(g, "labels", COPSE_I32, COPSE_SHAPE(2));
        t[2] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SCALAR);
        y[0] = copse_sparse_cross_entropy(g, t[0], t[1], COPSE_SUM);
        copse_gradients(g, y[0], t[2], &t[0], 1, &y[1]);
        for (size_t d = 0; d <= harness_device_count(); d++) {
            if (d == 0)
                harness_in_double(g, t, in, 3, y, 2, NULL, out);
            else
                harness_on_device(harness_device(d - 1), g, t, in, 3, y, 2, NULL, out);
            assert_true(isnan(loss));
            for (int k = 0; k < 6; k++)
                assert_true(k < 3 ? isfinite(dx[k]) : isnan(dx[k]));
        }
        copse_graph_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extreme_logits),
        cmocka_unit_test(labels_out_of_range),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
