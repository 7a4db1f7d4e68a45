/* SPDX-License-Identifier: MIT */
/* Cases of sum, mean and maximum. One invocation reduces 64 elements, so lines of 64 and of 4096
   are the sizes where the number of passes grows. Sums of whole numbers are exact in any order. */
#include <math.h>

#include "prover/cases/cases.h"

typedef copse_tensor *reduction(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t count,
                                bool keep_dims);
struct axes {
    reduction *reduce;
    bool keep;
    size_t count;
    uint32_t axes[4];
};

static copse_tensor *reduce_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct axes *a = user;
    return a->reduce(g, in[0], a->axes, a->count, a->keep);
}

/* ---- the ops ---- */

static copse_tensor *random_mean(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const uint32_t last = in[0]->shape.rank - 1;
    (void)user;
    return copse_mean(g, in[0], &last, 1, true);
}

static copse_tensor *random_sum(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *t = copse_sum(g, in[0], NULL, 0, false);
    t = copse_multiply_by(g, t, 0.01f);
    t = copse_tanh(g, t);
    return copse_broadcast_to(g, t, in[0]->shape);
}

#define OP(name_, class, random_, ...)                                                          \
    {                                                                                           \
        .name = #name_, .accuracy = COPSE_ACCURACY_##class, .call = reduce_build,               \
        .user = &(const struct axes){ copse_##name_, false, 1, { 0 } }, .in = { F32_OF(2, 2) }, \
        .in_count = 1, .random = random_, __VA_ARGS__                                           \
    }
static const struct copse_case_op ops[] = {
    OP(sum, sum, random_sum, .divides = false), OP(mean, mean, random_mean, .divides = true),
    OP(max, maximum, NULL, .divides = true), /* equal elements share the derivative */
};

#define SPEED(function, label, ...)                                                             \
    {                                                                                           \
        .op = #function, .name = label " of " OF_SQUARE, .build = reduce_build,                 \
        .user = &(const struct axes){ copse_##function, false, __VA_ARGS__ }, .in = { SQUARE }, \
        .in_count = 1, .bytes = MATRIX                                                          \
    }
static const struct copse_case speeds[] = {
    SPEED(sum, "all", 0, { 0 }),
    SPEED(sum, "rows", 1, { 1 }),
    SPEED(sum, "columns", 1, { 0 }),
    SPEED(max, "rows", 1, { 1 }),
};

/* Sums of more terms than the 65,535 rounds after which some drivers leave a loop. */
#define LONG_ROW(function, input)                                                                  \
    {                                                                                              \
        .op = #function, .name = "70,001 elements", .build = reduce_build,                         \
        .user = &(const struct axes){ copse_##function, false, 0, { 0 } }, .in = { UNWRAP input }, \
        .in_count = 1                                                                              \
    }
static const struct copse_case stress[] = {
    LONG_ROW(sum, WHOLE(-1, 1, DIMS(70001))),
    LONG_ROW(max, FILL(NORMAL, DIMS(70001))),
};

static void reduce_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    const uint32_t twice[] = { 1, 1 }, high[] = { 2, 0 };
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    REFUSES(r, ARGUMENT, "axes", copse_sum(g, x, NULL, 1, false));
    REFUSES(r, SHAPE, "sum: axis 1 of operand [4, 6]", copse_sum(g, x, twice, 2, false));
    REFUSES(r, SHAPE, "sum: axis 2", copse_sum(g, x, high, 1, false));
    REFUSES(r, SHAPE, "mean: axis 2", copse_mean(g, x, high, 1, false));
    REFUSES(r, SHAPE, "mean: axis 1", copse_mean(g, x, twice, 2, false));
    REFUSES(r, SHAPE, "max: axis 2", copse_max(g, x, high, 2, true));
    REFUSES(r, SHAPE, "max: operand i32[4]", copse_max(g, n, NULL, 0, false));
}

/* ---- the cases ---- */

#define ROW(op_, label, in_, keep, axes_, ...)                                          \
    {                                                                                   \
        .op = #op_, .name = label, .build = reduce_build,                               \
        .user = &(const struct axes){ copse_##op_, keep, axes_ }, .in = { UNWRAP in_ }, \
        .in_count = 1, __VA_ARGS__                                                      \
    }
#define ALL \
    0,      \
    {       \
        0   \
    }
#define AXES(...)                                           \
    sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), \
    {                                                       \
        __VA_ARGS__                                         \
    }

/* The reduced axes. IN makes the input with its shape. */
#define PLACES(op, kind, IN, ...)                                                                  \
    ROW(op, kind "three axes of four", IN(DIMS(3, 4, 5, 6)), false, AXES(2, 0, 1), QUICK,          \
        __VA_ARGS__),                                                                              \
        ROW(op, kind "a scalar", IN(NO_DIMS), false, ALL, STANDARD, __VA_ARGS__),                  \
        ROW(op, kind "one element", IN(DIMS(1)), false, AXES(0), STANDARD, __VA_ARGS__),           \
        ROW(op, kind "rows", IN(DIMS(3, 1000)), false, AXES(1), STANDARD, __VA_ARGS__),            \
        ROW(op, kind "columns", IN(DIMS(1000, 7)), false, AXES(0), STANDARD, __VA_ARGS__),         \
        ROW(op, kind "columns, kept", IN(DIMS(1000, 7)), true, AXES(0), STANDARD, __VA_ARGS__),    \
        ROW(op, kind "a batch of one", IN(DIMS(1, 65)), false, AXES(0), STANDARD, __VA_ARGS__),    \
        ROW(op, kind "the middle of three axes", IN(DIMS(4, 129, 5)), false, AXES(1), STANDARD,    \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "two axes apart", IN(DIMS(3, 4, 5, 6)), false, AXES(0, 2), STANDARD,          \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "two axes apart, kept", IN(DIMS(3, 4, 5, 6)), true, AXES(3, 1), STANDARD,     \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "outer and inner axis", IN(DIMS(60, 70, 3)), false, AXES(0, 2), STANDARD,     \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "axes of 1", IN(DIMS(1, 1, 1)), false, AXES(0, 1), STANDARD, __VA_ARGS__),    \
        ROW(op, kind "six axes", IN(DIMS(2, 3, 2, 3, 2, 3)), false, AXES(1, 3, 5), FULL,           \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "columns of nothing", IN(DIMS(0, 4)), false, AXES(0), STANDARD, __VA_ARGS__), \
        ROW(op, kind "no columns", IN(DIMS(4, 0)), false, AXES(0), STANDARD, __VA_ARGS__),         \
        ROW(op, kind "nothing", IN(DIMS(0, 0)), false, ALL, STANDARD, __VA_ARGS__)

/* Lengths of the reduced lines. */
#define LENGTHS(op, kind, IN, ...)                                                                 \
    ROW(op, kind "2 elements", IN(DIMS(2)), false, ALL, FULL, __VA_ARGS__),                        \
        ROW(op, kind "3 elements", IN(DIMS(3)), false, ALL, FULL, __VA_ARGS__),                    \
        ROW(op, kind "61 elements, a prime", IN(DIMS(61)), false, ALL, FULL, __VA_ARGS__),         \
        ROW(op, kind "63 elements", IN(DIMS(63)), false, ALL, STANDARD, __VA_ARGS__),              \
        ROW(op, kind "64 elements, one pass", IN(DIMS(64)), false, ALL, STANDARD, __VA_ARGS__),    \
        ROW(op, kind "65 elements, two passes", IN(DIMS(65)), true, ALL, STANDARD, __VA_ARGS__),   \
        ROW(op, kind "129 elements", IN(DIMS(129)), false, ALL, FULL, __VA_ARGS__),                \
        ROW(op, kind "4093 elements, a prime", IN(DIMS(4093)), false, ALL, FULL, __VA_ARGS__),     \
        ROW(op, kind "4095 elements", IN(DIMS(4095)), false, ALL, FULL, __VA_ARGS__),              \
        ROW(op, kind "4096 elements, two passes", IN(DIMS(4096)), false, ALL, STANDARD,            \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "4097 elements, three passes", IN(DIMS(4097)), false, ALL, STANDARD,          \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "8193 elements", IN(DIMS(8193)), false, ALL, FULL, __VA_ARGS__),              \
        ROW(op, kind "270,000 elements, four passes", IN(DIMS(270000)), false, ALL, STANDARD,      \
            __VA_ARGS__),                                                                          \
        ROW(op, kind "columns of 4097", IN(DIMS(4097, 3)), false, AXES(0), STANDARD, __VA_ARGS__), \
        ROW(op, kind "2^22 + 3 elements", IN(DIMS(4194307)), false, ALL, FULL, __VA_ARGS__)

/* Cases where rounding matters: every fill of long lines. */
#define FILLS(op, ...)                                                                            \
    ROW(op, "normal numbers, rows of 65", FILL(NORMAL, DIMS(7, 65)), false, AXES(1), QUICK,       \
        __VA_ARGS__),                                                                             \
        ROW(op, "normal numbers, rows of 4097", FILL(NORMAL, DIMS(3, 4097)), false, AXES(1),      \
            STANDARD, __VA_ARGS__),                                                               \
        ROW(op, "positive numbers, rows of 4097", FILL(POSITIVE, DIMS(3, 4097)), false, AXES(1),  \
            STANDARD, __VA_ARGS__),                                                               \
        ROW(op, "positive numbers, 270,000 elements", FILL(POSITIVE, DIMS(270000)), false, ALL,   \
            STANDARD, __VA_ARGS__),                                                               \
        ROW(op, "positive numbers, 2^22 + 3 elements", FILL(POSITIVE, DIMS(4194307)), false, ALL, \
            FULL, __VA_ARGS__),                                                                   \
        ROW(op, "numbers that cancel, rows of 4097", FILL(CANCELLING, DIMS(3, 4097)), false,      \
            AXES(1), STANDARD, __VA_ARGS__),                                                      \
        ROW(op, "magnitudes from 2^-60 to 2^60", FILL(SPREAD, DIMS(5, 1000)), false, AXES(1),     \
            STANDARD, __VA_ARGS__),                                                               \
        ROW(op, "one huge number among tiny ones", VALUES(huge_and_tiny, DIMS(97, 64)), false,    \
            AXES(1), STANDARD, __VA_ARGS__)

/* Rows of 97 that begin at different positions of the list. */
static const double huge_and_tiny[] = {
    0x1p40, 0.1,   0.2,   0.3,   -0.1,  0.7,  0.5, -0.25, 0.125, 3,     0.1,   0.2,   0.3,
    -0.1,   0.7,   0.5,   -0.25, 0.125, 3,    1,   2,     0.1,   0.2,   0.3,   -0.1,  0.7,
    0.5,    -0.25, 0.125, 3,     1,     2,    0.1, 0.2,   0.3,   -0.1,  0.7,   0.5,   -0.25,
    0.125,  3,     1,     2,     0.1,   0.2,  0.3, -0.1,  0.7,   0.5,   -0.25, 0.125, 3,
    1,      2,     0.1,   0.2,   0.3,   -0.1, 0.7, 0.5,   -0.25, 0.125, 3,     1,     2
};

#define N NAN
#define I INFINITY
static const double nan_and_infinities[] = { 1, N,  3, N, I, 3,  1,    I, 3,    -I, -I, -I,
                                             3, -I, N, 2, N, -I, -0.0, 0, -0.0, 5,  4,  3 };
#define SPECIALS(op, ulp_)                                                                       \
    ROW(op, "NaN and infinities", VALUES(nan_and_infinities, DIMS(8, 3)), false, AXES(1), QUICK, \
        .forward = { .ulp = ulp_ }, .has_no_gradient = true)

#define ANY(...)    FILL(INTEGERS, __VA_ARGS__)
#define FEW(...)    WHOLE(-9, 9, __VA_ARGS__)
#define NORMAL(...) FILL(NORMAL, __VA_ARGS__)

static const struct copse_case cases[] = {
    PLACES(sum, "", ANY, .skips_differences = true),
    LENGTHS(sum, "", ANY, .skips_differences = true),
    FILLS(sum, .forward = { .ratio = 4 }, .skips_differences = true),
    SPECIALS(sum, 0),
    PLACES(mean, "", ANY, .forward = { .ratio = 4 }, .backward = { .ulp = 6 },
           .skips_differences = true),
    /* Exact sums: the only rounding is one division. */
    LENGTHS(mean, "", ANY, .forward = { .ulp = 3 }, .backward = { .ulp = 3 },
            .skips_differences = true),
    FILLS(mean, .forward = { .ratio = 4 }, .backward = { .ulp = 3 }, .skips_differences = true),
    SPECIALS(mean, 3),
    /* Equal largest elements share their derivative by a division; otherwise it is passed on
       unchanged. */
    PLACES(max, "", NORMAL, .backward = { .ulp = 3 }, .is_poor = true),
    LENGTHS(max, "", NORMAL, .backward = { .ulp = 3 }, .is_poor = true, .skips_differences = true),
    PLACES(max, "many equal: ", FEW, .backward = { .ulp = 3 }, .is_poor = true,
           .skips_differences = true),
    ROW(max, "many equal: 4097 elements", FEW(DIMS(4097)), false, ALL, STANDARD,
        .backward = { .ulp = 3 }, .is_poor = true, .skips_differences = true),
    SPECIALS(max, 0),
    ROW(max, "special values, rows of 3", FILL(SPECIAL, DIMS(94, 3)), false, AXES(1), STANDARD,
        .has_no_gradient = true),
    ROW(max, "bit patterns, rows of 67", FILL(PATTERNS, DIMS(97, 67)), false, AXES(1), STANDARD,
        .has_no_gradient = true),
};

COPSE_CASE_TABLE(reduce, OPS, STRESS, SPEEDS, .refusals = reduce_refusals)
