/* SPDX-License-Identifier: MIT */
/* Cases of the losses. */
#include <math.h>

#include "prover/cases/cases.h"

static copse_tensor *build_mean(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_sparse_cross_entropy(g, in[0], in[1], COPSE_MEAN);
}

static copse_tensor *build_sum(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_sparse_cross_entropy(g, in[0], in[1], COPSE_SUM);
}

static copse_tensor *build_mse(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_mean_squared_error(g, in[0], in[1]);
}

static const struct copse_case_op ops[] = {
    { .name = "sparse_cross_entropy",
      .accuracy = COPSE_ACCURACY_cross_entropy,
      .call = build_mean,
      .in = { F32_OF(2, 2), I32_OF(2) },
      .in_count = 2 },
    { .name = "mean_squared_error",
      .accuracy = COPSE_ACCURACY_squared_error,
      .divides = true,
      .call = build_mse,
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
};

static const struct copse_case speeds[] = {
    { .op = "sparse_cross_entropy",
      .name = OF_SQUARE,
      .build = build_mean,
      .in = { SQUARE, I32_OF(SIDE) },
      .in_count = 2,
      .bytes = MATRIX },
};

static void loss_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *e = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 0));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *three = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(3));
    REFUSES(r, SHAPE, "sparse_cross_entropy: operands f32[4, 6] and f32[5]: expected f32 logits",
            copse_sparse_cross_entropy(g, x, v, COPSE_MEAN));
    REFUSES(r, SHAPE, "i32[3]", copse_sparse_cross_entropy(g, x, three, COPSE_MEAN));
    REFUSES(r, SHAPE, "f32[5]", copse_sparse_cross_entropy(g, v, n, COPSE_SUM));
    REFUSES(r, SHAPE, "f32[4, 0]", copse_sparse_cross_entropy(g, e, n, COPSE_SUM));
    REFUSES(r, ARGUMENT, "9", copse_sparse_cross_entropy(g, x, n, (copse_averaging)9));
    REFUSES(r, SHAPE, "mean_squared_error", copse_mean_squared_error(g, x, v));
}

/* The loss of a row is not negative, so sums do not cancel: 8 ULP. The derivative is a softmax: 8
   ULP, one more for each unit of distance, and the products after it. */
#define PLAIN(way, label, logits, labels, distance, ...)                                \
    {                                                                                   \
        .op = "sparse_cross_entropy", .name = #way ", " label, .build = build_##way,    \
        .in = { UNWRAP logits, UNWRAP labels }, .in_count = 2, .forward = { .ulp = 8 }, \
        .backward = { .ulp = 11 + (distance) }, __VA_ARGS__                             \
    }
#define ROW(way, label, logits, labels, distance, ...) \
    PLAIN(way, label, logits, labels, distance, .family = "row_stats", __VA_ARGS__)
#define GRADIENT .family = "cross_entropy_grad", .family_is_of_gradient = true
#define ROWS(label, rows, cols, range, ...)                            \
    ROW(mean, label, UNIFORM(-range, range, DIMS(rows, cols)),         \
        I32_UNIFORM(0, cols - 1, DIMS(rows)), 2 * range, __VA_ARGS__), \
        ROW(sum, label, UNIFORM(-range, range, DIMS(rows, cols)),      \
            I32_UNIFORM(0, cols - 1, DIMS(rows)), 2 * range, __VA_ARGS__)

#define MSE(label, a, b, ...)                                          \
    {                                                                  \
        .op = "mean_squared_error", .name = label, .build = build_mse, \
        .in = { UNWRAP a, UNWRAP b }, .in_count = 2, __VA_ARGS__       \
    }

#define I INFINITY
#define N NAN
static const double confident[] = { 20, 0, 0, -3, 15, -4, 0, 1, 30 };
static const double right[] = { 0, 1, 2 };
static const double extremes[] = { 3e38, -3e38, 3e38, -I, 1, 1, 1, N, 2, 1, I, 2, -I, -I, -I };
static const double plain[] = { 1, 2, 3, 4, 5, 6, -1, 0, 1, 7, 7, 7, 0, -9, 5, 2, 4, 8 };
static const double out_of_range[] = { 1, -1, 3, 2147483647, -2147483648.0, 2 };
static const double first[] = { 0 };

static const struct copse_case cases[] = {
    ROWS("a batch of digits", 64, 10, 4, QUICK),
    ROW(sum, "confident rows keep their digits", VALUES(confident, DIMS(3, 3)),
        I32_VALUES(right, DIMS(3)), 29, QUICK, .skips_differences = true),
    ROW(sum, "one row of extreme logits", VALUES(extremes, DIMS(1, 3)), I32_VALUES(first, DIMS(1)),
        8, STANDARD, .has_no_gradient = true),
    ROW(mean, "extreme logits: NaN", VALUES(extremes, DIMS(5, 3)), I32_VALUES(first, DIMS(5)), 8,
        STANDARD, .has_no_gradient = true),
    /* The loss and the derivative of those rows are NaN; the other rows stay right. */
    ROW(sum, "labels out of range", VALUES(plain, DIMS(6, 3)), I32_VALUES(out_of_range, DIMS(6)),
        14, QUICK, .skips_differences = true),
    PLAIN(mean, "gradients of short rows", UNIFORM(-4, 4, DIMS(300, 10)),
          I32_UNIFORM(0, 9, DIMS(300)), 8, QUICK, GRADIENT),
    PLAIN(sum, "gradients of rows of 37", UNIFORM(-4, 4, DIMS(7, 37)), I32_UNIFORM(0, 36, DIMS(7)),
          8, STANDARD, GRADIENT),
    PLAIN(sum, "gradients of labels out of range", VALUES(plain, DIMS(6, 3)),
          I32_VALUES(out_of_range, DIMS(6)), 14, STANDARD, GRADIENT, .skips_differences = true),
    ROWS("a batch of one", 1, 10, 4, STANDARD),
    ROWS("one class", 1, 1, 4, STANDARD, .is_poor = true),
    ROWS("two classes", 3, 2, 4, STANDARD),
    ROWS("distances of 100", 4, 7, 50, STANDARD),
    ROWS("63 rows", 63, 3, 2, FULL),
    ROWS("65 rows, two passes", 65, 3, 2, STANDARD),
    ROWS("more rows than two groups", 130, 10, 4, STANDARD),
    ROWS("a row longer than a group", 5, 257, 3, STANDARD),
    ROWS("rows of 700", 5, 700, 3, STANDARD),
    ROW(sum, "the largest element past column 65,536", LAST(-3, 3, DIMS(2, 70001)),
        I32_UNIFORM(69990, 70000, DIMS(2)), 8, STANDARD, .skips_differences = true),
    ROWS("1000 rows", 1000, 3, 2, STANDARD),
    ROWS("4097 rows, three passes", 4097, 3, 2, FULL),
    ROWS("nothing", 0, 5, 4, STANDARD),

    MSE("usual range", UNIFORM(-2, 2, DIMS(13, 17)), UNIFORM(-2, 2, DIMS(13, 17)),
        .forward = { .ulp = 8 }, .backward = { .ulp = 5 }, QUICK),
    /* Exact except for the division, in any order of summation. */
    MSE("whole numbers", WHOLE(-9, 9, DIMS(64, 65)), WHOLE(-9, 9, DIMS(64, 65)),
        .forward = { .ulp = 3 }, .backward = { .ulp = 5 }, .skips_differences = true, STANDARD),
    MSE("a row", WHOLE(-9, 9, DIMS(13, 17)), WHOLE(-9, 9, DIMS(17)), .forward = { .ulp = 3 },
        .backward = { .ulp = 5, .of_max = 4.8e-7 }, .skips_differences = true, STANDARD),
    MSE("a scalar", WHOLE(-9, 9, DIMS(13, 17)), WHOLE(-9, 9, NO_DIMS), .forward = { .ulp = 3 },
        .backward = { .ulp = 5, .of_max = 4.8e-7 }, .skips_differences = true, STANDARD),
    MSE("positive numbers, 4097 rows", FILL(POSITIVE, DIMS(4097, 3)), FILL(NORMAL, DIMS(4097, 3)),
        .forward = { .ulp = 8 }, .backward = { .ulp = 5 }, .skips_differences = true, STANDARD),
    MSE("a batch of one", UNIFORM(-2, 2, DIMS(1, 1)), UNIFORM(-2, 2, DIMS(1, 1)),
        .forward = { .ulp = 8 }, .backward = { .ulp = 5 }, STANDARD),
    MSE("two scalars", UNIFORM(-2, 2, NO_DIMS), UNIFORM(-2, 2, NO_DIMS), .forward = { .ulp = 8 },
        .backward = { .ulp = 5 }, STANDARD),
    MSE("nothing", FILL(NORMAL, DIMS(0, 3)), FILL(NORMAL, DIMS(0, 3)), .forward = { .ulp = 8 },
        .backward = { .ulp = 5 }, STANDARD),
};

COPSE_CASE_TABLE(loss, OPS, SPEEDS, .refusals = loss_refusals)
