/* SPDX-License-Identifier: MIT */
/* Cases of softmax and its logarithm. The class allows 8 ULP and one more for each unit of distance
   from the maximum, because the difference in the argument of exp is rounded. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *build_softmax(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_softmax(g, in[0]);
}

static copse_tensor *build_log_softmax(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_log_softmax(g, in[0]);
}

static copse_tensor *random_log_softmax(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *t = copse_tanh(g, in[0]);
    return copse_log_softmax(g, t);
}

#define OP(function, random_)                                                            \
    {                                                                                    \
        .name = #function, .accuracy = COPSE_ACCURACY_softmax, .call = build_##function, \
        .in = { F32_OF(2, 2) }, .in_count = 1, .random = random_                         \
    }
static const struct copse_case_op ops[] = {
    OP(softmax, build_softmax),
    OP(log_softmax, random_log_softmax),
};

#define SPEED(function)                                                                  \
    {                                                                                    \
        .op = #function, .name = OF_SQUARE, .build = build_##function, .in = { SQUARE }, \
        .in_count = 1, .family = "softmax", .bytes = 2 * MATRIX                          \
    }
static const struct copse_case speeds[] = {
    SPEED(softmax),
    SPEED(log_softmax),
};

static const double level[] = { 3 };
static const struct copse_case stress[] = {
    { .op = "softmax",
      .name = "a row of 70,001",
      .build = build_softmax,
      ONE_INPUT(VALUES(level, DIMS(1, 70001))),
      .forward = { .ulp = 8 },
      .is_poor = true },
};

static void softmax_refusals(struct copse_refusals *r)
{
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    REFUSES(r, SHAPE, "softmax: operand i32[4]", copse_softmax(r->graph, n));
    REFUSES(r, SHAPE, "log_softmax", copse_log_softmax(r->graph, n));
    REFUSES(r, ARGUMENT, "softmax: operand 0 is NULL", copse_softmax(r->graph, NULL));
}

#define PLAIN(function, label, in_, ulp_, ...)                                                  \
    {                                                                                           \
        .op = #function, .name = label, .build = build_##function, .in = { UNWRAP in_ },        \
        .in_count = 1, .forward = { .ulp = ulp_ }, .backward = { .ulp = 16, .of_max = 4.8e-7 }, \
        __VA_ARGS__                                                                             \
    }
#define ROW(function, label, in_, ulp_, ...) \
    PLAIN(function, label, in_, ulp_, .family = "softmax", __VA_ARGS__)
#define BOTH(label, in_, distance, ...)                    \
    ROW(softmax, label, in_, 8 + (distance), __VA_ARGS__), \
        ROW(log_softmax, label, in_, 8 + (distance), __VA_ARGS__)
#define GRADIENTS(label, in_, distance, ...)                                     \
    PLAIN(softmax, label, in_, 8 + (distance), .family = "softmax_grad",         \
          .family_is_of_gradient = true, __VA_ARGS__),                           \
        PLAIN(log_softmax, label, in_, 8 + (distance), .family = "softmax_grad", \
              .family_is_of_gradient = true, __VA_ARGS__)

#define I   INFINITY
#define N   NAN
#define BIG 3e38
static const double extremes[] = { BIG, -BIG, BIG, -I, 1,  1, 1,  N,    2,     1,    I,    2,
                                   -I,  -I,   -I,  -I, -I, 5, 0,  -0.0, 1e-40, -BIG, -BIG, -BIG,
                                   I,   -I,   0,   N,  I,  1, 88, -88,  0,     100,  -3,   1 };
static const double confident[] = { 20, 0, 0, -3, 15, -4, 0, 1, 30 };
static const double equal[] = { 2.5 };

static const struct copse_case cases[] = {
    BOTH("a batch of digits", UNIFORM(-5, 5, DIMS(64, 10)), 10, QUICK),
    BOTH("extreme logits", VALUES(extremes, DIMS(12, 3)), 8, QUICK, .has_no_gradient = true),
    /* dx = y (dy - sum y dy) cancels if y is nearly 1; the logarithm's derivative does not. */
    ROW(softmax, "confident rows keep their digits", VALUES(confident, DIMS(3, 3)), 42, QUICK,
        .has_no_gradient = true),
    ROW(log_softmax, "confident rows keep their digits", VALUES(confident, DIMS(3, 3)), 8, QUICK,
        .skips_differences = true),
    BOTH("normal numbers, rows of 300", FILL(NORMAL, DIMS(2, 3, 300)), 8, STANDARD),
    GRADIENTS("gradients of short rows", UNIFORM(-4, 4, DIMS(300, 10)), 8, QUICK),
    GRADIENTS("gradients of rows of 37", FILL(NORMAL, DIMS(7, 37)), 8, STANDARD),
    GRADIENTS("gradients of rows of 4097", UNIFORM(-3, 3, DIMS(3, 4097)), 6, STANDARD,
              .skips_differences = true),
    GRADIENTS("gradients of rows of 8192", UNIFORM(-3, 3, DIMS(2, 8192)), 6, STANDARD,
              .skips_differences = true),
    GRADIENTS("gradients of rows of 70,001", UNIFORM(-3, 3, DIMS(2, 70001)), 6, FULL,
              .skips_differences = true),
    BOTH("distances of 80", UNIFORM(-40, 40, DIMS(30, 10)), 80, STANDARD),
    BOTH("distances of 200, results underflow", UNIFORM(-100, 100, DIMS(30, 10)), 200, STANDARD,
         .has_no_gradient = true),
    BOTH("numbers that cancel", FILL(CANCELLING, DIMS(7, 67)), 4, STANDARD),
    BOTH("equal logits", VALUES(equal, DIMS(3, 77)), 0, STANDARD, .is_poor = true),
    BOTH("rows of one", UNIFORM(-5, 5, DIMS(3, 1)), 0, STANDARD, .is_poor = true),
    BOTH("a batch of one", UNIFORM(-5, 5, DIMS(1, 10)), 10, STANDARD),
    BOTH("one axis", UNIFORM(-5, 5, DIMS(7)), 10, STANDARD),
    BOTH("a scalar", UNIFORM(-5, 5, NO_DIMS), 0, STANDARD),
    BOTH("rows of 2", UNIFORM(-5, 5, DIMS(300, 2)), 10, STANDARD),
    BOTH("rows of 3", UNIFORM(-5, 5, DIMS(85, 3)), 10, FULL),
    BOTH("rows of 61, a prime", UNIFORM(-2, 2, DIMS(5, 61)), 4, FULL),
    BOTH("rows of 63", UNIFORM(-2, 2, DIMS(5, 63)), 4, STANDARD),
    BOTH("rows of 64, one pass", UNIFORM(-2, 2, DIMS(5, 64)), 4, STANDARD),
    BOTH("rows of 65, two passes", UNIFORM(-2, 2, DIMS(5, 65)), 4, STANDARD),
    BOTH("rows of 129", UNIFORM(-2, 2, DIMS(5, 129)), 4, FULL),
    BOTH("a row longer than a group", UNIFORM(-3, 3, DIMS(3, 257)), 6, STANDARD),
    BOTH("rows of 4096, two passes", UNIFORM(-3, 3, DIMS(2, 4096)), 6, FULL),
    BOTH("rows of 4097, three passes", UNIFORM(-3, 3, DIMS(2, 4097)), 6, STANDARD,
         .skips_differences = true),
    BOTH("rows of 1000, whole quads", UNIFORM(-3, 3, DIMS(5, 1000)), 6, STANDARD,
         .skips_differences = true),
    BOTH("rows of 8192, all registers of a group", UNIFORM(-3, 3, DIMS(2, 8192)), 6, STANDARD,
         .skips_differences = true),
    BOTH("rows of 9000", UNIFORM(-3, 3, DIMS(2, 9000)), 6, STANDARD, .skips_differences = true),
    BOTH("a row of 300,000", UNIFORM(-3, 3, DIMS(1, 300000)), 6, FULL, .skips_differences = true),
    BOTH("the largest element past column 65,536", LAST(-3, 3, DIMS(2, 70001)), 8, STANDARD,
         .skips_differences = true),
    BOTH("no rows", UNIFORM(-5, 5, DIMS(0, 10)), 10, STANDARD),
    BOTH("empty rows", UNIFORM(-5, 5, DIMS(10, 0)), 10, STANDARD),
};

COPSE_CASE_TABLE(softmax, OPS, STRESS, SPEEDS, .refusals = softmax_refusals)
