/* SPDX-License-Identifier: MIT */
/* Cases of softmax of groups. The class allows 8 ULP and one more for each unit of distance from
   the maximum, because the difference in the argument of exp is rounded; scales of 1 / 2 and less
   make up for the rounding of their product. */
#include <math.h>

#include "copse/ops/scan.h"
#include "prover/cases/cases.h"

struct setting {
    uint32_t groups;
    float scale;
};

static copse_tensor *build_groups(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    return copse_softmax_groups(g, in[0], s->groups, s->scale);
}

static const struct setting one = { 1, 0.5f }, two = { 2, 0.5f }, three = { 3, 0.25f },
                            seven = { 7, 0.3f }, plain = { 5, 1.0f }, steep = { 4, 8.0f },
                            flat = { 2, 1e-30f };

static const struct copse_case_op ops[] = {
    { .name = "softmax_groups",
      .accuracy = COPSE_ACCURACY_softmax,
      .divides = true,
      .call = build_groups,
      .user = &two,
      .in = { F32_OF(2, 4) },
      .in_count = 1,
      .random = build_groups },
};

static const struct setting of_64 = { SIDE / 64, 0.125f };
static const struct copse_case speeds[] = {
    { .op = "softmax_groups",
      .name = OF_SQUARE ", groups of 64",
      .build = build_groups,
      .user = &of_64,
      .in = { SQUARE },
      .in_count = 1,
      .bytes = 2 * MATRIX },
};

static const double level[] = { 3 };
static const struct copse_case stress[] = {
    { .op = "softmax_groups",
      .name = "two groups of 70,001",
      .build = build_groups,
      .user = &two,
      ONE_INPUT(VALUES(level, DIMS(1, 140002))),
      .forward = { .ulp = 8 },
      .is_poor = true },
};

static void softmax_groups_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 6));
    copse_tensor *far = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE((1u << 20) + 1));
    copse_tensor *scalar = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    REFUSES(r, SHAPE, "softmax_groups: operand i32[4]", copse_softmax_groups(g, n, 2, 1));
    REFUSES(r, SHAPE, "a last axis of 4 groups", copse_softmax_groups(g, x, 4, 1));
    REFUSES(r, SHAPE, "a last axis of 2 groups", copse_softmax_groups(g, scalar, 2, 1));
    REFUSES(r, SHAPE, "1 groups of at most 2^20", copse_softmax_groups(g, far, 1, 1));
    REFUSES(r, ARGUMENT, "softmax_groups: 0 groups", copse_softmax_groups(g, x, 0, 1));
    REFUSES(r, ARGUMENT, "scale 0 is not", copse_softmax_groups(g, x, 2, 0));
    REFUSES(r, ARGUMENT, "scale -1 is not", copse_softmax_groups(g, x, 2, -1));
    REFUSES(r, ARGUMENT, "scale inf", copse_softmax_groups(g, x, 2, INFINITY));
    REFUSES(r, ARGUMENT, "scale", copse_softmax_groups(g, x, 2, NAN));
    REFUSES(r, ARGUMENT, "scale 9e-31", copse_softmax_groups(g, x, 2, 9e-31f));
    REFUSES(r, ARGUMENT, "softmax_groups: operand 0", copse_softmax_groups(g, NULL, 2, 1));
}

#define ROW(label, setting_, in_, ulp_, ...)                                               \
    {                                                                                      \
        .op = "softmax_groups", .name = label, .build = build_groups, .user = &(setting_), \
        .in = { UNWRAP in_ }, .in_count = 1, .forward = { .ulp = ulp_ },                   \
        .backward = { .ulp = 16, .of_max = 4.8e-7 }, __VA_ARGS__                           \
    }

#define I INFINITY
#define N NAN
static const double stated[] = { 0,  0, 1,  1,  N, 1, 2,    2,     I,    0,
                                 -I, 0, -I, -I, 5, 5, 3e38, -3e38, -0.0, 0 };
static const double shares[] = { 0.5, 0.5, 0.5, 0.5, N,   N,   0.5, 0.5, N,   N,
                                 0,   1,   N,   N,   0.5, 0.5, 1,   0,   0.5, 0.5 };
static const double far_apart[] = { 3e38, -3e38, 1, 0 }, a_half[] = { 1, 0, 0.5, 0.5 };
static const double equal[] = { 2.5 };

static const struct copse_case cases[] = {
    ROW("scores of two heads", two, UNIFORM(-5, 5, DIMS(16, 20)), 18, QUICK),
    ROW("three groups of an odd length", three, UNIFORM(-4, 4, DIMS(5, 111)), 16, QUICK),
    ROW("stated: equal ones, NaN, infinities", two, VALUES(stated, DIMS(5, 4)), 0, QUICK,
        .want = shares, .has_no_gradient = true),
    ROW("stated: a small scale of large numbers", flat, VALUES(far_apart, DIMS(1, 4)), 0, QUICK,
        .want = a_half, .has_no_gradient = true),
    ROW("one group", one, UNIFORM(-5, 5, DIMS(7, 10)), 18, STANDARD),
    ROW("scale 1", plain, UNIFORM(-5, 5, DIMS(7, 35)), 18, STANDARD),
    ROW("scale 8", steep, UNIFORM(-1, 1, DIMS(6, 28)), 10, STANDARD),
    ROW("three axes", seven, FILL(NORMAL, DIMS(3, 5, 49)), 8, STANDARD),
    ROW("one axis", three, UNIFORM(-5, 5, DIMS(9)), 18, STANDARD),
    ROW("a scalar", one, UNIFORM(-5, 5, NO_DIMS), 8, STANDARD, .is_poor = true),
    ROW("groups of one", seven, UNIFORM(-5, 5, DIMS(4, 7)), 8, STANDARD, .is_poor = true),
    ROW("groups of two", seven, UNIFORM(-5, 5, DIMS(40, 14)), 18, STANDARD),
    ROW("groups of 63", three, UNIFORM(-2, 2, DIMS(2, 189)), 12, STANDARD),
    ROW("groups of 64, one pass", three, UNIFORM(-2, 2, DIMS(2, 192)), 12, STANDARD),
    ROW("groups of 65, two passes", three, UNIFORM(-2, 2, DIMS(2, 195)), 12, STANDARD),
    ROW("groups of 1000", two, UNIFORM(-3, 3, DIMS(2, 2000)), 14, STANDARD,
        .skips_differences = true),
    ROW("groups of 4097", two, UNIFORM(-3, 3, DIMS(2, 8194)), 14, STANDARD,
        .skips_differences = true),
    ROW("groups of 300,000", two, UNIFORM(-3, 3, DIMS(1, 600000)), 14, FULL,
        .skips_differences = true),
    ROW("65,541 groups", seven, UNIFORM(-3, 3, DIMS(9363, 21)), 14, STANDARD,
        .skips_differences = true),
    ROW("the largest element past column 65,536", two, LAST(-3, 3, DIMS(1, 140002)), 14, STANDARD,
        .skips_differences = true),
    ROW("equal numbers", seven, VALUES(equal, DIMS(3, 77)), 8, STANDARD, .is_poor = true),
    ROW("numbers that cancel", seven, FILL(CANCELLING, DIMS(7, 70)), 8, STANDARD),
    ROW("no rows", two, UNIFORM(-5, 5, DIMS(0, 10)), 18, STANDARD),
    ROW("empty groups", two, UNIFORM(-5, 5, DIMS(10, 0)), 18, STANDARD),
};

COPSE_CASE_TABLE(softmax_groups, OPS, STRESS, SPEEDS, .refusals = softmax_groups_refusals)
