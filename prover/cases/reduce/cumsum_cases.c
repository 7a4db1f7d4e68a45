/* SPDX-License-Identifier: MIT */
/* Cases of the cumulative sum. One invocation adds 64 elements, so lines of 64, 4096 and 262,144
   are the sizes where the number of levels grows. */
#include <math.h>

#include "copse/ops/scan.h"
#include "prover/cases/cases.h"

struct wanted {
    uint32_t axis;
    bool is_exclusive, is_reversed;
};

static copse_tensor *cumsum_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct wanted *w = user;
    return copse_cumsum(g, in[0], w->axis, w->is_exclusive, w->is_reversed);
}

static copse_tensor *random_cumsum(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *t = copse_cumsum(g, in[0], in[0]->shape.rank - 1, false, true);
    t = copse_multiply_by(g, t, 0.1f);
    return copse_tanh(g, t);
}

#define ALONG(axis_, is_exclusive_, is_reversed_) \
    &(const struct wanted)                        \
    {                                             \
        axis_, is_exclusive_, is_reversed_        \
    }

static const struct copse_case_op ops[] = {
    { .name = "cumsum",
      .accuracy = COPSE_ACCURACY_scan,
      .call = cumsum_build,
      .user = ALONG(1, false, false),
      .in = { F32_OF(2, 2) },
      .in_count = 1,
      .random = random_cumsum },
};

static const struct copse_case speeds[] = {
    { .op = "cumsum",
      .name = "rows of " OF_SQUARE,
      .build = cumsum_build,
      .user = ALONG(1, false, false),
      .in = { SQUARE },
      .in_count = 1,
      .bytes = 2 * MATRIX },
    { .op = "cumsum",
      .name = "columns of " OF_SQUARE,
      .build = cumsum_build,
      .user = ALONG(0, false, false),
      .in = { SQUARE },
      .in_count = 1,
      .bytes = 2 * MATRIX },
};

static const struct copse_case stress[] = {
    { .op = "cumsum",
      .name = "70,001 elements",
      .build = cumsum_build,
      .user = ALONG(0, false, false),
      ONE_INPUT(WHOLE(-1, 1, DIMS(70001))) },
};

static void cumsum_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *s = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    copse_tensor *long_ = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE((1u << 30) + 1));
    REFUSES(r, SHAPE, "cumsum: operand f32[4, 6]: expected f32 with an axis 2",
            copse_cumsum(g, x, 2, false, false));
    REFUSES(r, SHAPE, "cumsum: operand i32[4]", copse_cumsum(g, n, 0, false, false));
    REFUSES(r, SHAPE, "expected f32 with an axis 0", copse_cumsum(g, s, 0, false, false));
    REFUSES(r, SHAPE, "at most 2^30 elements", copse_cumsum(g, long_, 0, true, true));
    REFUSES(r, ARGUMENT, "cumsum: operand 0 is NULL", copse_cumsum(g, NULL, 0, false, false));
}

#define ROW(label, w, in_, ...)                                                                \
    {                                                                                          \
        .op = "cumsum", .name = label, .build = cumsum_build, .user = w, .in = { UNWRAP in_ }, \
        .in_count = 1, __VA_ARGS__                                                             \
    }
/* The four directions. */
#define FOUR(label, axis, in_, ...)                                           \
    ROW(label, ALONG(axis, false, false), in_, __VA_ARGS__),                  \
        ROW(label ", exclusive", ALONG(axis, true, false), in_, __VA_ARGS__), \
        ROW(label ", reversed", ALONG(axis, false, true), in_, __VA_ARGS__),  \
        ROW(label ", exclusive and reversed", ALONG(axis, true, true), in_, __VA_ARGS__)
#define EXACT(label, axis, dims, ...) \
    FOUR(label, axis, FILL(INTEGERS, dims), .skips_differences = true, __VA_ARGS__)
#define SUMS .forward = { .ratio = 8 }, .backward = { .ratio = 8 }
#define STATED(label, is_exclusive_, is_reversed_, list, want_)                                \
    ROW(label, ALONG(1, is_exclusive_, is_reversed_), VALUES(list, DIMS(2, 4)), .want = want_, \
        QUICK, .has_no_gradient = true)

#define N NAN
#define I INFINITY
static const double given[] = { 1, 2, 4, 8, -1, 0, 3, -5 };
static const double forward[] = { 1, 3, 7, 15, -1, -1, 2, -3 };
static const double exclusive[] = { 0, 1, 3, 7, 0, -1, -1, 2 };
static const double reversed[] = { 15, 14, 12, 8, -3, -2, -2, -5 };
static const double both[] = { 14, 12, 8, 0, -2, -2, -5, 0 };
static const double special[] = { 1, I, 2, -I, N, 1, I, 3 };
static const double special_want[] = { 1, I, I, N, N, N, N, N };
static const double special_both[] = { N, -I, -I, 0, I, I, 3, 0 };
static const double zeros[] = { -0.0, -0.0, 0, -0.0 };
static const double zeros_want[] = { 0, 0, 0, 0, 0, 0, 0, 0 };

static const struct copse_case cases[] = {
    STATED("stated", false, false, given, forward),
    STATED("stated, exclusive", true, false, given, exclusive),
    STATED("stated, reversed", false, true, given, reversed),
    STATED("stated, exclusive and reversed", true, true, given, both),
    STATED("stated: NaN and infinities", false, false, special, special_want),
    STATED("stated: NaN and infinities, exclusive and reversed", true, true, special, special_both),
    ROW("stated: zeros are positive", ALONG(1, false, false), VALUES(zeros, DIMS(2, 4)),
        .want = zeros_want, QUICK, .has_no_gradient = true, .is_poor = true),
    FOUR("the middle of three axes", 1, FILL(NORMAL, DIMS(4, 7, 5)), SUMS, QUICK),
    FOUR("rows of 67", 1, FILL(NORMAL, DIMS(5, 67)), SUMS, STANDARD),
    EXACT("the first of three axes", 0, DIMS(130, 3, 2), STANDARD),
    EXACT("the last of three axes", 2, DIMS(3, 2, 130), STANDARD),
    EXACT("one element", 0, DIMS(1), STANDARD, .is_poor = true),
    EXACT("axes of 1", 1, DIMS(1, 1, 1), STANDARD, .is_poor = true),
    EXACT("nothing", 0, DIMS(0), STANDARD, .is_poor = true),
    EXACT("lines of nothing", 1, DIMS(3, 0, 2), STANDARD, .is_poor = true),
    EXACT("no lines", 1, DIMS(3, 5, 0), STANDARD, .is_poor = true),
    EXACT("64 elements, one chunk", 0, DIMS(64), STANDARD),
    EXACT("65 elements, two chunks", 0, DIMS(65), STANDARD),
    EXACT("128 elements", 0, DIMS(128), FULL),
    EXACT("columns of 4096, two levels", 0, DIMS(4096, 3), STANDARD),
    EXACT("columns of 4097, three levels", 0, DIMS(4097, 3), STANDARD),
    EXACT("270,000 elements, four levels", 0, DIMS(270000), STANDARD),
    EXACT("70,001 rows of 3", 1, DIMS(70001, 3), STANDARD),
    EXACT("rows of 8193, six axes", 5, DIMS(1, 2, 1, 3, 1, 8193), FULL),
    FOUR("positive numbers, rows of 4097", 1, FILL(POSITIVE, DIMS(3, 4097)), SUMS,
         .skips_differences = true, STANDARD),
    FOUR("positive numbers, 270,000 elements", 0, FILL(POSITIVE, DIMS(270000)), SUMS,
         .skips_differences = true, STANDARD),
    ROW("positive numbers, 2^22 + 3 elements", ALONG(0, false, false),
        FILL(POSITIVE, DIMS(4194307)), SUMS, .skips_differences = true, FULL),
    FOUR("numbers that cancel, rows of 4097", 1, FILL(CANCELLING, DIMS(3, 4097)), SUMS,
         .skips_differences = true, STANDARD),
    FOUR("magnitudes from 2^-60 to 2^60", 1, FILL(SPREAD, DIMS(5, 1000)), SUMS,
         .skips_differences = true, STANDARD),
    ROW("more than 65,535 groups of rows", ALONG(1, true, false), FILL(NORMAL, DIMS(4194305, 2)),
        SUMS, FULL, .has_no_gradient = true),
};

COPSE_CASE_TABLE(cumsum, OPS, STRESS, SPEEDS, .refusals = cumsum_refusals)
