/* SPDX-License-Identifier: MIT */
/* Cases of sums down the columns of a matrix, without other kernels, so that a failure is the
   variant's. Sizes around the groups of 32 columns and the blocks of 64 and 4096 rows. Sums of
   whole numbers are exact. */
#include <math.h>

#include "core/ops/reduce/column_sum.h"
#include "prover/cases/cases.h"

static copse_tensor *column_sum_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse__column_sum(g, in[0]);
}

/* Of several matrices of one shape: with the variant `group` in one launch for four of them. */
static copse_tensor *several_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const uint32_t count = *(const uint32_t *)user;
    copse_tensor *sums[5], *x = in[0];
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            x = copse_add(g, x, in[1]);
        sums[i] = copse__column_sum(g, x);
    }
    return copse_stack(g, sums, count, 0);
}
static const uint32_t two = 2, three = 3, four = 4, five = 5;

static const struct copse_case_op ops[] = {
    /* not public: the derivative of a bias */
    { .name = "column_sum", .accuracy = COPSE_ACCURACY_sum },
};

static const struct copse_case stress[] = {
    { .op = "column_sum",
      .name = "70,001 rows",
      .build = column_sum_build,
      .family = "column_sum",
      ONE_INPUT(WHOLE(-1, 1, DIMS(70001, 5))) },
};

static const struct copse_case speeds[] = {
    { .op = "column_sum",
      .name = OF_SQUARE,
      .build = column_sum_build,
      .in = { SQUARE },
      .in_count = 1,
      .family = "column_sum",
      .bytes = MATRIX },
};

#define PLAIN(label, in_, ...)                                                              \
    {                                                                                       \
        .op = "column_sum", .name = label, .build = column_sum_build, .in = { UNWRAP in_ }, \
        .in_count = 1, .has_no_gradient = true, __VA_ARGS__                                 \
    }
#define ROW(label, in_, ...)         PLAIN(label, in_, .family = "column_sum", __VA_ARGS__)
#define SIZE(label, rows, cols, ...) ROW(label, FILL(INTEGERS, DIMS(rows, cols)), __VA_ARGS__)
#define WHOLE_NUMBERS(...)                                                   \
    {                                                                        \
        .type = COPSE_F32, .shape = __VA_ARGS__, .fill = COPSE_FILL_INTEGERS \
    }
#define SEVERAL(label, count, rows, cols, ...)                                                     \
    {                                                                                              \
        .op = "column_sum", .name = label, .build = several_build, .user = &(count),               \
        .in = { WHOLE_NUMBERS(DIMS(rows, cols)), WHOLE_NUMBERS(DIMS(rows, cols)) }, .in_count = 2, \
        .has_no_gradient = true, .family = "column_sum", __VA_ARGS__                               \
    }
#define WITHIN .forward = { .ratio = 4 }

static const double huge_and_tiny[] = { 0x1p40, 0.1,  0.2, 0.3, -0.1,   0.7, 0.5,  -0.25,
                                        0.125,  3,    0.3, 0.2, 0.1,    0.7, -0.1, 0.25,
                                        0.5,    0.75, -3,  1,   -0.125, 5,   0.6 };
static const double nan_and_infinities[] = { 1, NAN, 3, NAN, INFINITY,  -INFINITY, 2,
                                             1, 1,   3, NAN, INFINITY,  -INFINITY, 2,
                                             1, 2,   3, NAN, -INFINITY, 4,         2 };

static const struct copse_case cases[] = {
    SIZE("65 x 33", 65, 33, QUICK),
    ROW("normal numbers, 130 x 70", FILL(NORMAL, DIMS(130, 70)), WITHIN, QUICK),
    SIZE("one element", 1, 1, STANDARD),
    SIZE("one row", 1, 35, STANDARD),
    SIZE("one column", 67, 1, STANDARD),
    SIZE("63 x 31", 63, 31, STANDARD),
    SIZE("64 x 32", 64, 32, STANDARD),
    SIZE("129 x 64", 129, 64, STANDARD),
    SIZE("4095 x 3", 4095, 3, FULL),
    SIZE("4096 x 5, one block", 4096, 5, STANDARD),
    SIZE("4097 x 65, two blocks", 4097, 65, STANDARD),
    SIZE("9001 x 2, three blocks", 9001, 2, STANDARD),
    SIZE("2 x 4099", 2, 4099, STANDARD),
    PLAIN("no rows: zeros", FILL(INTEGERS, DIMS(0, 5)), .is_poor = true, STANDARD),
    PLAIN("no columns", FILL(INTEGERS, DIMS(5, 0)), STANDARD),
    ROW("normal numbers, 4097 x 33", FILL(NORMAL, DIMS(4097, 33)), WITHIN, STANDARD),
    ROW("positive numbers, 4097 x 33", FILL(POSITIVE, DIMS(4097, 33)), WITHIN, STANDARD),
    ROW("positive numbers, 300,001 x 3", FILL(POSITIVE, DIMS(300001, 3)), WITHIN, FULL),
    ROW("numbers that cancel, 4097 x 33", FILL(CANCELLING, DIMS(4097, 33)), WITHIN, STANDARD),
    ROW("magnitudes from 2^-60 to 2^60", FILL(SPREAD, DIMS(1000, 37)), WITHIN, STANDARD),
    ROW("one huge number among tiny ones", VALUES(huge_and_tiny, DIMS(97, 64)), WITHIN, STANDARD),
    ROW("NaN and infinities", VALUES(nan_and_infinities, DIMS(3, 7)), STANDARD),
    SEVERAL("two matrices, 70 x 18", two, 70, 18, STANDARD),
    SEVERAL("three matrices, 4096 x 17", three, 4096, 17, STANDARD),
    SEVERAL("four matrices, 9 x 40", four, 9, 40, QUICK),
    SEVERAL("five matrices, 129 x 3", five, 129, 3, STANDARD),
};

COPSE_CASE_TABLE(column_sum, OPS, STRESS, SPEEDS)
