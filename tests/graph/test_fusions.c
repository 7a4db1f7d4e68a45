/* SPDX-License-Identifier: MIT */
/* Nodes that one launch computes: how many launches of which kernel a graph has with and without
   fusions and joins, and that all results have the same bits. */
#include <math.h>

#include "copse/ops/attention.h"
#include "copse/ops/functions.h"
#include "copse/ops/norm.h"
#include "core/device/backend.h"
#include "core/graph/graph.h"
#include "core/ops/reduce/column_sum.h"
#include "tests/rig/found.h"
#include "tests/rig/one_context.h"

enum { ITEMS = 5, ROWS = 37, COLS = 20, NUMBERS = 70001, MOST_RESULTS = 4 };

/* Numbers without a pattern, from -2 to 2. */
static copse_tensor *numbers(copse_graph *g, copse_shape shape, uint32_t seed)
{
    static float x[NUMBERS];
    const uint64_t count = copse__elements(shape);
    assert_true(count <= NUMBERS);
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed / 0x1p30f;
    }
    return copse_constant(g, COPSE_F32, shape, x);
}

#define MATRIX  COPSE_SHAPE(ITEMS, ROWS, COLS)
#define COLUMNS COPSE_SHAPE(COLS)

/* ---- the graphs ---- */

static void norm_of_sum(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *r = numbers(g, MATRIX, 2);
    copse_tensor *scale = numbers(g, COLUMNS, 3), *offset = numbers(g, COLUMNS, 4);
    y[0] = copse_add(g, x, r);
    y[1] = copse_layer_norm(g, y[0], scale, offset, 1e-3f);
}

static void rms_norm_of_sum(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *r = numbers(g, MATRIX, 2);
    copse_tensor *scale = numbers(g, COLUMNS, 3);
    y[0] = copse_add(g, x, r);
    y[1] = copse_rms_norm(g, y[0], scale, 1e-3f);
}

/* The scale is made of the sum. */
static void sum_that_is_read_before(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *r = numbers(g, MATRIX, 2), *scale;
    y[0] = copse_add(g, x, r);
    scale = copse_mean(g, y[0], (const uint32_t[]){ 0, 1 }, 2, false);
    y[1] = copse_rms_norm(g, y[0], scale, 1e-3f);
}

/* A sum of which one operand repeats. */
static void norm_of_broadcast(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *r = numbers(g, COLUMNS, 2);
    copse_tensor *scale = numbers(g, COLUMNS, 3);
    y[0] = copse_add(g, x, r);
    y[1] = copse_rms_norm(g, y[0], scale, 1e-3f);
}

/* A sum that is the scale, too. */
static void rms_norm_by_itself(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, COLUMNS, 1), *r = numbers(g, COLUMNS, 2);
    y[0] = copse_add(g, x, r);
    y[1] = copse_rms_norm(g, y[0], y[0], 1e-3f);
}

/* A sum that is the scale and the offset, too. */
static void norm_by_itself(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, COLUMNS, 1), *r = numbers(g, COLUMNS, 2);
    y[0] = copse_add(g, x, r);
    y[1] = copse_layer_norm(g, y[0], y[0], y[0], 1e-3f);
}

static void residual_gradients(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *dy = numbers(g, MATRIX, 2);
    copse_tensor *scale = numbers(g, COLUMNS, 3), *offset = numbers(g, COLUMNS, 4), *sum;
    sum = copse_layer_norm(g, x, scale, offset, 1e-3f);
    sum = copse_add(g, x, sum);
    copse__gradients(g, sum, dy, (copse_tensor *[]){ x, scale, offset }, 3, y);
}

/* The derivative of x is a result itself, not only a term. */
static void gradient_that_is_kept(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *dy = numbers(g, MATRIX, 2);
    copse_tensor *scale = numbers(g, COLUMNS, 3), *norm;
    norm = copse_rms_norm(g, x, scale, 1e-3f);
    copse__gradients(g, norm, dy, (copse_tensor *[]){ x, scale }, 2, y);
    y[2] = copse_add(g, y[0], dy);
}

/* The derivatives of x and of the scale are added: x is the scale. */
static void gradients_of_one_tensor(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, COLUMNS, 1), *dy = numbers(g, COLUMNS, 2), *norm;
    norm = copse_rms_norm(g, x, x, 1e-3f);
    copse__gradients(g, norm, dy, &x, 1, y);
}

/* The derivative of x is added to u dy, of which the derivative of the scale is the sum. */
static void gradient_and_its_sibling(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *dy = numbers(g, MATRIX, 2);
    copse_tensor *scale = numbers(g, COLUMNS, 3), *norm, *dx[2], *sibling = NULL;
    norm = copse_rms_norm(g, x, scale, 1e-3f);
    copse__gradients(g, norm, dy, (copse_tensor *[]){ x, scale }, 2, dx);
    for (uint32_t n = 0; n < g->nodes.count; n++)
        if (strcmp(g->nodes.at[n]->op->name, "layer_norm_scale_gradient") == 0)
            sibling = g->nodes.at[n];
    assert_non_null(sibling);
    y[0] = copse_add(g, dx[0], sibling);
}

static void attention_gradients(copse_graph *g, copse_tensor **y)
{
    const copse_shape shape = COPSE_SHAPE(2, 9, 3 * 2 * 8);
    copse_tensor *x = numbers(g, shape, 1), *dy = numbers(g, COPSE_SHAPE(2, 9, 2 * 8), 2);
    y[0] = copse_self_attention(g, x, 2, 2, &(struct copse_attention_params){ .is_causal = true });
    copse__gradients(g, y[0], dy, &x, 1, &y[1]);
}

static void sums_of_columns(copse_graph *g, copse_tensor **y)
{
    for (uint32_t i = 0; i < 3; i++)
        y[i] = copse__column_sum(g, numbers(g, COPSE_SHAPE(70, 3 + 9 * i), i));
}

/* With the norm of the sum in one launch, a value more is alive at the peak. */
static void sums_near_a_large_norm(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *scale = numbers(g, COLUMNS, 3), *a, *b, *norm;
    a = copse_exp(g, x);
    b = copse_tanh(g, x);
    a = copse_add(g, a, b);
    norm = copse_rms_norm(g, a, scale, 1e-3f);
    y[3] = copse_exp(g, norm);
    sums_of_columns(g, y);
}

/* A dense layer with its derivatives: a product before a function, and one after it. */
static void dense_layers(copse_graph *g, copse_activation activation, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *dy = numbers(g, MATRIX, 2), *t;
    copse_tensor *v = numbers(g, COPSE_SHAPE(COLS, 24), 3),
                 *w = numbers(g, COPSE_SHAPE(24, COLS), 4);
    copse_tensor *bias = numbers(g, COPSE_SHAPE(24), 5);
    t = copse_dense(g, x, v, bias, activation);
    y[0] = copse_dense(g, t, w, NULL, COPSE_LINEAR);
    copse__gradients(g, y[0], dy, (copse_tensor *[]){ x, v, w }, 3, y + 1);
}

static void gelu_of_dense(copse_graph *g, copse_tensor **y)
{
    dense_layers(g, COPSE_GELU, y);
}

static void silu_of_dense(copse_graph *g, copse_tensor **y)
{
    dense_layers(g, COPSE_SILU, y);
}

static void slope_by_relu(copse_graph *g, copse_tensor **y)
{
    dense_layers(g, COPSE_RELU, y);
}

static void slope_by_tanh(copse_graph *g, copse_tensor **y)
{
    dense_layers(g, COPSE_TANH, y);
}

/* Long sums, which GPUs compute in parts. */
static void gelu_of_long_sums(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, COPSE_SHAPE(3, 1100), 1), *w = numbers(g, COPSE_SHAPE(1100, 3), 2);
    copse_tensor *dy = numbers(g, COPSE_SHAPE(3, 3), 3);
    y[0] = copse_matmul(g, x, w, false, false);
    y[0] = copse_gelu_tanh(g, y[0]);
    copse__gradients(g, y[0], dy, (copse_tensor *[]){ x }, 1, y + 1);
}

/* Without a derivative nothing else reads the product. */
static void gelu_alone(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *w = numbers(g, COPSE_SHAPE(COLS, 24), 2);
    y[0] = copse_matmul(g, x, w, false, false);
    y[0] = copse_gelu(g, y[0]);
}

/* Products whose end would be another's: a function of an activation, one with settings, and a slope
   that is a result, too. */
static void ends_of_their_own(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *w = numbers(g, COPSE_SHAPE(COLS, COLS), 2), *t;
    t = copse_dense(g, x, w, NULL, COPSE_TANH);
    y[0] = copse_gelu(g, t);
    t = copse_matmul(g, x, w, false, false);
    y[1] = copse_leaky_relu(g, t, 0.1f);
    y[2] = copse_matmul(g, x, w, false, true);
    t = copse_gelu(g, x);
    copse__gradients(g, t, y[2], &x, 1, y + 3);
}

/* ---- norms of channels ---- */

static copse_tensor *norm_of_channels(copse_graph *g, copse_shape shape)
{
    const copse_shape channels = COPSE_SHAPE(shape.dims[shape.rank - 1]);
    copse_tensor *x = numbers(g, shape, 1), *scale = numbers(g, channels, 3);
    copse_tensor *offset = numbers(g, channels, 4);
    return copse_instance_norm(g, x, scale, offset, 1e-3f);
}

static void relu_of_channels(copse_graph *g, copse_tensor **y)
{
    y[0] = norm_of_channels(g, MATRIX);
    y[0] = copse_relu(g, y[0]);
}

/* Fewer channels than a vector. */
static void relu_of_few_channels(copse_graph *g, copse_tensor **y)
{
    y[0] = norm_of_channels(g, COPSE_SHAPE(3, 4, 5, 7));
    y[0] = copse_relu(g, y[0]);
}

static void relu_of_one_channel(copse_graph *g, copse_tensor **y)
{
    y[0] = norm_of_channels(g, COPSE_SHAPE(2, 3, 1));
    y[0] = copse_relu(g, y[0]);
}

static void relu_of_channels_and_more(copse_graph *g, copse_tensor **y)
{
    copse_tensor *norm = norm_of_channels(g, MATRIX), *r = numbers(g, MATRIX, 2), *sum;
    sum = copse_add(g, norm, r);
    y[0] = copse_relu(g, sum);
}

static void relu_of_more_and_channels(copse_graph *g, copse_tensor **y)
{
    copse_tensor *norm = norm_of_channels(g, MATRIX), *r = numbers(g, MATRIX, 2), *sum;
    sum = copse_add(g, r, norm);
    y[0] = copse_relu(g, sum);
}

static void relu_of_few_channels_and_more(copse_graph *g, copse_tensor **y)
{
    copse_tensor *norm = norm_of_channels(g, COPSE_SHAPE(3, 4, 5, 7)), *sum;
    sum = numbers(g, COPSE_SHAPE(3, 4, 5, 7), 2);
    sum = copse_add(g, norm, sum);
    y[0] = copse_relu(g, sum);
}

/* The sum is a result itself. */
static void sum_of_channels_and_more(copse_graph *g, copse_tensor **y)
{
    copse_tensor *norm = norm_of_channels(g, MATRIX), *r = numbers(g, MATRIX, 2);
    y[0] = copse_add(g, r, norm);
    y[1] = copse_relu(g, y[0]);
}

/* An infinity, or a NaN, spoils its channel alone; others are added to infinities and NaN. */
static void channels_that_are_not_finite(copse_graph *g, copse_tensor **y)
{
    static float x[ROWS * COLS], r[ROWS * COLS];
    const copse_shape shape = COPSE_SHAPE(1, ROWS, COLS);
    copse_tensor *scale = numbers(g, COLUMNS, 3), *offset = numbers(g, COLUMNS, 4), *norm, *sum;
    for (uint32_t i = 0; i < ROWS * COLS; i++) {
        x[i] = (float)(i % 7) - 3.0f;
        r[i] = i % 11 == 0 ? (float)INFINITY : i % 13 == 0 ? (float)-INFINITY : -0.0f;
        r[i] = i % 17 == 0 && i % COLS > 2 ? (float)NAN : r[i];
    }
    x[3 * COLS + 1] = (float)INFINITY;
    x[4 * COLS + 2] = (float)NAN;
    norm = copse_constant(g, COPSE_F32, shape, x);
    norm = copse_instance_norm(g, norm, scale, offset, 1e-3f);
    sum = copse_constant(g, COPSE_F32, shape, r);
    sum = copse_add(g, sum, norm);
    y[0] = copse_relu(g, sum);
}

/* Two readers, or a result. */
static void channels_that_are_kept(copse_graph *g, copse_tensor **y)
{
    copse_tensor *r = numbers(g, MATRIX, 2);
    y[0] = norm_of_channels(g, MATRIX);
    y[1] = copse_relu(g, y[0]);
    y[2] = copse_add(g, y[0], r);
}

/* Added to itself, and to a row that repeats. */
static void sums_that_are_no_residuals(copse_graph *g, copse_tensor **y)
{
    copse_tensor *r = numbers(g, COLUMNS, 2);
    y[0] = norm_of_channels(g, MATRIX);
    y[0] = copse_add(g, y[0], y[0]);
    y[1] = norm_of_channels(g, MATRIX);
    y[1] = copse_add(g, y[1], r);
}

/* The derivatives of a residual block read relu alone. */
static void block_of_channels(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *dy = numbers(g, MATRIX, 2), *sum;
    copse_tensor *scale = numbers(g, COLUMNS, 3), *offset = numbers(g, COLUMNS, 4);
    sum = copse_group_norm(g, x, 4, scale, offset, 1e-3f);
    sum = copse_add(g, x, sum);
    y[0] = copse_relu(g, sum);
    copse__gradients(g, y[0], dy, (copse_tensor *[]){ x, scale, offset }, 3, y + 1);
}

/* ---- chains ---- */

static void chain_of_four(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *row = numbers(g, COLUMNS, 2), *factor, *t;
    factor = numbers(g, COPSE_SHAPE(1, COLS), 3);
    t = copse_sub(g, x, row);
    t = copse_mul(g, t, factor);
    t = copse_mul(g, t, row);
    y[0] = copse_add(g, t, row);
    y[1] = copse_square(g, x);
}

/* Five functions: four, and one. */
static void chain_of_five(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *r = numbers(g, MATRIX, 2), *t;
    t = copse_sub(g, x, r);
    t = copse_multiply_by(g, t, 0.3f);
    t = copse_square(g, t);
    t = copse_add(g, r, t);
    y[0] = copse_relu(g, t);
}

/* The value is the second operand, and the first head is a row that repeats. */
static void chain_of_second_operands(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *r = numbers(g, MATRIX, 2), *t;
    copse_tensor *rows = numbers(g, COPSE_SHAPE(ROWS, COLS), 3), *one = numbers(g, COPSE_SCALAR, 4);
    t = copse_sub(g, rows, x);
    t = copse_sub(g, r, t);
    t = copse_mul(g, one, t);
    y[0] = copse_sub(g, rows, t);
}

static void chain_of_one_element(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, COPSE_SHAPE(1, 1), 1), *r = numbers(g, COPSE_SHAPE(1), 2), *t;
    t = copse_sub(g, x, r);
    y[0] = copse_mul(g, t, r);
}

/* A sum of derivatives, and the derivative of relu. */
static void chain_of_derivatives(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *dy = numbers(g, MATRIX, 2), *t, *u;
    t = copse_relu(g, x);
    u = copse_tanh(g, t);
    u = copse_add(g, t, u);
    copse__gradients(g, u, dy, &x, 1, y);
}

/* The derivatives of a product, and of relu before it. */
static void chain_of_slopes(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *dy = numbers(g, MATRIX, 2), *t;
    copse_tensor *row = numbers(g, COLUMNS, 3);
    t = copse_relu(g, x);
    y[0] = copse_mul(g, row, t);
    copse__gradients(g, y[0], dy, &x, 1, y + 1);
    t = copse_mul(g, t, row);
    copse__gradients(g, t, dy, &x, 1, y + 2);
}

static void chain_that_is_not_finite(copse_graph *g, copse_tensor **y)
{
    static float x[ROWS * COLS], r[COLS];
    static const float special[] = { (float)INFINITY, (float)-INFINITY, (float)NAN, 0.0f, -0.0f,
                                     1e-40f,          -1e-40f,          3e38f,      1.5f, -2.0f };
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        x[i] = special[(i + i / COLS) % 10];
    for (uint32_t i = 0; i < COLS; i++)
        r[i] = special[(3 * i + 1) % 10];
    r[2] = r[12] = 2.0f; /* a sum of two NaNs may be either */
    for (uint32_t i = 0; i < COLS; i++)
        r[i] = isnan(r[i]) ? 0.5f : r[i];
    copse_tensor *a = copse_constant(g, COPSE_F32, COPSE_SHAPE(ROWS, COLS), x);
    copse_tensor *b = copse_constant(g, COPSE_F32, COLUMNS, r), *t;
    t = copse_mul(g, a, b);
    t = copse_sub(g, b, t);
    t = copse_relu(g, t);
    y[0] = copse_multiply_by(g, t, -0.5f);
}

/* The first value has two readers, the third one is a result. */
static void chain_that_is_read(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *r = numbers(g, MATRIX, 2), *t, *u;
    t = copse_sub(g, x, r);
    y[1] = copse_mean(g, t, (const uint32_t[]){ 0, 1, 2 }, 3, false);
    u = copse_square(g, t);
    y[0] = copse_mul(g, u, r);
    y[2] = copse_sub(g, y[0], x);
}

static void long_chain(copse_graph *g, copse_tensor **y)
{
    const copse_shape shape = COPSE_SHAPE(NUMBERS);
    copse_tensor *x = numbers(g, shape, 1), *r = numbers(g, shape, 2), *t;
    t = copse_sub(g, x, r);
    t = copse_multiply_by(g, t, 0.1f);
    y[0] = copse_add(g, r, t);
}

/* Two lengths of rows, and rows of one element each: each begins a chain of its own. */
static void chain_of_other_rows(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *t;
    t = copse_sub(g, x, numbers(g, COLUMNS, 2));
    t = copse_mul(g, t, numbers(g, COPSE_SHAPE(ROWS, COLS), 3));
    y[0] = copse_mul(g, t, numbers(g, COPSE_SHAPE(ROWS, 1), 4));
}

/* A value by itself, and a result that is larger than the value. */
static void values_that_are_no_chain(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, COLUMNS, 1), *r = numbers(g, COLUMNS, 2), *t;
    t = copse_sub(g, x, r);
    y[0] = copse_mul(g, t, t);
    t = copse_add(g, x, r);
    y[1] = copse_mul(g, t, numbers(g, MATRIX, 3));
}

/* In one launch both operands of the difference are alive beside the large values. */
static void chain_that_needs_memory(copse_graph *g, copse_tensor **y)
{
    copse_tensor *x = numbers(g, MATRIX, 1), *a, *b, *c, *t;
    a = copse_exp(g, x);
    b = copse_tanh(g, x);
    t = copse_sub(g, a, b);
    a = copse_exp(g, t);
    b = copse_tanh(g, a);
    c = copse_sin(g, b);
    a = copse_softplus(g, c);
    y[1] = copse_mul(g, a, b);
    y[0] = copse_mul(g, t, c);
}

/* ---- their programs ---- */

struct graph {
    const char *name;
    void (*build)(copse_graph *g, copse_tensor **y);
    uint32_t results;
    const char *kernel[2]; /* launches of those that begin so */
    uint32_t alone[2], together[2];
};

static const struct graph graphs[] = {
    { "norm of a sum", norm_of_sum, 2, { "layer_norm", "binary" }, { 1, 1 }, { 1, 0 } },
    { "RMS norm of a sum", rms_norm_of_sum, 2, { "layer_norm", "binary" }, { 1, 1 }, { 1, 0 } },
    { "sum that is read before",
      sum_that_is_read_before,
      2,
      { "layer_norm", "binary" },
      { 1, 1 },
      { 1, 1 } },
    { "norm of a broadcast", norm_of_broadcast, 2, { "layer_norm", "binary" }, { 1, 1 }, { 1, 1 } },
    { "RMS norm by itself", rms_norm_by_itself, 2, { "layer_norm", "binary" }, { 1, 1 }, { 1, 1 } },
    { "norm by itself", norm_by_itself, 2, { "layer_norm", "binary" }, { 1, 1 }, { 1, 1 } },
    { "residual, gradients",
      residual_gradients,
      3,
      { "layer_norm", "binary" },
      { 2, 1 },
      { 1, 0 } },
    { "gradient that is kept",
      gradient_that_is_kept,
      3,
      { "layer_norm", "binary" },
      { 2, 1 },
      { 1, 1 } },
    { "gradients of one tensor",
      gradients_of_one_tensor,
      1,
      { "layer_norm", "binary" },
      { 2, 1 },
      { 1, 1 } },
    { "gradient and its sibling",
      gradient_and_its_sibling,
      1,
      { "layer_norm", "binary" },
      { 2, 1 },
      { 1, 1 } },
    { "gelu of a dense layer", gelu_of_dense, 4, { "matmul_t", "unary" }, { 6, 2 }, { 6, 0 } },
    { "silu of a dense layer", silu_of_dense, 4, { "matmul_t", "unary" }, { 6, 2 }, { 6, 0 } },
    { "slope by relu", slope_by_relu, 4, { "matmul_t", "dense_grad" }, { 6, 1 }, { 6, 0 } },
    { "slope by tanh", slope_by_tanh, 4, { "matmul_t", "dense_grad" }, { 6, 1 }, { 6, 0 } },
    { "gelu of long sums", gelu_of_long_sums, 2, { "matmul_t", "unary" }, { 2, 2 }, { 2, 1 } },
    { "gelu alone", gelu_alone, 1, { "matmul_t", "unary" }, { 1, 1 }, { 1, 0 } },
    { "ends of their own", ends_of_their_own, 4, { "matmul_t", "unary" }, { 3, 3 }, { 3, 3 } },
    { "relu of channels", relu_of_channels, 1, { "channel_norm", "unary" }, { 1, 1 }, { 1, 0 } },
    { "relu of few channels",
      relu_of_few_channels,
      1,
      { "channel_norm", "unary" },
      { 1, 1 },
      { 1, 0 } },
    { "relu of one channel",
      relu_of_one_channel,
      1,
      { "channel_norm", "unary" },
      { 1, 1 },
      { 1, 0 } },
    { "relu of channels and more",
      relu_of_channels_and_more,
      1,
      { "unary", "binary" },
      { 1, 1 },
      { 0, 0 } },
    { "relu of more and channels",
      relu_of_more_and_channels,
      1,
      { "unary", "binary" },
      { 1, 1 },
      { 0, 0 } },
    { "relu of few channels and more",
      relu_of_few_channels_and_more,
      1,
      { "unary", "binary" },
      { 1, 1 },
      { 0, 0 } },
    { "sum of channels and more",
      sum_of_channels_and_more,
      2,
      { "unary", "binary" },
      { 1, 1 },
      { 1, 0 } },
    { "channels that are not finite",
      channels_that_are_not_finite,
      1,
      { "unary", "binary" },
      { 1, 1 },
      { 0, 0 } },
    { "channels that are kept",
      channels_that_are_kept,
      3,
      { "unary", "binary" },
      { 1, 1 },
      { 1, 1 } },
    { "sums that are no residuals",
      sums_that_are_no_residuals,
      2,
      { "channel_norm", "binary" },
      { 2, 2 },
      { 2, 2 } },
    { "block of channels", block_of_channels, 4, { "channel_norm", "unary" }, { 2, 2 }, { 2, 1 } },
    { "chain of four", chain_of_four, 2, { "binary", "chain" }, { 4, 0 }, { 0, 1 } },
    { "chain of five", chain_of_five, 1, { "binary", "chain" }, { 2, 0 }, { 0, 1 } },
    { "chain of second operands",
      chain_of_second_operands,
      1,
      { "binary", "chain" },
      { 4, 0 },
      { 0, 1 } },
    { "chain of one element", chain_of_one_element, 1, { "binary", "chain" }, { 2, 0 }, { 0, 1 } },
    { "chain of derivatives", chain_of_derivatives, 1, { "unary", "chain" }, { 3, 0 }, { 2, 1 } },
    { "chain of slopes", chain_of_slopes, 3, { "binary", "chain" }, { 3, 0 }, { 1, 2 } },
    { "chain that is not finite",
      chain_that_is_not_finite,
      1,
      { "binary", "chain" },
      { 2, 0 },
      { 0, 1 } },
    { "chain that is read", chain_that_is_read, 3, { "binary", "chain" }, { 3, 0 }, { 2, 1 } },
    { "chain of other rows", chain_of_other_rows, 1, { "binary", "chain" }, { 3, 0 }, { 3, 0 } },
    { "values that are no chain",
      values_that_are_no_chain,
      2,
      { "binary", "chain" },
      { 4, 0 },
      { 4, 0 } },
    { "chain that needs memory",
      chain_that_needs_memory,
      2,
      { "binary", "chain" },
      { 3, 0 },
      { 3, 0 } },
    { "attention", attention_gradients, 2, { "attention", "copy" }, { 3, 0 }, { 3, 0 } },
    { "sums of columns", sums_of_columns, 3, { "column_sums", "copy" }, { 3, 0 }, { 1, 0 } },
    { "sums near a large norm",
      sums_near_a_large_norm,
      4,
      { "column_sums", "binary" },
      { 3, 1 },
      { 1, 1 } },
};

struct made {
    float values[MOST_RESULTS][NUMBERS];
    uint32_t launches[2]; /* by kernel of the graph */
};

static void count_launches(const struct graph *of, const copse_program *p, struct made *m)
{
    for (const struct copse_segment *s = copse__program_list(p)[0]; s; s = s->rest)
        for (size_t c = 0; c < s->count; c++)
            for (uint32_t k = 0; k < 2; k++) {
                const char *name = copse__command_name(&s->commands[c]);
                m->launches[k] += strncmp(name, of->kernel[k], strlen(of->kernel[k])) == 0;
            }
}

static void make(copse_device *dev, const struct graph *of, bool is_plain, struct made *m)
{
    struct copse_placement places[MOST_RESULTS] = { { .bucket = 0 } };
    copse_tensor *y[MOST_RESULTS] = { NULL };
    copse_buffer *buffers[MOST_RESULTS + 1] = { NULL };
    copse_graph *g;
    copse_queue *queue;
    copse_program *p;
    memset(m, 0, sizeof *m);
    OK(copse_graph_create(ctx, &g));
    of->build(g, y);
    OK(copse_graph_status(g));
    OK(copse_queue_create(dev, &queue));
    for (uint32_t i = 0; i <= of->results; i++) {
        const size_t bytes = i < of->results ? 4 * (size_t)copse__elements(y[i]->shape) : 256;
        OK(copse_buffer_create(dev, &(struct copse_buffer_params){ .size = (bytes + 15) / 16 * 16 },
                               &buffers[i]));
        if (i < of->results)
            places[i] = (struct copse_placement){ y[i], { buffers[i], 0, bytes }, 0 };
    }
    OK(copse__graph_order(g, y, of->results));
    OK(copse__program_create(
        &(struct copse_program_params){ .graph = g,
                                        .queue = queue,
                                        .placements = places,
                                        .placement_count = of->results,
                                        .step = { buffers[of->results], 0, 256 },
                                        .is_plain = is_plain },
        &p));
    count_launches(of, p, m);
    OK(copse__program_replay(p, 0));
    for (uint32_t i = 0; i < of->results; i++)
        OK(copse_queue_read(queue, buffers[i], 0, m->values[i],
                            4 * (size_t)copse__elements(y[i]->shape)));
    OK(copse_queue_finish(queue));
    copse__program_release(&p);
    for (uint32_t i = 0; i <= of->results; i++)
        copse_buffer_release(&buffers[i]);
    copse_queue_release(&queue);
    copse_graph_release(&g);
}

static void check_graph(copse_device *dev, const char *id, const struct graph *of)
{
    static struct made alone, together;
    make(dev, of, true, &alone);
    make(dev, of, false, &together);
    const bool has_kernel = alone.launches[0] > 0; /* not all have column_sums */
    for (uint32_t k = 0; k < 2 && has_kernel; k++)
        if (alone.launches[k] != of->alone[k] || together.launches[k] != of->together[k])
            fail_msg("%s on %s: %u launches of %s alone and %u together, not %u and %u", of->name,
                     id, alone.launches[k], of->kernel[k], together.launches[k], of->alone[k],
                     of->together[k]);
    for (uint32_t i = 0; i < of->results; i++)
        if (memcmp(alone.values[i], together.values[i], sizeof alone.values[i]) != 0)
            fail_msg("%s on %s: other bits of result %u", of->name, id, i);
}

/* The graphs that have their turn, by numbers from `first` on. */
static void check_device(copse_context *of, const char *id, size_t first)
{
    copse_device *dev;
    OK(copse_device_open(of, id, NULL, &dev));
    for (size_t i = 0; i < COPSE_COUNT(graphs); i++)
        if (rig_takes_on(first + i, id))
            check_graph(dev, id, &graphs[i]);
    copse_device_release(&dev);
}

static void nodes_share_launches_with_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < found_count; i++)
        check_device(ctx, found[i], 0);
}

/* With the kernels that GPUs use by default: other graphs than those with the kernels of CPUs. */
static void nodes_share_launches_of_gpus(void **state)
{
    copse_context *own = ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    for (size_t d = 0; d < ctx->device_count; d++) {
        struct copse_device_info *info = &ctx->devices[d];
        if (!info->is_usable || strcmp(info->backend, "vulkan") != 0)
            continue;
        info->limits.is_gpu = true;
        check_device(ctx, info->id, 1);
    }
    copse_context_release(&ctx);
    ctx = own;
}

/* Groups of one invocation: more of them than 65,535. */
static void chains_of_many_groups(void **state)
{
    static const struct graph of = {
        "long chain", long_chain, 1, { "binary", "chain" }, { 2, 0 }, { 0, 1 },
    };
    copse_context *own = ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    for (size_t d = 0; d < ctx->device_count; d++) {
        struct copse_device_info *info = &ctx->devices[d];
        copse_device *dev;
        if (!info->is_usable)
            continue;
        info->limits.max_group_size = 1;
        OK(copse_device_open(ctx, info->id, NULL, &dev));
        check_graph(dev, info->id, &of);
        copse_device_release(&dev);
    }
    copse_context_release(&ctx);
    ctx = own;
}

/* A device on which the kernel of chains is blocked. */
static void chains_need_their_kernel(void **state)
{
    static const struct graph of = {
        "blocked chain", chain_of_five, 1, { "binary", "chain" }, { 2, 0 }, { 2, 0 },
    };
    copse_context *own = ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    for (uint32_t i = 0; i < found_count; i++) {
        copse_device *dev;
        OK(copse_device_block(ctx, found[i], "chain", "by the test"));
        OK(copse_device_open(ctx, found[i], NULL, &dev));
        check_graph(dev, found[i], &of);
        copse_device_release(&dev);
    }
    copse_context_release(&ctx);
    ctx = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_share_launches_with_the_same_bits),
        cmocka_unit_test(nodes_share_launches_of_gpus),
        cmocka_unit_test(chains_of_many_groups),
        cmocka_unit_test(chains_need_their_kernel),
    };
    void *unused = NULL;
    if (open_context(&unused) != 0)
        return 1;
    find_devices(ctx);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close_context(&unused);
    return failed;
}
