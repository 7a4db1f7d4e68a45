/* SPDX-License-Identifier: MIT */
/* What is no row of a table of cases: dropout does not depend on the split; compositions of ops. */
#include <math.h>

#include "core/base/random.h"
#include "tests/rig/conformance/op_harness.h"

/* Rows 4.. of a batch draw what a batch that starts at example 4 draws. */
static void dropout_does_not_depend_on_the_split(void **state)
{
    (void)state;
    enum { ROWS = 12, SKIP = 4, COLS = 33 };
    double ones[ROWS * COLS], whole[ROWS * COLS], part[ROWS * COLS];
    uint32_t step[COPSE_STEP_WORDS] = { 3, 17, 18, 1000 };
    for (size_t i = 0; i < ROWS * COLS; i++)
        ones[i] = 1;
    for (size_t d = 0; d < harness_device_count(); d++) {
        for (int k = 0; k < 2; k++) {
            copse_graph *g;
            double *in = ones, *out = k ? part : whole;
            OK(copse_graph_create(harness_context(), &g));
            copse_tensor *x =
                copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(k ? ROWS - SKIP : ROWS, COLS));
            copse_tensor *y = copse_dropout(g, x, 0.5f, true);
            step[COPSE_STEP_FIRST_EXAMPLE] = k ? 1000 + SKIP : 1000;
            harness_on_device(harness_device(d), g, &x, &in, 1, &y, 1, step, &out);
            copse_graph_release(&g);
        }
        size_t kept = 0;
        for (size_t i = 0; i < (ROWS - SKIP) * COLS; i++) {
            assert_true(part[i] == whole[i + SKIP * COLS]);
            kept += part[i] != 0;
        }
        assert_in_range(kept, (ROWS - SKIP) * COLS * 4 / 10, (ROWS - SKIP) * COLS * 6 / 10);
    }
}

/* ---- batch norm, made of other ops ---- */

enum { BN_ROWS = 300, BN_COLS = 7 };

struct batch_norm {
    double x[BN_ROWS * BN_COLS], dy[BN_ROWS * BN_COLS], scale[BN_COLS], offset[BN_COLS];
    double y[BN_ROWS * BN_COLS], dx[BN_ROWS * BN_COLS], dscale[BN_COLS], doffset[BN_COLS];
};

/* (x - mean) / sqrt(variance + epsilon) scale + offset, with mean and variance over all axes but
   the last. */
static void build_batch_norm(copse_graph *g, copse_tensor *const *in, copse_tensor **y)
{
    static const uint32_t axes[] = { 0, 1 };
    copse_tensor *mean = copse_mean(g, in[0], axes, 2, true);
    *y = copse_sub(g, in[0], mean);
    copse_tensor *t = copse_square(g, *y);
    t = copse_mean(g, t, axes, 2, true);
    copse_tensor *epsilon = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0.25);
    t = copse_add(g, t, epsilon);
    t = copse_rsqrt(g, t);
    *y = copse_mul(g, *y, t);
    *y = copse_mul(g, *y, in[1]);
    *y = copse_add(g, *y, in[2]);
}

/* Within 16 half-ULPs of the size of its terms. */
static void near(const char *what, double got, double want, double size)
{
    if (!(fabs(got - want) <= 16 * 0x1p-24 * size))
        fail_msg("batch norm: %s is %.9g, expected %.9g", what, got, want);
}

static void check_batch_norm(const struct batch_norm *b)
{
    for (size_t c = 0; c < BN_COLS; c++) {
        double mean = 0, variance = 0, slope = 0, along = 0, slopes = 0, alongs = 0, offset = 0;
#define AT(k) ((k)*BN_COLS + c)
        for (size_t k = 0; k < BN_ROWS; k++)
            mean += b->x[AT(k)] / BN_ROWS;
        for (size_t k = 0; k < BN_ROWS; k++)
            variance += (b->x[AT(k)] - mean) * (b->x[AT(k)] - mean) / BN_ROWS;
        const double sigma = sqrt(variance + 0.25);
#define U(k)    ((b->x[AT(k)] - mean) / sigma)
#define SIZE(k) ((fabs(b->x[AT(k)]) + fabs(mean)) / sigma)
        for (size_t k = 0; k < BN_ROWS; k++) {
            slope += b->dy[AT(k)] / BN_ROWS;
            along += b->dy[AT(k)] * U(k) / BN_ROWS;
            slopes += fabs(b->dy[AT(k)]) / BN_ROWS;
            alongs += fabs(b->dy[AT(k)]) * SIZE(k) / BN_ROWS;
        }
        for (size_t k = 0; k < BN_ROWS; k++) {
            const double factor = b->scale[c] / sigma;
            near("y", b->y[AT(k)], U(k) * b->scale[c] + b->offset[c],
                 SIZE(k) * fabs(b->scale[c]) + fabs(b->offset[c]));
            near("dx", b->dx[AT(k)], factor * (b->dy[AT(k)] - slope - U(k) * along),
                 fabs(factor) * (fabs(b->dy[AT(k)]) + slopes + SIZE(k) * alongs));
            offset += b->dy[AT(k)];
        }
        near("dscale", b->dscale[c], along * BN_ROWS, alongs * BN_ROWS);
        near("doffset", b->doffset[c], offset, slopes * BN_ROWS);
    }
}

static void batch_norm_is_made_of_other_ops(void **state)
{
    static struct batch_norm b;
    struct copse_stream random;
    (void)state;
    copse__stream_init(&random, 5, 0);
    for (size_t i = 0; i < BN_ROWS * BN_COLS; i++) {
        b.x[i] = (double)copse__stream_normal(&random) + 0.5 * (double)(i % BN_COLS);
        b.dy[i] = (double)copse__stream_normal(&random);
    }
    for (size_t c = 0; c < BN_COLS; c++) {
        b.scale[c] = (double)copse__stream_normal(&random);
        b.offset[c] = (double)copse__stream_normal(&random);
    }
    for (size_t d = 0; d < harness_device_count(); d++) {
        copse_graph *g;
        copse_tensor *in[4], *out[4];
        double *values[] = { b.x, b.scale, b.offset, b.dy },
               *results[] = { b.y, b.dx, b.dscale, b.doffset };
        OK(copse_graph_create(harness_context(), &g));
        in[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(BN_ROWS / 3, 3, BN_COLS));
        in[1] = copse_graph_input(g, "scale", COPSE_F32, COPSE_SHAPE(BN_COLS));
        in[2] = copse_graph_input(g, "offset", COPSE_F32, COPSE_SHAPE(BN_COLS));
        in[3] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(BN_ROWS / 3, 3, BN_COLS));
        build_batch_norm(g, in, &out[0]);
        copse_gradients(g, out[0], in[3], in, 3, &out[1]);
        harness_on_device(harness_device(d), g, in, values, 4, out, 4, NULL, results);
        check_batch_norm(&b);
        copse_graph_release(&g);
    }
}

/* ---- where ---- */

/* NaN and infinities of the operand that is not chosen reach neither the result nor a
   derivative. */
static void where_keeps_the_other_operand_out(void **state)
{
    enum { N = 4 };
    (void)state;
    double flags[N] = { 1, 0, 1, 0 }, a[N] = { 4, -1, 9, 0 }, dy[N] = { 1, 1, 1, 1 }, y[N], da[N];
    for (size_t d = 0; d < harness_device_count(); d++) {
        copse_graph *g;
        copse_tensor *in[3], *root, *zero, *out[2];
        OK(copse_graph_create(harness_context(), &g));
        in[0] = copse_graph_input(g, "flags", COPSE_F32, COPSE_SHAPE(N));
        in[1] = copse_graph_input(g, "a", COPSE_F32, COPSE_SHAPE(N));
        in[2] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(N));
        /* 1 where a has no root: the usual way to keep NaN out */
        zero = copse_where(g, in[0], in[1], in[2]);
        root = copse_sqrt(g, zero);
        zero = copse_fill(g, COPSE_F32, COPSE_SCALAR, NAN);
        out[0] = copse_where(g, in[0], root, zero);
        out[0] = copse_where(g, in[0], out[0], in[2]);
        copse_gradients(g, out[0], in[2], &in[1], 1, &out[1]);
        harness_on_device(harness_device(d), g, in, (double *[]){ flags, a, dy }, 3, out, 2, NULL,
                          (double *[]){ y, da });
        for (size_t i = 0; i < N; i++) {
            assert_true(fabs(y[i] - (flags[i] != 0 ? sqrt(a[i]) : 1)) <= 1e-6);
            assert_true(fabs(da[i] - (flags[i] != 0 ? 0.5 / sqrt(a[i]) : 0)) <= 1e-6);
        }
        copse_graph_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropout_does_not_depend_on_the_split),
        cmocka_unit_test(batch_norm_is_made_of_other_ops),
        cmocka_unit_test(where_keeps_the_other_operand_out),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
