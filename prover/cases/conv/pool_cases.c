/* SPDX-License-Identifier: MIT */
/* Cases of pooling. The largest element moves, so results are exact; its gradient is a sum over
   windows. Whole numbers have ties, which stated results decide for the result and the gradient. */
#include <math.h>

#include "copse/ops/pool.h"
#include "prover/cases/cases.h"

static copse_tensor *build_max(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_max_pool(g, in[0], user);
}

static copse_tensor *build_average(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_average_pool(g, in[0], user);
}

/* The gradient of the maxima from in[1], their derivatives. */
static copse_tensor *build_ties(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *dx, *pooled = copse_max_pool(g, in[0], user);
    copse_gradients(g, pooled, in[1], in, 1, &dx);
    return dx;
}

static const struct copse_pool_params two = { .window = { 2, 2 } };
static const struct copse_case_op ops[] = {
    { .name = "max_pool",
      .accuracy = COPSE_ACCURACY_gather,
      .call = build_max,
      .user = &two,
      .in = { F32_OF(2, 2, 2, 2) },
      .in_count = 1 },
    { .name = "average_pool",
      .accuracy = COPSE_ACCURACY_pool,
      .divides = true,
      .call = build_average,
      .user = &two,
      .in = { F32_OF(2, 2, 2, 2) },
      .in_count = 1 },
};

#define SPEED(op_, build_)                                                                \
    {                                                                                     \
        .op = op_, .name = "32 x 28 x 28 x 32, 2 x 2", .build = build_, .user = &two,     \
        .in = { F32_OF(32, 28, 28, 32) }, .in_count = 1, .bytes = 5.0 * 32 * 28 * 28 * 32 \
    }
static const struct copse_case speeds[] = {
    SPEED("max_pool", build_max),
    SPEED("average_pool", build_average),
};

static void pool_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5, 6, 4));
    copse_tensor *line = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 300, 4));
    copse_tensor *i = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 5, 6, 4));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4));
#define P(...) &(struct copse_pool_params){ __VA_ARGS__ }
    REFUSES(r, SHAPE,
            "max_pool: operand f32[2, 5, 6, 4]: expected a window of at most 5 elements, the "
            "padded size of x; it spans 6",
            copse_max_pool(g, x, P(.window = { 6, 2 })));
    REFUSES(r, SHAPE, "it spans 7",
            copse_average_pool(g, x, P(.window = { 2, 4 }, .dilation = { 1, 2 })));
    REFUSES(r, SHAPE, "expected an f32 operand", copse_max_pool(g, i, &two));
    REFUSES(r, SHAPE, "of rank 3 or 4", copse_average_pool(g, v, &two));
    REFUSES(r, SHAPE, "expected windows that overlap less",
            copse_max_pool(g, line, P(.window = { 256 }, .stride = { 1 })));
    REFUSES(r, ARGUMENT, "max_pool: operand 0 is NULL", copse_max_pool(g, NULL, &two));
    REFUSES(r, ARGUMENT, "1 to 256 elements along an axis, 8192 together",
            copse_max_pool(g, x, P(.window = { 2, 0 })));
    REFUSES(r, ARGUMENT, "1 to 256 elements", copse_max_pool(g, x, P(.window = { 257, 1 })));
    REFUSES(r, ARGUMENT, "8192 together", copse_average_pool(g, x, P(.window = { 128, 65 })));
    REFUSES(r, ARGUMENT, "stride 65536",
            copse_max_pool(g, x, P(.window = { 2, 2 }, .stride = { 65536 })));
    REFUSES(r, ARGUMENT, "dilation 65536",
            copse_max_pool(g, x, P(.window = { 2, 2 }, .dilation = { 65536 })));
    REFUSES(r, ARGUMENT, "padding of 2 and 0 for a window that spans 2",
            copse_max_pool(g, x, P(.window = { 2, 2 }, .before = { 2 })));
    REFUSES(r, ARGUMENT, "padding of 0 and 3",
            copse_average_pool(g, x, P(.window = { 2, 3 }, .after = { 0, 3 })));
    REFUSES(
        r, ARGUMENT, "before and after must be 0",
        copse_max_pool(g, x, P(.window = { 2, 2 }, .padding = COPSE_PADDING_SAME, .after = { 1 })));
    REFUSES(r, ARGUMENT, "7 is no padding",
            copse_max_pool(g, x, P(.window = { 2, 2 }, .padding = (copse_padding)7)));
#undef P
}

#define CASE(op_, label, build_, x, window_, ...)                                    \
    {                                                                                \
        .op = op_, .name = label, .build = build_,                                   \
        .user = &(const struct copse_pool_params)UNWRAP window_, .in = { UNWRAP x }, \
        .in_count = 1, __VA_ARGS__                                                   \
    }
#define MEANS .forward = { .ulp = 3, .ratio = 4 }, .backward = { .ulp = 6, .ratio = 4 }
/* Whole numbers: with ties; normal ones: derivatives by differences. */
#define ROW(label, dims, window_, ...)                                                         \
    CASE("max_pool", label, build_max, WHOLE(-4, 4, UNWRAP dims), ({ UNWRAP window_ }),        \
         .skips_differences = true, __VA_ARGS__),                                              \
        CASE("max_pool", label ", positive numbers", build_max, UNIFORM(0.5, 9, UNWRAP dims),  \
             ({ UNWRAP window_ }), .backward = { .ratio = 4 }, __VA_ARGS__),                   \
        CASE("average_pool", label, build_average, FILL(NORMAL, UNWRAP dims),                  \
             ({ UNWRAP window_ }), MEANS, __VA_ARGS__),                                        \
        CASE("average_pool", label ", with padding", build_average, FILL(NORMAL, UNWRAP dims), \
             ({ .counts_padding = true, UNWRAP window_ }), MEANS, __VA_ARGS__)

static const double ties[] = { 2, 1, 2, 3, 3, 0, 3, 3, 1 };
static const double numbers[] = { 1, 2, 3, 4 };
static const double ties_want[] = { 0, 0, 0, 4, 6, 0, 0, 0, 0 };
static const double max_want[] = { 3, 3, 3, 3 };
static const double mean_want[] = { 2, 1.5, 3, 1.75 };
static const double padded_want[] = { 0.5, 0.75, 1.5, 1.75 };
static const double special[] = { NAN, 1, -INFINITY, -INFINITY, INFINITY, 2, NAN, NAN };

static const struct copse_case cases[] = {
    ROW("2 x 2", (DIMS(3, 6, 8, 5)), (.window = { 2, 2 }), QUICK),
    ROW("3 x 2, all settings", (DIMS(2, 9, 8, 3)),
        (.window = { 3, 2 }, .stride = { 2, 1 }, .dilation = { 1, 2 }, .before = { 1, 0 },
         .after = { 2, 1 }),
        QUICK),
    ROW("3 x 3, same, stride 2", (DIMS(2, 7, 6, 3)),
        (.window = { 3, 3 }, .stride = { 2, 2 }, .padding = COPSE_PADDING_SAME), STANDARD),
    ROW("one element", (DIMS(1, 1, 1, 1)), (.window = { 1, 1 }), STANDARD),
    ROW("the whole image", (DIMS(3, 4, 5, 2)), (.window = { 4, 5 }), STANDARD),
    ROW("elements between windows", (DIMS(2, 9, 9, 2)), (.window = { 2, 2 }, .stride = { 3, 4 }),
        STANDARD),
    ROW("elements after the last window", (DIMS(2, 5, 7, 2)), (.window = { 3, 2 }), STANDARD),
    ROW("a window larger than the image", (DIMS(2, 2, 3, 2)),
        (.window = { 5, 4 }, .padding = COPSE_PADDING_SAME), STANDARD),
    ROW("sequence", (DIMS(3, 20, 4)), (.window = { 3 }, .stride = { 2 }, .before = { 1 }),
        STANDARD),
    ROW("a window of 256", (DIMS(2, 513, 3)), (.window = { 256 }), .is_poor = true, STANDARD),
    CASE("average_pool", "16 x 16", build_average, FILL(NORMAL, DIMS(1, 33, 32, 2)),
         ({ .window = { 16, 16 }, .stride = { 4, 8 } }), MEANS, STANDARD),
    CASE("max_pool", "no images", build_max, FILL(NORMAL, DIMS(0, 4, 4, 3)),
         ({ .window = { 2, 2 } }), .is_poor = true, STANDARD),
    CASE("average_pool", "no images", build_average, FILL(NORMAL, DIMS(0, 4, 4, 3)),
         ({ .window = { 2, 2 } }), MEANS, .is_poor = true, STANDARD),
    CASE("max_pool", "windows outside of x: -Inf", build_max, FILL(NORMAL, DIMS(1, 1, 1, 3)),
         ({ .window = { 2, 2 },
            .stride = { 1, 1 },
            .dilation = { 3, 3 },
            .before = { 2, 2 },
            .after = { 2, 2 } }),
         .is_poor = true, .has_no_gradient = true, STANDARD),
    CASE("average_pool", "windows outside of x: 0", build_average, FILL(NORMAL, DIMS(1, 1, 1, 3)),
         ({ .window = { 2, 2 },
            .stride = { 1, 1 },
            .dilation = { 3, 3 },
            .before = { 2, 2 },
            .after = { 2, 2 } }),
         MEANS, .is_poor = true, STANDARD),
    CASE("max_pool", "NaN and infinities", build_max, VALUES(special, DIMS(2, 4, 4, 1)),
         ({ .window = { 2, 2 } }), .has_no_gradient = true, .is_poor = true, STANDARD),
    CASE("max_pool", "stated result", build_max, VALUES(ties, DIMS(1, 3, 3, 1)),
         ({ .window = { 2, 2 }, .stride = { 1, 1 } }), .skips_differences = true, .want = max_want,
         .is_poor = true, QUICK),
    { .op = "max_pool",
      .name = "stated gradient: the first of equal elements",
      .build = build_ties,
      .user = &(const struct copse_pool_params){ .window = { 2, 2 }, .stride = { 1, 1 } },
      TWO_INPUTS(VALUES(ties, DIMS(1, 3, 3, 1)), VALUES(numbers, DIMS(1, 2, 2, 1))),
      .has_no_gradient = true,
      .want = ties_want,
      .is_poor = true,
      QUICK },
    CASE("average_pool", "stated result", build_average, VALUES(ties, DIMS(1, 3, 3, 1)),
         ({ .window = { 2, 2 }, .before = { 1, 1 } }), MEANS, .want = mean_want, QUICK),
    CASE("average_pool", "stated result, with padding", build_average,
         VALUES(ties, DIMS(1, 3, 3, 1)),
         ({ .window = { 2, 2 }, .before = { 1, 1 }, .counts_padding = true }), MEANS,
         .want = padded_want, QUICK),
};

COPSE_CASE_TABLE(pool, OPS, SPEEDS, .refusals = pool_refusals)
