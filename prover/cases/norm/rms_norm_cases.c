/* SPDX-License-Identifier: MIT */
/* Cases of RMS norm. It shares kernels with layer norm, whose cases have all sizes. Errors are
   relative to the magnitudes of a result's terms: 16 u times |scale| |x| / rms, and likewise for
   derivatives. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *rms_norm_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_rms_norm(g, in[0], in[1], *(const float *)user);
}

/* ---- what limits are relative to ---- */

/* 1 / rms of each row, and |x| / rms. */
static copse_status sizes_of(copse_graph *g, copse_tensor *x, float epsilon, copse_tensor **inverse,
                             copse_tensor **size)
{
    const uint32_t last = x->shape.rank - 1;
    copse_tensor *t = copse_square(g, x);
    t = copse_mean(g, t, &last, 1, true);
    *inverse = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)epsilon);
    t = copse_add(g, t, *inverse);
    *inverse = copse_rsqrt(g, t);
    t = copse_abs(g, x);
    *size = copse_mul(g, t, *inverse);
    return copse_graph_status(g);
}

static copse_tensor *size_of_y(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], *(const float *)user, &inverse, &size));
    copse_tensor *scale = copse_abs(g, in[1]);
    return copse_mul(g, size, scale);
}

/* dx = (s - u mean(s u)) / rms, s = scale dy */
static copse_tensor *size_of_dx(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const uint32_t last = in[0]->shape.rank - 1;
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], *(const float *)user, &inverse, &size));
    copse_tensor *s = copse_mul(g, in[2], in[1]);
    s = copse_abs(g, s);
    copse_tensor *along = copse_mul(g, s, size);
    along = copse_mean(g, along, &last, 1, true);
    along = copse_mul(g, size, along);
    s = copse_add(g, s, along);
    return copse_mul(g, s, inverse);
}

static copse_tensor *size_of_dscale(copse_graph *g, copse_tensor *const *in, const void *user)
{
    static const uint32_t axes[COPSE_MAX_RANK] = { 0, 1, 2, 3, 4, 5 };
    copse_tensor *inverse, *size;
    COPSE_LATCH(g, sizes_of(g, in[0], *(const float *)user, &inverse, &size));
    size = copse_mul(g, size, in[2]);
    size = copse_abs(g, size);
    return size->shape.rank == 1 ? copse_reshape(g, size, size->shape)
                                 : copse_sum(g, size, axes, size->shape.rank - 1, false);
}

/* ---- the op ---- */

static const float small = 1e-5f, one = 1.0f, three_quarters = 0.75f;

static copse_tensor *random_norm(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *scale =
        copse_fill(g, COPSE_F32, COPSE_SHAPE(in[0]->shape.dims[in[0]->shape.rank - 1]), 0.75);
    return copse_rms_norm(g, in[0], scale, *(const float *)user);
}

static const struct copse_case_op ops[] = {
    { .name = "rms_norm",
      .accuracy = COPSE_ACCURACY_norm,
      .divides = true,
      .call = rms_norm_build,
      .user = &one,
      .in = { F32_OF(2, 2), F32_OF(2) },
      .in_count = 2,
      .random = random_norm },
};

static const struct copse_case speeds[] = {
    { .op = "rms_norm",
      .name = OF_SQUARE,
      .build = rms_norm_build,
      .user = &small,
      .in = { SQUARE, F32_OF(SIDE) },
      .in_count = 2,
      .family = "layer_norm",
      .bytes = 2 * MATRIX },
};

static void rms_norm_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *s = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4, 6));
    copse_tensor *far = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE((1u << 19) + 1));
    REFUSES(r, SHAPE, "rms_norm: operands f32[4, 6] and f32[4]: expected a scale of 6 elements",
            copse_rms_norm(g, x, v, 1));
    REFUSES(r, SHAPE, "expected f32 operands", copse_rms_norm(g, n, s, 1));
    REFUSES(r, SHAPE, "a last axis of at most 524288", copse_rms_norm(g, far, far, 1));
    REFUSES(r, ARGUMENT, "rms_norm: operand 1", copse_rms_norm(g, x, NULL, 1));
    REFUSES(r, ARGUMENT, "rms_norm: epsilon 0", copse_rms_norm(g, x, s, 0));
    REFUSES(r, ARGUMENT, "rms_norm: epsilon", copse_rms_norm(g, x, s, NAN));
}

/* ---- the cases ---- */

#define ROW(label, epsilon, x, cols, ...)                                                      \
    {                                                                                          \
        .op = "rms_norm", .name = label, .build = rms_norm_build, .user = &epsilon,            \
        TWO_INPUTS(x, UNIFORM(-2, 2, DIMS(cols))), .forward = { .ratio = 16 },                 \
        .backward = { .ratio = 16 }, .magnitude = size_of_y,                                   \
        .slope_magnitude = { size_of_dx, size_of_dscale }, .family = "layer_norm", __VA_ARGS__ \
    }
#define WIDTH(label, rows, cols, ...) \
    ROW(label, small, FILL(NORMAL, DIMS(rows, cols)), cols, __VA_ARGS__)
#define ROUGH .skips_differences = true

#define N NAN
#define I INFINITY
static const double stated[] = { 1, 2, 3, 4, 0, 0,  0, 0,   1,   N,   3,   4,
                                 1, 2, I, 4, 0, -I, 3, 0.5, 0.5, 0.5, 0.5, 0.5 };
static const double scales[] = { 1, 2, 0.5, -1 };
/* With epsilon 0.75 the first row is divided by sqrt(8.25), the last one by 1. */
static const double norms[] = { 0.34815531191139570,
                                1.3926212476455828,
                                0.52223296786709355,
                                -1.3926212476455828,
                                0,
                                0,
                                0,
                                0,
                                N,
                                N,
                                N,
                                N,
                                0,
                                0,
                                N,
                                0,
                                0,
                                N,
                                0,
                                0,
                                0.5,
                                1,
                                0.25,
                                -0.5 };
static const double huge_and_tiny[] = { 0x1p40, 0.1, 0.2, 0.3, -0.1, 0.7, 0.5, -0.25, 0.125, 3 };

static const struct copse_case cases[] = {
    WIDTH("a batch of tokens", 24, 64, QUICK),
    WIDTH("rows of 37", 5, 37, QUICK),
    { .op = "rms_norm",
      .name = "stated: a row, zeros, NaN, infinities",
      .build = rms_norm_build,
      .user = &three_quarters,
      TWO_INPUTS(VALUES(stated, DIMS(6, 4)), VALUES(scales, DIMS(4))),
      .forward = { .ratio = 16 },
      .magnitude = size_of_y,
      .want = norms,
      .has_no_gradient = true,
      .is_poor = true,
      .family = "layer_norm",
      QUICK },
    ROW("three axes", small, FILL(NORMAL, DIMS(3, 5, 33)), 33, STANDARD),
    ROW("one axis", small, FILL(NORMAL, DIMS(19)), 19, STANDARD),
    ROW("epsilon 1", one, UNIFORM(-2, 2, DIMS(9, 21)), 21, STANDARD),
    WIDTH("a batch of one", 1, 70, STANDARD),
    WIDTH("rows of one", 6, 1, STANDARD, .is_poor = true, ROUGH),
    WIDTH("rows of 10, several to an invocation", 1025, 10, STANDARD, ROUGH),
    WIDTH("rows of 17", 7, 17, STANDARD),
    WIDTH("rows of 65", 5, 65, STANDARD),
    WIDTH("rows of 1025", 3, 1025, STANDARD),
    WIDTH("rows of 4097", 2, 4097, STANDARD, ROUGH),
    WIDTH("more than 65,535 groups", 65537, 3, FULL, ROUGH),
    WIDTH("the longest rows", 2, 524288, FULL, ROUGH),
    WIDTH("no rows", 0, 5, STANDARD, .is_poor = true),
    WIDTH("empty rows", 5, 0, STANDARD),
    ROW("positive numbers", small, FILL(POSITIVE, DIMS(7, 1000)), 1000, STANDARD),
    ROW("a mean a thousand times sigma", small, UNIFORM(1000, 1003.5, DIMS(7, 300)), 300, STANDARD,
        ROUGH),
    ROW("magnitudes from 2^-30 to 2^30", small, SPREAD(-30, 30, DIMS(7, 301)), 301, STANDARD,
        ROUGH),
    ROW("one huge number among tiny ones", small, VALUES(huge_and_tiny, DIMS(9, 97)), 97, STANDARD,
        ROUGH),
};

static const struct copse_case stress[] = {
    WIDTH("rows of 70,001", 2, 70001, QUICK),
};

COPSE_CASE_TABLE(rms_norm, OPS, STRESS, SPEEDS, .refusals = rms_norm_refusals)
