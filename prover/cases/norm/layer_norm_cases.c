/* SPDX-License-Identifier: MIT */
/* Cases of layer norm. Errors are relative to the magnitudes of a result's terms: 16 u times
   |scale| (|x| + |mean|) / sigma + |offset|, and likewise for derivatives. Sizes around 16 elements
   (a vector), 64, 1024, 4096 and 65,536, where chains of additions end. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *layer_norm_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_layer_norm(g, in[0], in[1], in[2], *(const float *)user);
}

/* ---- what limits are relative to ---- */

/* 1 / sigma of each row, and (|x| + |mean|) / sigma. */
static copse_status sizes_of(copse_graph *g, copse_tensor *x, float epsilon, copse_tensor **inverse,
                             copse_tensor **size)
{
    const uint32_t last = x->shape.rank - 1;
    copse_tensor *mean = copse_mean(g, x, &last, 1, true);
    copse_tensor *t = copse_sub(g, x, mean);
    t = copse_square(g, t);
    t = copse_mean(g, t, &last, 1, true);
    *inverse = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)epsilon);
    t = copse_add(g, t, *inverse);
    *inverse = copse_rsqrt(g, t);
    mean = copse_abs(g, mean);
    t = copse_abs(g, x);
    t = copse_add(g, t, mean);
    *size = copse_mul(g, t, *inverse);
    return copse_graph_status(g);
}

static copse_tensor *size_of_y(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], *(const float *)user, &inverse, &size));
    copse_tensor *scale = copse_abs(g, in[1]);
    copse_tensor *offset = copse_abs(g, in[2]);
    size = copse_mul(g, size, scale);
    return copse_add(g, size, offset);
}

/* dx = (s - mean(s) - u mean(s u)) / sigma, s = scale dy */
static copse_tensor *size_of_dx(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const uint32_t last = in[0]->shape.rank - 1;
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], *(const float *)user, &inverse, &size));
    copse_tensor *s = copse_mul(g, in[3], in[1]);
    s = copse_abs(g, s);
    copse_tensor *mean = copse_mean(g, s, &last, 1, true);
    copse_tensor *along = copse_mul(g, s, size);
    along = copse_mean(g, along, &last, 1, true);
    along = copse_mul(g, size, along);
    s = copse_add(g, s, mean);
    s = copse_add(g, s, along);
    return copse_mul(g, s, inverse);
}

static copse_tensor *sum_rows(copse_graph *g, copse_tensor *x)
{
    uint32_t axes[COPSE_MAX_RANK];
    for (uint32_t i = 0; i < COPSE_MAX_RANK; i++)
        axes[i] = i;
    if (x->shape.rank == 1)
        return copse_abs(g, x);
    x = copse_abs(g, x);
    return copse_sum(g, x, axes, x->shape.rank - 1, false);
}

static copse_tensor *size_of_dscale(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], *(const float *)user, &inverse, &size));
    size = copse_mul(g, size, in[3]);
    return sum_rows(g, size);
}

static copse_tensor *size_of_doffset(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return sum_rows(g, in[3]);
}

/* ---- the op ---- */

static const float small = 1e-5f, one = 1.0f;

/* Scaled by its first row: equal scales would give sums of 0 for every x. */
static copse_tensor *random_norm(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const uint32_t start[COPSE_MAX_RANK] = { 0 };
    copse_shape row = in[0]->shape;
    for (uint32_t i = 0; i + 1 < row.rank; i++)
        row.dims[i] = 1;
    copse_tensor *scale = copse_slice(g, in[0], start, row.dims);
    scale = copse_reshape(g, scale, COPSE_SHAPE(row.dims[row.rank - 1]));
    scale = copse_tanh(g, scale);
    copse_tensor *offset = copse_fill(g, COPSE_F32, scale->shape, -0.25);
    return copse_layer_norm(g, in[0], scale, offset, *(const float *)user);
}

static const struct copse_case_op ops[] = {
    { .name = "layer_norm",
      .accuracy = COPSE_ACCURACY_norm,
      .divides = true,
      .call = layer_norm_build,
      .user = &one,
      .in = { F32_OF(2, 2), F32_OF(2), F32_OF(2) },
      .in_count = 3,
      .random = random_norm },
};

static const struct copse_case speeds[] = {
    { .op = "layer_norm",
      .name = OF_SQUARE,
      .build = layer_norm_build,
      .user = &small,
      .in = { SQUARE, F32_OF(SIDE), F32_OF(SIDE) },
      .in_count = 3,
      .family = "layer_norm",
      .bytes = 2 * MATRIX },
};

static void layer_norm_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *s = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4));
    copse_tensor *m = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4, 6));
    copse_tensor *scalar = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    copse_tensor *far = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE((1u << 19) + 1));
    REFUSES(
        r, SHAPE,
        "layer_norm: operands f32[4, 6], f32[4] and f32[6]: expected a scale and an offset of 6",
        copse_layer_norm(g, x, v, s, 1));
    REFUSES(r, SHAPE, "of 6 elements", copse_layer_norm(g, x, s, v, 1));
    REFUSES(r, SHAPE, "of 6 elements", copse_layer_norm(g, x, m, s, 1));
    REFUSES(r, SHAPE, "expected f32 operands", copse_layer_norm(g, n, s, s, 1));
    REFUSES(r, SHAPE, "a last axis of at most 524288", copse_layer_norm(g, scalar, s, s, 1));
    REFUSES(r, SHAPE, "a last axis of at most 524288", copse_layer_norm(g, far, far, far, 1));
    REFUSES(r, ARGUMENT, "layer_norm: operand 2", copse_layer_norm(g, x, s, NULL, 1));
    REFUSES(r, ARGUMENT, "epsilon 0", copse_layer_norm(g, x, s, s, 0));
    REFUSES(r, ARGUMENT, "epsilon 1e-39", copse_layer_norm(g, x, s, s, 1e-39f));
    REFUSES(r, ARGUMENT, "epsilon -1", copse_layer_norm(g, x, s, s, -1));
    REFUSES(r, ARGUMENT, "epsilon inf", copse_layer_norm(g, x, s, s, INFINITY));
    REFUSES(r, ARGUMENT, "epsilon", copse_layer_norm(g, x, s, s, NAN));
}

/* ---- the cases ---- */

#define PLAIN(label, epsilon, x, cols, ...)                                              \
    {                                                                                    \
        .op = "layer_norm", .name = label, .build = layer_norm_build, .user = &epsilon,  \
        THREE_INPUTS(x, UNIFORM(-2, 2, DIMS(cols)), UNIFORM(-1, 1, DIMS(cols))),         \
        .forward = { .ratio = 16 }, .backward = { .ratio = 16 }, .magnitude = size_of_y, \
        .slope_magnitude = { size_of_dx, size_of_dscale, size_of_doffset }, __VA_ARGS__  \
    }
#define ROW(label, epsilon, x, cols, ...) \
    PLAIN(label, epsilon, x, cols, .family = "layer_norm", __VA_ARGS__)
#define WIDTH(label, rows, cols, ...) \
    ROW(label, small, FILL(NORMAL, DIMS(rows, cols)), cols, __VA_ARGS__)
#define ROUGH .skips_differences = true

#define N NAN
#define I INFINITY
static const double equal[] = { 2.5 };
static const double stated[] = { 1, 2, 3, 4, 5, 5, 5, 5, 1, N, 3, 4, 1, 2, I, 4, 1, -I, 3, I };
static const double scales[] = { 1, 2, 0.5, -1 }, offsets[] = { 0, 1, -1, 10 };
/* With epsilon 0.75 the first row has sigma sqrt(2). */
static const double norms[] = { -1.0606601717798212,
                                0.29289321881345254,
                                -0.82322330470336313,
                                8.9393398282201788,
                                0,
                                1,
                                -1,
                                10,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N,
                                N };
static const float three_quarters = 0.75f;
static const double huge_and_tiny[] = { 0x1p40, 0.1, 0.2, 0.3, -0.1, 0.7, 0.5, -0.25, 0.125, 3 };

static const struct copse_case cases[] = {
    WIDTH("a batch of tokens", 24, 64, QUICK),
    WIDTH("rows of 37", 5, 37, QUICK),
    { .op = "layer_norm",
      .name = "stated: a row, equal ones, NaN, infinities",
      .build = layer_norm_build,
      .user = &three_quarters,
      THREE_INPUTS(VALUES(stated, DIMS(5, 4)), VALUES(scales, DIMS(4)), VALUES(offsets, DIMS(4))),
      .forward = { .ratio = 16 },
      .magnitude = size_of_y,
      .want = norms,
      .has_no_gradient = true,
      .family = "layer_norm",
      QUICK },
    ROW("three axes", small, FILL(NORMAL, DIMS(3, 5, 33)), 33, STANDARD),
    ROW("six axes", small, FILL(NORMAL, DIMS(2, 1, 3, 1, 2, 5)), 5, FULL),
    ROW("one axis", small, FILL(NORMAL, DIMS(19)), 19, STANDARD),
    ROW("epsilon 1", one, UNIFORM(-2, 2, DIMS(9, 21)), 21, STANDARD),
    WIDTH("a batch of one", 1, 70, STANDARD),
    WIDTH("rows of one: the offset", 6, 1, STANDARD, .is_poor = true),
    WIDTH("rows of 2", 300, 2, STANDARD),
    WIDTH("rows of 10, several to an invocation", 1025, 10, STANDARD, ROUGH),
    WIDTH("rows of 15", 7, 15, STANDARD),
    WIDTH("rows of 16, one vector", 7, 16, STANDARD),
    WIDTH("rows of 17", 7, 17, STANDARD),
    WIDTH("rows of 31", 7, 31, FULL),
    WIDTH("rows of 63", 5, 63, STANDARD),
    WIDTH("rows of 65", 5, 65, STANDARD),
    WIDTH("rows of 127", 5, 127, FULL),
    WIDTH("rows of 129", 5, 129, STANDARD),
    WIDTH("rows of 1023", 3, 1023, FULL),
    WIDTH("rows of 1024, one block", 3, 1024, STANDARD),
    WIDTH("rows of 1025", 3, 1025, STANDARD),
    WIDTH("rows of 4096", 2, 4096, FULL, ROUGH),
    WIDTH("rows of 4097", 2, 4097, STANDARD, ROUGH),
    WIDTH("rows of 65,553", 2, 65553, STANDARD, ROUGH),
    WIDTH("a row of 300,001", 1, 300001, FULL, ROUGH),
    WIDTH("the longest rows", 2, 524288, FULL, ROUGH),
    PLAIN("no rows", small, FILL(NORMAL, DIMS(0, 5)), 5, STANDARD, .is_poor = true),
    PLAIN("empty rows", small, FILL(NORMAL, DIMS(5, 0)), 0, STANDARD),
    ROW("positive numbers", small, FILL(POSITIVE, DIMS(7, 1000)), 1000, STANDARD),
    ROW("rows of 8192", small, UNIFORM(-1, 1.22, DIMS(2, 8192)), 8192, STANDARD,
        .skips_differences = true),
    ROW("a mean of a fifth of the sizes", small, UNIFORM(-1, 1.22, DIMS(3, 4097)), 4097, STANDARD,
        ROUGH),
    ROW("a mean of a third of the sizes", small, UNIFORM(-1, 1.42, DIMS(3, 4097)), 4097, STANDARD,
        ROUGH),
    ROW("a mean a thousand times sigma", small, UNIFORM(1000, 1003.5, DIMS(7, 300)), 300, STANDARD,
        ROUGH),
    ROW("a mean a million times sigma", small, UNIFORM(1e6, 1000002, DIMS(7, 300)), 300, STANDARD,
        ROUGH),
    ROW("numbers that cancel", small, FILL(CANCELLING, DIMS(7, 301)), 301, STANDARD),
    ROW("magnitudes from 2^-30 to 2^30", small, SPREAD(-30, 30, DIMS(7, 301)), 301, STANDARD,
        ROUGH),
    ROW("one huge number among tiny ones", small, VALUES(huge_and_tiny, DIMS(9, 97)), 97, STANDARD,
        ROUGH),
    ROW("equal numbers", small, VALUES(equal, DIMS(5, 77)), 77, STANDARD, ROUGH, .is_poor = true),
};

static const struct copse_case stress[] = {
    WIDTH("rows of 70,001", 2, 70001, QUICK),
};

COPSE_CASE_TABLE(layer_norm, OPS, STRESS, SPEEDS, .refusals = layer_norm_refusals)
