/* SPDX-License-Identifier: MIT */
/* Cases of argmax. One invocation compares 64 elements. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *argmax_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_argmax(g, in[0], *(const uint32_t *)user);
}

static const struct copse_case_op ops[] = {
    { .name = "argmax",
      .accuracy = COPSE_ACCURACY_exact,
      .call = argmax_build,
      .user = &(const uint32_t){ 1 },
      .in = { F32_OF(2, 2) },
      .in_count = 1 },
};

static const struct copse_case speeds[] = {
    { .op = "argmax",
      .name = "rows of " OF_SQUARE,
      .build = argmax_build,
      .user = &(const uint32_t){ 1 },
      .in = { SQUARE },
      .in_count = 1,
      .bytes = MATRIX },
};

static const struct copse_case stress[] = {
    { .op = "argmax",
      .name = "70,001 elements",
      .build = argmax_build,
      .user = &(const uint32_t){ 0 },
      ONE_INPUT(FILL(NORMAL, DIMS(70001))) },
};

static void argmax_refusals(struct copse_refusals *r)
{
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *e = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 0));
    REFUSES(r, SHAPE, "argmax: operand f32[4, 6]", copse_argmax(r->graph, x, 2));
    REFUSES(r, SHAPE, "argmax", copse_argmax(r->graph, e, 1));
}

#define ROW(label, axis, in_, ...)                                                               \
    {                                                                                            \
        .op = "argmax", .name = label, .build = argmax_build, .user = &(const uint32_t){ axis }, \
        .in = { UNWRAP in_ }, .in_count = 1, .has_no_gradient = true, __VA_ARGS__                \
    }

#define N NAN
#define I INFINITY
static const double first_nan[] = { 1, N, 3, N, -I, -I, -I, -I, 1, 3, I,    I,   1,    3,
                                    2, 3, N, N, I,  1,  -I, N,  5, 9, -0.0, 0.0, -0.0, 0.0 };

static const double seven[] = { 7 };

static const struct copse_case cases[] = {
    ROW("middle axis", 1, FILL(NORMAL, DIMS(5, 10, 3)), QUICK),
    ROW("first axis", 0, FILL(NORMAL, DIMS(5, 10, 3)), STANDARD),
    ROW("last axis", 2, FILL(NORMAL, DIMS(5, 10, 3)), STANDARD),
    ROW("axes of 1", 1, FILL(NORMAL, DIMS(1, 1, 1)), STANDARD),
    ROW("one element", 0, FILL(NORMAL, DIMS(1)), STANDARD),
    ROW("columns of 130", 0, FILL(NORMAL, DIMS(130, 65, 32)), STANDARD),
    ROW("the middle axis, longer than a chunk", 1, FILL(NORMAL, DIMS(130, 65, 32)), STANDARD),
    ROW("short rows, many groups", 2, FILL(NORMAL, DIMS(130, 65, 32)), STANDARD),
    ROW("rows of 63", 1, FILL(NORMAL, DIMS(9, 63)), FULL),
    ROW("rows of 64, one pass", 1, FILL(NORMAL, DIMS(9, 64)), STANDARD),
    ROW("rows of 65, two passes", 1, FILL(NORMAL, DIMS(9, 65)), STANDARD),
    ROW("rows of 129", 1, FILL(NORMAL, DIMS(9, 129)), FULL),
    ROW("rows of 4096, two passes", 1, FILL(NORMAL, DIMS(9, 4096)), STANDARD),
    ROW("rows of 4097, three passes", 1, FILL(NORMAL, DIMS(9, 4097)), STANDARD),
    ROW("rows of 8193", 1, FILL(NORMAL, DIMS(9, 8193)), FULL),
    ROW("the largest element past column 65,536", 1, LAST(-3, 3, DIMS(2, 70001)), STANDARD),
    ROW("2^20 + 1 elements", 0, FILL(NORMAL, DIMS(1048577)), FULL),
    ROW("a batch of none", 1, FILL(NORMAL, DIMS(0, 5)), STANDARD),
    ROW("the lowest of equal ones", 1, WHOLE(0, 3, DIMS(30, 200)), QUICK),
    ROW("all equal", 1, VALUES(seven, DIMS(9, 4097)), .is_poor = true, STANDARD),
    ROW("the first NaN, infinities, zeros", 1, VALUES(first_nan, DIMS(7, 4)), QUICK),
    ROW("special values, rows of 3", 1, FILL(SPECIAL, DIMS(94, 3)), STANDARD),
    ROW("bit patterns, rows of 67", 1, FILL(PATTERNS, DIMS(97, 67)), STANDARD),
};

COPSE_CASE_TABLE(argmax, OPS, STRESS, SPEEDS, .refusals = argmax_refusals)
