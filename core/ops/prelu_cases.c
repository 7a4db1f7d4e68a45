/* SPDX-License-Identifier: MIT */
/* Cases of prelu: one product where x is negative; the derivative of the slope is a sum. */
#include <math.h>

#include "copse/ops/activations.h"
#include "core/ops/cases.h"

static copse_status build(copse_graph *g, copse_tensor *const *in, const void *user, copse_tensor **y)
{
    (void)user;
    return copse_prelu(g, in[0], in[1], y);
}

/* |dy| (|slope| + 1), and the sum of |dy min(x, 0)|: in[2] is dy. */
static copse_status size_of_dx(copse_graph *g, copse_tensor *const *in, const void *user, copse_tensor **y)
{
    copse_tensor *one, *size, *dy;
    (void)user;
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, 1, &one));
    COPSE_TRY(copse_abs(g, in[1], &size));
    COPSE_TRY(copse_add(g, size, one, &size));
    COPSE_TRY(copse_abs(g, in[2], &dy));
    return copse_mul(g, dy, size, y);
}

static copse_status size_of_dslope(copse_graph *g, copse_tensor *const *in, const void *user, copse_tensor **y)
{
    copse_tensor *zero, *low, *dy;
    (void)user;
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, 0, &zero));
    COPSE_TRY(copse_minimum(g, in[0], zero, &low));
    COPSE_TRY(copse_abs(g, low, &low));
    COPSE_TRY(copse_abs(g, in[2], &dy));
    COPSE_TRY(copse_mul(g, in[1], low, &low));
    return copse_gradients(g, low, dy, &in[1], 1, y);
}

static const struct copse_case_op ops[] = {
    { .name = "prelu", .accuracy = COPSE_ACCURACY_slopes, .call = build, .in = { F32_OF(2, 2), F32_OF(2) }, .in_count = 2 },
};

static const struct copse_case speeds[] = {
    { .op = "prelu", .name = OF_SQUARE, .build = build, .in = { SQUARE, F32_OF(1) }, .in_count = 2, .bytes = 2 * MATRIX },
};

static void refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *wide = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 4, 6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4, 6));
    REFUSES(r, SHAPE, "prelu", copse_prelu(g, x, v, &y));
    REFUSES(r, SHAPE, "prelu: the slope does not broadcast to the shape of x", copse_prelu(g, x, wide, &y));
    REFUSES(r, SHAPE, "prelu", copse_prelu(g, n, x, &y));
    REFUSES(r, ARGUMENT, "prelu: operand 1 is NULL", copse_prelu(g, x, NULL, &y));
}

#define ROW(label, x, slope, ...)                                                                                      \
    { .op = "prelu", .name = label, .build = build, .in = { UNWRAP x, UNWRAP slope }, .in_count = 2,                   \
      .forward = { .ulp = 1 }, .backward = { .ratio = 4 },                              \
      .slope_magnitude = { size_of_dx, size_of_dslope }, __VA_ARGS__ },
#define N NAN
#define I INFINITY
static const double operand[] = { -2, 3, 0, N, I, -I, -4, 8 }, slopes[] = { 0.5, N, 5, 1, 0, 2, -0.25, -I };
static const double product[] = { -1, 3, 0, N, I, -I, 1, 8 };

static const struct copse_case cases[] = {
    ROW("a slope for all", FILL(NORMAL, DIMS(37, 33)), UNIFORM(0.1, 0.4, DIMS(1)), QUICK, .skips_differences = true)
    ROW("a slope for each column", FILL(NORMAL, DIMS(64, 33)), UNIFORM(-1, 1, DIMS(33)), QUICK, .skips_differences = true)
    ROW("a slope for each element", FILL(NORMAL, DIMS(13, 33)), FILL(NORMAL, DIMS(13, 33)), STANDARD,
        .skips_differences = true)
    ROW("stated", VALUES(operand, DIMS(8)), VALUES(slopes, DIMS(8)), .want = product, .has_no_gradient = true, QUICK)
    ROW("a slope for each channel, in the middle", FILL(NORMAL, DIMS(3, 5, 7)), UNIFORM(0, 1, DIMS(5, 1)), STANDARD,
        .skips_differences = true)
    ROW("a scalar", UNIFORM(-4, -1, NO_DIMS), UNIFORM(0, 1, NO_DIMS), STANDARD)
    ROW("nothing", FILL(NORMAL, DIMS(3, 0)), UNIFORM(0, 1, DIMS(1)), STANDARD)
};

COPSE_CASE_TABLE(prelu, OPS, SPEEDS, REFUSALS)
