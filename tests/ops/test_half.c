/* SPDX-License-Identifier: MIT */
/* f16 and bf16 tensors in graphs: conversion of operands, derivatives, and memory. Numbers are in
   the table of casts. */
#include "copse/device/function.h"
#include "copse/distribute/sync.h"
#include "copse/matmul.h"
#include "copse/ops/losses.h"
#include "copse/ops/norm.h"
#include "copse/ops/precision.h"
#include "copse/ops/resize.h"
#include "tests/rig/conformance/op_harness.h"
#include "tests/rig/graph_rig.h"

static copse_graph *graph_of(const char *name, copse_type type, copse_shape shape, copse_tensor **x)
{
    copse_graph *g;
    OK(copse_graph_create(harness_context(), &g));
    *x = copse_graph_input(g, name, type, shape);
    return g;
}

/* An op that computes in f32 gets one cast of its operand, which other ops share; u8 is refused. */
static void operands_are_converted_once(void **state)
{
    (void)state;
    copse_tensor *x;
    copse_graph *g = graph_of("x", COPSE_F32, COPSE_SHAPE(5), &x);
    copse_tensor *h = copse_cast(g, x, COPSE_BF16);
    assert_int_equal(copse_tensor_type(h), COPSE_BF16);
    copse_tensor *y = copse_add(g, h, x);
    assert_int_equal(copse_tensor_type(y), COPSE_F32);
    const size_t nodes = g->nodes.count;
    copse_tensor *z = copse_mul(g, h, y);
    assert_int_equal(g->nodes.count, nodes + 1);
    assert_int_equal(copse_tensor_type(z), COPSE_F32);
    copse_tensor *bytes = copse_graph_input(g, "bytes", COPSE_U8, COPSE_SHAPE(5));
    harness_fails(rig_failure(g, copse_add(g, bytes, x)), COPSE_ERR_UNSUPPORTED,
                  "operand 0 is u8; convert it first");
    copse_graph_release(&g);
}

/* d(sum(h^2)) / dx of h = f16(x) is 2 h, of f32. */
static void derivatives_are_f32(void **state)
{
    (void)state;
    static double values[] = { 1, 2049, -0x1p-25, 0x1.8p-24, 300 }, slopes[5];
    static const double want[] = { 2, 4096, 0, 0x1p-22, 600 };
    double *in = values, *out = slopes;
    for (size_t d = 0; d < harness_device_count(); d++) {
        copse_tensor *x, *dx;
        copse_graph *g = graph_of("x", COPSE_F32, COPSE_SHAPE(5), &x);
        copse_tensor *h = copse_cast(g, x, COPSE_F16);
        h = copse_reshape(g, h, COPSE_SHAPE(5, 1)); /* a view of 16 bits */
        copse_tensor *y = copse_square(g, h);
        y = copse_sum(g, y, NULL, 0, false);
        copse_gradients(g, y, NULL, &x, 1, &dx);
        assert_int_equal(copse_tensor_type(dx), COPSE_F32);
        harness_on_device(harness_device(d), g, &x, &in, 1, &dx, 1, NULL, &out);
        for (size_t i = 0; i < COPSE_COUNT(want); i++)
            if (slopes[i] != want[i])
                fail_msg("%s: element %zu is %g, expected %g", harness_device(d)->info.id, i,
                         slopes[i], want[i]);
        copse_graph_release(&g);
    }
}

static void results_are_f32(void **state)
{
    (void)state;
    copse_tensor *x;
    copse_function *f;
    copse_graph *g = graph_of("x", COPSE_F32, COPSE_SHAPE(5), &x);
    copse_tensor *h = copse_cast(g, x, COPSE_F16);
    harness_fails(
        copse_function_create(
            harness_device(0),
            &(struct copse_function_params){ .graph = g, .outputs = &h, .output_count = 1 }, &f),
        COPSE_ERR_UNSUPPORTED, "output 0 is f16; convert it first");
    copse_gradients(g, x, x, &h, 1, &x);
    harness_fails(copse__graph_take_failure(g), COPSE_ERR_SHAPE, "x[0] is not f32");
    copse_graph_release(&g);
}

#define TAKES(...)                                              \
    do {                                                        \
        copse_tensor *taken_ = (__VA_ARGS__);                   \
        OK(copse_graph_status(g));                              \
        assert_int_equal(copse_tensor_type(taken_), COPSE_F32); \
    } while (0)

/* Ops that look at types before they add a node, too. */
static void every_op_takes_them(void **state)
{
    (void)state;
    static const uint32_t size[] = { 8, 8 }, axes[] = { 0, 1, 2 };
    static const copse_type types[] = { COPSE_F16, COPSE_BF16 };
    for (size_t k = 0; k < COPSE_COUNT(types); k++) {
        copse_tensor *x, *variance;
        copse_graph *g = graph_of("x", types[k], COPSE_SHAPE(2, 4, 4, 4), &x);
        copse_tensor *m = copse_graph_input(g, "m", types[k], COPSE_SHAPE(3, 4));
        copse_tensor *c = copse_graph_input(g, "c", types[k], COPSE_SHAPE(4));
        copse_tensor *labels = copse_graph_input(g, "labels", COPSE_I32, COPSE_SHAPE(3));
        TAKES(copse_relu(g, x));
        TAKES(copse_softmax(g, m));
        TAKES(copse_concat(g, (copse_tensor *[]){ m, m }, 2, 0));
        TAKES(copse_where(g, m, m, m));
        TAKES(copse_layer_norm(g, m, c, c, 1e-5f));
        TAKES(copse_cross_entropy(g, m, labels, NULL));
        TAKES(copse_sparse_cross_entropy(g, m, labels, COPSE_MEAN));
        TAKES(copse_binary_cross_entropy(g, m, m, c, COPSE_MEAN));
        TAKES(copse_kl_divergence(g, m, m, COPSE_MEAN));
        TAKES(copse_cosine_similarity(g, m, m));
        TAKES(copse_group_norm(g, x, 2, c, c, 1e-5f));
        TAKES(copse_resize(g, x, size, COPSE_RESIZE_LINEAR));
        TAKES(copse_pixel_shuffle(g, x, 2));
        TAKES(copse_pixel_unshuffle(g, x, 2));
        TAKES(copse_all_reduce(g, m, COPSE_SUM));
        TAKES(copse_sync_moments(g, x, axes, 3, &variance));
        copse_graph_release(&g);
    }
}

/* The gradients of a product of whole numbers are those of f32; the derivative of its result is
   rounded. */
static void products_of_16_bits(void **state)
{
    (void)state;
    static double a[] = { 1, 2, 3, 4, 5, 6 }, b[] = { 7, -8, 9, 10, 11, 12 },
                  dy[] = { 1, 2049, -3, 0.5 };
    static double values[2][3][6];
    static const copse_type types[] = { COPSE_F16, COPSE_F32 };
    for (size_t d = 0; d < harness_device_count(); d++) {
        for (size_t k = 0; k < 2; k++) {
            copse_tensor *in[3], *out[3];
            copse_graph *g = graph_of("a", COPSE_F32, COPSE_SHAPE(2, 3), &in[0]);
            in[1] = copse_graph_input(g, "b", COPSE_F32, COPSE_SHAPE(3, 2));
            in[2] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(2, 2));
            copse_set_precision(g, types[k]);
            out[0] = copse_matmul(g, in[0], in[1], false, false);
            assert_int_equal(copse_tensor_type(out[0]), COPSE_F32);
            assert_int_equal(out[0]->in[0]->type, types[k]);
            copse_gradients(g, out[0], in[2], in, 2, &out[1]);
            assert_int_equal(g->precision, types[k]);
            dy[1] = k ? 2048 : 2049; /* f16 has 2048 */
            harness_on_device(harness_device(d), g, in, (double *[]){ a, b, dy }, 3, out, 3, NULL,
                              (double *[]){ values[k][0], values[k][1], values[k][2] });
            copse_graph_release(&g);
        }
        assert_memory_equal(values[0], values[1], sizeof values[0]);
        assert_true(values[0][1][0] == 7 - 8 * 2048);
    }
}

enum { ROWS = 37, COLS = 70, TERMS = 300 }; /* past every tile, more than a chain of sums */

/* relu(op(a) op(b) + bias), or op(a) op(b). */
static void multiply_with(copse_device *dev, const char *kernels, copse_type type, unsigned turn,
                          float *result)
{
    static float values[3][TERMS * COLS];
    const bool ta = turn & 1, tb = turn & 2, is_dense = turn == 4;
    copse_tensor *in[3], *y;
    copse_function *f;
    copse_graph *g =
        graph_of("a", COPSE_F32, ta ? COPSE_SHAPE(TERMS, ROWS) : COPSE_SHAPE(ROWS, TERMS), &in[0]);
    in[1] = copse_graph_input(g, "b", COPSE_F32,
                              tb ? COPSE_SHAPE(COLS, TERMS) : COPSE_SHAPE(TERMS, COLS));
    in[2] = copse_graph_input(g, "bias", COPSE_F32, COPSE_SHAPE(COLS));
    copse_set_precision(g, type);
    y = is_dense ? copse_dense(g, in[0], in[1], in[2], COPSE_RELU)
                 : copse_matmul(g, in[0], in[1], ta, tb);
    const struct copse_function_params params = {
        .graph = g, .outputs = &y, .output_count = 1, .kernels = kernels
    };
    OK(copse_function_create(dev, &params, &f));
    for (uint32_t i = 0; i < (is_dense ? 3 : 2); i++) {
        for (uint32_t k = 0; k < TERMS * COLS; k++)
            values[i][k] =
                (float)((int)(((k + 7 * i) * 2654435761u) >> 8) % 20011 - 10005) * 0x1p-11f;
        OK(copse_function_write(f, in[i], values[i]));
    }
    OK(copse_function_run(f));
    OK(copse_function_read(f, 0, result));
    copse_function_release(&f);
    copse_graph_release(&g);
}

/* The variant that loads operands of 16 bits has the bits of the kernel that gets them as f32. */
static void loaded_operands_have_the_bits_of_widened_ones(void **state)
{
    static float wide[ROWS * COLS], half[ROWS * COLS];
    static const copse_type types[] = { COPSE_F16, COPSE_BF16 };
    (void)state;
    for (size_t d = 0; d < harness_device_count(); d++)
        for (unsigned turn = 0; turn < 5; turn++)
            for (size_t t = 0; t < 2; t++) {
                copse_device *dev = harness_device(d);
                if (!rig_takes_on(turn + t, dev->info.id))
                    continue;
                multiply_with(dev, "matmul=shared", types[t], turn, wide);
                memset(half, 0, sizeof half);
                multiply_with(dev, "matmul=half", types[t], turn, half);
                if (memcmp(wide, half, sizeof wide) != 0)
                    fail_msg("%s: %s, turn %u: other bits", dev->info.id, t ? "bf16" : "f16", turn);
            }
}

static void precisions_that_are_refused(void **state)
{
    (void)state;
    copse_tensor *x;
    copse_graph *g = graph_of("x", COPSE_F32, COPSE_SHAPE(5), &x);
    copse_set_precision(g, COPSE_I32);
    harness_fails(copse__graph_take_failure(g), COPSE_ERR_ARGUMENT, "precision: f32, f16 or bf16");
    copse_set_precision(g, (copse_type)99);
    harness_fails(copse__graph_take_failure(g), COPSE_ERR_ARGUMENT, "not element type 99 (?)");
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_converted_once),
        cmocka_unit_test(derivatives_are_f32),
        cmocka_unit_test(results_are_f32),
        cmocka_unit_test(every_op_takes_them),
        cmocka_unit_test(products_of_16_bits),
        cmocka_unit_test(loaded_operands_have_the_bits_of_widened_ones),
        cmocka_unit_test(precisions_that_are_refused),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
