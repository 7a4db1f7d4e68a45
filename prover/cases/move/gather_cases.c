/* SPDX-License-Identifier: MIT */
/* Cases of gather and one_hot. The result is exact; the derivative of the table is a sum of a row's
   positions, in chunks of 64 and runs of 16,384. Indices sort in one pass up to 255 rows, in two up
   to 65,535; blocks have 128 positions. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *gather_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_gather(g, in[0], in[1]);
}

static copse_tensor *build_one_hot(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_one_hot(g, in[0], *(const uint32_t *)user);
}

static const uint32_t one = 1, three = 3, ten = 10, many = 700;
static const struct copse_case_op ops[] = {
    { .name = "gather",
      .accuracy = COPSE_ACCURACY_gather,
      .call = gather_build,
      .in = { F32_OF(2, 2), I32_OF(3) },
      .in_count = 2 },
    { .name = "one_hot",
      .accuracy = COPSE_ACCURACY_exact,
      .call = build_one_hot,
      .user = &three,
      .in = { I32_OF(2) },
      .in_count = 1 },
};

static const struct copse_case speeds[] = {
    { .op = "gather",
      .name = "2048 rows of 2048",
      .build = gather_build,
      .in = { SQUARE, I32_OF(SIDE) },
      .in_count = 2,
      .bytes = 2 * MATRIX },
    { .op = "one_hot",
      .name = "2048 classes of 2048",
      .build = build_one_hot,
      .user = &(const uint32_t){ SIDE },
      .in = { I32_OF(SIDE) },
      .in_count = 1,
      .bytes = MATRIX },
};

static void gather_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *six = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(1, 1, 1, 1, 1, 1));
    copse_tensor *scalar = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    REFUSES(r, SHAPE, "gather: operands f32[4, 6] and f32[4, 6]: expected an f32 table",
            copse_gather(g, x, x));
    REFUSES(r, SHAPE, "expected an f32 table", copse_gather(g, n, n));
    REFUSES(r, SHAPE, "expected an f32 table", copse_gather(g, scalar, n));
    REFUSES(r, SHAPE, "more than 6 axes", copse_gather(g, x, six));
    REFUSES(r, SHAPE, "one_hot: operand f32[4, 6]: expected i32 indices of at most 5 axes",
            copse_one_hot(g, x, 3));
    REFUSES(r, SHAPE, "at most 5 axes", copse_one_hot(g, six, 3));
    REFUSES(r, ARGUMENT, "one_hot: 0 classes", copse_one_hot(g, n, 0));
    REFUSES(r, ARGUMENT, "gather: operand 1 is NULL", copse_gather(g, x, NULL));
}

#define ROW(label, table, indices, ...)                                                    \
    {                                                                                      \
        .op = "gather", .name = label, .build = gather_build,                              \
        .in = { UNWRAP table, UNWRAP indices }, .in_count = 2, .backward = { .ratio = 4 }, \
        __VA_ARGS__                                                                        \
    }
#define EXACT_ROW(label, table, indices, ...)                              \
    {                                                                      \
        .op = "gather", .name = label, .build = gather_build,              \
        .in = { UNWRAP table, UNWRAP indices }, .in_count = 2, __VA_ARGS__ \
    }
/* Numbers whose errors add up. */
#define SIZES(label, rows, width, count, ...)                                                   \
    ROW(label, FILL(POSITIVE, DIMS(rows, width)), I32_UNIFORM(0, rows - 1, DIMS(count)), ROUGH, \
        __VA_ARGS__)
#define ONE_HOT(label, classes, indices, ...)                                     \
    {                                                                             \
        .op = "one_hot", .name = label, .build = build_one_hot, .user = &classes, \
        ONE_INPUT(indices), .has_no_gradient = true, .is_poor = true, __VA_ARGS__ \
    }
#define ROUGH   .skips_differences = true
#define FORWARD .has_no_gradient = true

#define N NAN
static const double bad[] = { 1, -1, 3, 2147483647, -2147483648.0, 2, 0, 2 };
static const double table[] = { 1, 2, 3, 4, 5, 6 };
static const double rows[] = { 3, 4, N, N, N, N, N, N, N, N, 5, 6, 1, 2, 5, 6 };

static const double hot[] = {
    0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1
};

static const struct copse_case cases[] = {
    ROW("an embedding", FILL(NORMAL, DIMS(11, 5)), I32_UNIFORM(0, 10, DIMS(4, 6)), QUICK),
    EXACT_ROW("stated: indices out of range give NaN", VALUES(table, DIMS(3, 2)),
              I32_VALUES(bad, DIMS(8)), .want = rows, QUICK, ROUGH),
    ROW("half of the indices out of range", FILL(INTEGERS, DIMS(40, 7)),
        I32_UNIFORM(-40, 39, DIMS(300)), STANDARD, ROUGH, .is_poor = true),
    ROW("one number for each index", FILL(NORMAL, DIMS(9)), I32_UNIFORM(0, 8, DIMS(3, 5)),
        STANDARD),
    ROW("one index", FILL(NORMAL, DIMS(9, 3)), I32_UNIFORM(0, 8, NO_DIMS), STANDARD,
        .is_poor = true),
    ROW("rows of three axes", FILL(NORMAL, DIMS(5, 2, 3, 2)), I32_UNIFORM(0, 4, DIMS(2, 3)),
        STANDARD),
    ROW("one row", FILL(NORMAL, DIMS(1, 6)), I32_UNIFORM(0, 0, DIMS(9)), STANDARD),
    EXACT_ROW("no indices", FILL(INTEGERS, DIMS(5, 3)), I32_UNIFORM(0, 4, DIMS(0)), STANDARD,
              .is_poor = true),
    EXACT_ROW("no rows", FILL(INTEGERS, DIMS(0, 3)), I32_UNIFORM(0, 4, DIMS(4)), STANDARD,
              .is_poor = true),
    EXACT_ROW("empty rows", FILL(INTEGERS, DIMS(5, 0)), I32_UNIFORM(0, 4, DIMS(4)), STANDARD),
    SIZES("63 columns", 7, 63, 100, STANDARD),
    SIZES("65 columns, two groups to a row", 300, 65, 100, STANDARD),
    SIZES("255 rows, one pass", 255, 3, 1000, STANDARD),
    SIZES("256 rows, two passes", 256, 3, 1000, STANDARD),
    SIZES("70,000 rows: three passes, more than 65,535 groups", 70000, 2, 3000, STANDARD,
          .is_poor = true),
    SIZES("a block and one position", 20, 4, 129, STANDARD),
    SIZES("64 positions of a row: a chunk", 1, 5, 64, STANDARD),
    SIZES("65 positions of a row", 1, 5, 65, STANDARD),
    SIZES("16,384 positions of a row: a run", 1, 3, 16384, STANDARD),
    SIZES("16,385 positions of a row", 1, 3, 16385, FULL),
    SIZES("a vocabulary of characters", 65, 64, 4096, STANDARD),
    SIZES("70,001 positions of one row, one column", 1, 1, 70001, STANDARD, .is_poor = true),
    SIZES("100,000 positions, few of each row", 20000, 8, 100000, FULL),
    SIZES("100,000 positions of two rows", 2, 64, 100000, FULL),
    ROW("more than 65,535 groups", FILL(NORMAL, DIMS(300, 257)), I32_UNIFORM(0, 299, DIMS(65537)),
        FORWARD, FULL),
    ROW("numbers that cancel", FILL(CANCELLING, DIMS(10, 8)), I32_UNIFORM(0, 9, DIMS(3000)), ROUGH,
        STANDARD),
    ONE_HOT("ten classes", ten, I32_UNIFORM(0, 9, DIMS(70)), QUICK),
    ONE_HOT("stated: zeros for indices out of range", three, I32_VALUES(bad, DIMS(8)), .want = hot,
            QUICK),
    ONE_HOT("one class", one, I32_UNIFORM(0, 0, DIMS(3, 2)), STANDARD),
    ONE_HOT("one index", ten, I32_UNIFORM(0, 9, NO_DIMS), STANDARD),
    ONE_HOT("no indices", ten, I32_UNIFORM(0, 9, DIMS(2, 0)), STANDARD),
    ONE_HOT("more classes than a group", many, I32_UNIFORM(0, 699, DIMS(2, 3, 4)), STANDARD),
    ROW("special values keep their bits", FILL(SPECIAL, DIMS(47, 2)), I32_UNIFORM(0, 46, DIMS(300)),
        FORWARD, STANDARD),
    ROW("bit patterns", FILL(PATTERNS, DIMS(64, 1024)), I32_UNIFORM(0, 63, DIMS(65)), FORWARD,
        STANDARD),
};

static const struct copse_case stress[] = {
    ROW("70,001 indices", FILL(NORMAL, DIMS(3, 2)), I32_UNIFORM(0, 2, DIMS(70001)), FULL),
};

COPSE_CASE_TABLE(gather, OPS, STRESS, SPEEDS, .refusals = gather_refusals)
