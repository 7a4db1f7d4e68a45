/* SPDX-License-Identifier: MIT */
/* Cases of convolutions, with every variant of the kernels of the result and of the gradient of the
   weights. Stated results show strides, padding and groups, which device and reference get as the
   same parameters. Whole numbers give exact results in any order of summation. */
#include <math.h>

#include "copse/ops/precision.h"
#include "core/ops/conv/conv.h"
#include "prover/cases/cases.h"

struct layer {
    bool has_bias;
    struct copse_conv_params params;
};

static copse_tensor *conv_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct layer *l = user;
    return copse_conv(g, in[0], in[1], l->has_bias ? in[2] : NULL, &l->params);
}

static copse_tensor *build_transposed(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct layer *l = user;
    return copse_conv_transposed(g, in[0], in[1], l->has_bias ? in[2] : NULL, &l->params);
}

/* The derivatives by x and w of a convolution without a bias, from the slope in[2]: their own
   derivatives are the second ones. */
static copse_tensor *slopes_of(copse_graph *g, copse_tensor *y, copse_tensor *const *in)
{
    copse_tensor *dx[2];
    copse_gradients(g, y, in[2], in, 2, dx);
    for (uint32_t i = 0; i < 2; i++)
        dx[i] = copse_reshape(g, dx[i], COPSE_SHAPE((uint32_t)copse__elements(in[i]->shape)));
    return copse_concat(g, dx, 2, 0);
}

static copse_tensor *build_slopes(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return slopes_of(g, conv_build(g, in, user), in);
}

static copse_tensor *build_slopes_transposed(copse_graph *g, copse_tensor *const *in,
                                             const void *user)
{
    return slopes_of(g, build_transposed(g, in, user), in);
}

static copse_tensor *build_f16(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_set_precision(g, COPSE_F16);
    copse_tensor *y = conv_build(g, in, user);
    copse_set_precision(g, COPSE_F32);
    return y;
}

static copse_tensor *build_transposed_bf16(copse_graph *g, copse_tensor *const *in,
                                           const void *user)
{
    copse_set_precision(g, COPSE_BF16);
    copse_tensor *y = build_transposed(g, in, user);
    copse_set_precision(g, COPSE_F32);
    return y;
}

static const struct layer bare = { false, { .padding = COPSE_PADDING_SAME } };
static const struct copse_case_op ops[] = {
    { .name = "conv",
      .accuracy = COPSE_ACCURACY_product,
      .divides = true,
      .call = conv_build,
      .user = &bare,
      .in = { F32_OF(2, 2, 2, 2), F32_OF(2, 2, 2, 2) },
      .in_count = 2 },
    { .name = "conv_transposed",
      .accuracy = COPSE_ACCURACY_product,
      .divides = true,
      .call = build_transposed,
      .user = &bare,
      .in = { F32_OF(2, 2, 2, 2), F32_OF(2, 2, 2, 2) },
      .in_count = 2 },
};

/* n x size x size x in to `out` channels, 3 x 3, SAME. */
#define SPEED(label, n, size, in_, out, ...)                                                  \
    {                                                                                         \
        .op = "conv", .name = label, .build = conv_build, .user = &bare,                      \
        .in = { F32_OF(n, size, size, in_), F32_OF(3, 3, in_, out) }, .in_count = 2,          \
        .family = "conv", .flops = 2.0 * (n) * (size) * (size)*9 * (in_) * (out), __VA_ARGS__ \
    }
/* The gradient of the weights, 3 x 3, SAME, from x and dy. */
static copse_tensor *build_weights(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const copse_shape x = in[0]->shape, dy = in[1]->shape;
    const struct copse_conv_geometry of = { x.dims[0],
                                            x.dims[3],
                                            dy.dims[3],
                                            1,
                                            { x.dims[1], x.dims[1], 3, 1, 1, 1, -1 },
                                            { x.dims[2], x.dims[2], 3, 1, 1, 1, -1 } };
    (void)user;
    return copse__conv_weight(g, &of, COPSE_SHAPE(3, 3, x.dims[3], dy.dims[3]), in[0], in[1]);
}

#define SPEED_OF_WEIGHTS(label, n, size, in_, out, ...)                                           \
    {                                                                                             \
        .op = "conv", .name = "weights, " label, .build = build_weights, .family = "conv_weight", \
        .in = { F32_OF(n, size, size, in_), F32_OF(n, size, size, out) }, .in_count = 2,          \
        .flops = 2.0 * (n) * (size) * (size)*9 * (in_) * (out), __VA_ARGS__                       \
    }
static const struct copse_case speeds[] = {
    SPEED("8 x 28 x 28, 3 x 3, 32 to 64", 8, 28, 32, 64, QUICK),
    SPEED("32 x 28 x 28, 3 x 3, 1 to 32", 32, 28, 1, 32, STANDARD),
    SPEED("32 x 32 x 32, 3 x 3, 16 to 16", 32, 32, 16, 16, STANDARD),
    SPEED("16 x 8 x 8, 3 x 3, 256 to 256", 16, 8, 256, 256, STANDARD),
    SPEED_OF_WEIGHTS("8 x 28 x 28, 3 x 3, 32 to 64", 8, 28, 32, 64, QUICK),
    SPEED_OF_WEIGHTS("32 x 28 x 28, 3 x 3, 1 to 32", 32, 28, 1, 32, STANDARD),
    SPEED_OF_WEIGHTS("32 x 32 x 32, 3 x 3, 16 to 16", 32, 32, 16, 16, STANDARD),
    SPEED_OF_WEIGHTS("16 x 8 x 8, 3 x 3, 256 to 256", 16, 8, 256, 256, STANDARD),
};

static const struct layer sequence_same = { false,
                                            { .padding = COPSE_PADDING_SAME, .stride = { 3 } } };
static const struct copse_case stress[] = {
    { .op = "conv",
      .name = "weights from 70,001 pixels",
      .build = conv_build,
      .user = &bare,
      TWO_INPUTS(WHOLE(-1, 1, DIMS(1, 70001, 2)), WHOLE(-1, 1, DIMS(3, 2, 3))),
      .family = "conv_weight" },
    { .op = "conv",
      .name = "sums of 66,000 terms",
      .build = conv_build,
      .user = &sequence_same,
      TWO_INPUTS(WHOLE(-1, 1, DIMS(1, 1, 66000)), WHOLE(-1, 1, DIMS(2, 66000, 2))),
      .family = "conv" },
};

static void conv_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5, 6, 4));
    copse_tensor *w = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 3, 4, 6));
    copse_tensor *half = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 3, 2, 6));
    copse_tensor *large = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6, 6, 4, 6));
    copse_tensor *none = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 0, 4, 6));
    copse_tensor *many = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 4097, 4, 1));
    copse_tensor *line = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 9, 4));
    copse_tensor *far = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 20000, 4));
    copse_tensor *tap = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(1, 4, 1));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4));
    copse_tensor *i = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 5, 6, 4));
#define P(...) &(struct copse_conv_params){ __VA_ARGS__ }
    REFUSES(r, SHAPE,
            "conv: operands f32[2, 5, 6, 4] and f32[6, 6, 4, 6]: expected a window of at most 5 "
            "elements",
            copse_conv(g, x, large, NULL, NULL));
    REFUSES(r, SHAPE, "a window of at most 6 elements, the padded size of x; it spans 7",
            copse_conv(g, x, w, NULL, P(.dilation = { 1, 3 })));
    REFUSES(r, SHAPE, "expected f32 operands", copse_conv(g, i, w, NULL, NULL));
    REFUSES(r, SHAPE, "of rank 4, or both of rank 3", copse_conv(g, line, w, NULL, NULL));
    REFUSES(r, SHAPE, "of rank 4, or both of rank 3", copse_conv(g, v, v, NULL, NULL));
    REFUSES(r, SHAPE, "1 groups to divide the channels", copse_conv(g, x, half, NULL, NULL));
    REFUSES(r, SHAPE, "3 groups to divide the channels",
            copse_conv(g, x, half, NULL, P(.groups = 3)));
    REFUSES(r, SHAPE, "4 groups to divide the channels",
            copse_conv(g, x, half, NULL, P(.groups = 4)));
    REFUSES(r, SHAPE, "a bias of 6 elements", copse_conv(g, x, w, v, NULL));
    REFUSES(r, SHAPE, "1 to 8192 taps",
            copse_conv(g, x, none, NULL, P(.padding = COPSE_PADDING_SAME)));
    REFUSES(r, SHAPE, "1 to 8192 taps",
            copse_conv(g, x, many, NULL, P(.padding = COPSE_PADDING_SAME)));
    REFUSES(r, SHAPE, "expected less padding than the 7 positions",
            copse_conv_transposed(g, x, w, NULL, P(.before = { 4 }, .after = { 3 })));
    REFUSES(r, SHAPE, "with axes of at most 1073741824",
            copse_conv_transposed(g, far, tap, NULL, P(.stride = { 65535 })));
    REFUSES(r, ARGUMENT, "conv: operand 1", copse_conv(g, x, NULL, NULL, NULL));
    REFUSES(r, ARGUMENT, "conv", copse_conv(g, x, w, r->other, NULL));
    REFUSES(r, ARGUMENT, "stride 65536 is not at most 65535",
            copse_conv(g, x, w, NULL, P(.stride = { 65536 })));
    REFUSES(r, ARGUMENT, "dilation 65536", copse_conv(g, x, w, NULL, P(.dilation = { 1, 65536 })));
    REFUSES(r, ARGUMENT, "padding 70000", copse_conv(g, x, w, NULL, P(.before = { 70000 })));
    REFUSES(r, ARGUMENT, "padding 70000", copse_conv(g, x, w, NULL, P(.after = { 0, 70000 })));
    REFUSES(r, ARGUMENT, "9 is no activation",
            copse_conv(g, x, w, NULL, P(.activation = (copse_activation)9)));
    REFUSES(r, ARGUMENT, "7 is no padding",
            copse_conv(g, x, w, NULL, P(.padding = (copse_padding)7)));
    REFUSES(r, ARGUMENT, "before, after and extra must be 0",
            copse_conv(g, x, w, NULL, P(.padding = COPSE_PADDING_SAME, .after = { 1 })));
    REFUSES(r, ARGUMENT, "extra 1: only copse_conv_transposed",
            copse_conv(g, x, w, NULL, P(.extra = { 1 })));
    REFUSES(r, ARGUMENT, "conv_transposed: extra 2 is not less than stride or dilation",
            copse_conv_transposed(g, x, w, NULL, P(.extra = { 2 }, .stride = { 2, 2 })));
#undef P
}

#define CASE(op_, label, build_, layer_, x, w, b, ...)                                         \
    {                                                                                          \
        .op = op_, .name = label, .build = build_, .user = &(const struct layer)UNWRAP layer_, \
        .in = { UNWRAP x, UNWRAP w, UNWRAP b }, __VA_ARGS__                                    \
    }
#define LAYER(bias, ...) ({ bias, { __VA_ARGS__ } })
#define ONES(...)        WHOLE(-2, 2, __VA_ARGS__)
#define EXACT            .skips_differences = true
#define WITHIN           .forward = { .ratio = 16 }, .backward = { .ratio = 16 }
#define PLAIN            .in_count = 2, .family = "conv"
#define BIASED           .in_count = 3, .family = "conv"
/* With the variants of the gradient of the weights. */
#define WEIGHT .in_count = 2, .family = "conv_weight", .family_is_of_gradient = true

/* A geometry: forward and transposed, with each family. */
#define ROW(label, x, w, layer_, ...)                                                             \
    CASE("conv", label, conv_build, layer_, ONES(UNWRAP x), ONES(UNWRAP w), ONES(DIMS(1)), EXACT, \
         PLAIN, __VA_ARGS__),                                                                     \
        CASE("conv", label ", weights", conv_build, layer_, ONES(UNWRAP x), ONES(UNWRAP w),       \
             ONES(DIMS(1)), EXACT, WEIGHT, __VA_ARGS__)
#define TRANSPOSED(label, x, w, layer_, ...)                                                 \
    CASE("conv_transposed", label, build_transposed, layer_, ONES(UNWRAP x), ONES(UNWRAP w), \
         ONES(DIMS(1)), EXACT, PLAIN, __VA_ARGS__),                                          \
        CASE("conv_transposed", label ", weights", build_transposed, layer_, ONES(UNWRAP x), \
             ONES(UNWRAP w), ONES(DIMS(1)), EXACT, WEIGHT, __VA_ARGS__)

/* Second derivatives: x, w and the slope, whole numbers that central differences may vary. */
#define TWICE(op_, label, build_, x, w, slope, layer_, ...)                                 \
    CASE(op_, "second derivatives, " label, build_, layer_, VALUES(conv_x, DIMS(UNWRAP x)), \
         VALUES(conv_w, DIMS(UNWRAP w)), VALUES(conv_x, DIMS(UNWRAP slope)),                \
         .backward = { .ratio = 16 }, .in_count = 3, .family = "conv", __VA_ARGS__)

/* Results or gradients without a sum need no variant. */
#define EMPTY(op_, build_, label, layer_, x, w)                                            \
    CASE(op_, label, build_, layer_, ONES(UNWRAP x), ONES(UNWRAP w), ONES(DIMS(1)), EXACT, \
         .in_count = 2, .is_poor = true, STANDARD)

#include "core/ops/conv/conv_wanted.h"

#define WANTED(number, op_, build_, layer_, ...)                                    \
    CASE(op_, "stated result " #number, build_, layer_,                             \
         VALUES(conv_x, DIMS(UNWRAP CONV_X_##number)),                              \
         VALUES(conv_w, DIMS(UNWRAP CONV_W_##number)), ONES(DIMS(1)), EXACT, PLAIN, \
         .backward = { .ratio = 16 }, .want = conv_wanted_##number, __VA_ARGS__)

static const double one[] = { 1 };
/* Sums whose roundings all go the same way, of any numbers: `k` terms. */
#define ANY(label, k, layer_, x, w, ...)                                          \
    CASE("conv", label ", k " #k, conv_build, layer_, x, w, ONES(DIMS(1)), PLAIN, \
         .has_no_gradient = true, .terms = k, __VA_ARGS__)
static const double outputs[] = { 1.1,  1.2,  1.3,  1.4,  1.5,  1.6,  1.7,  1.8, 1.9,
                                  1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08 };

static const double nan_first[] = { NAN, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* One of 17 weights: two or three taps and channels of each output. */
static const double some_infinite[] = {
    INFINITY, 1, -2, 3, 2, 1, -1, 2, 3, -3, 1, 2, 4, 1, 2, 1, 1
};

static const struct copse_case cases[] = {
    TWICE("conv", "3 x 3", build_slopes, (2, 5, 6, 3), (3, 3, 3, 17), (2, 3, 4, 17),
          LAYER(false, .groups = 1), QUICK),
    TWICE("conv", "all settings", build_slopes, (2, 9, 8, 6), (3, 2, 3, 4), (2, 4, 7, 4),
          LAYER(false, .groups = 2, .stride = { 2, 1 }, .dilation = { 1, 2 }, .before = { 1, 0 },
                .after = { 0, 1 }),
          STANDARD),
    TWICE("conv_transposed", "stride 2", build_slopes_transposed, (2, 3, 4, 4), (2, 2, 4, 6),
          (2, 6, 8, 6), LAYER(false, .stride = { 2, 2 }), STANDARD),
    CASE("conv", "5 x 7, bias, relu", conv_build,
         LAYER(true, .padding = COPSE_PADDING_SAME, .activation = COPSE_RELU),
         ONES(DIMS(3, 5, 7, 3)), ONES(DIMS(3, 3, 3, 17)), ONES(DIMS(17)), EXACT, BIASED, QUICK),
    CASE("conv", "precision f16", build_f16,
         LAYER(true, .padding = COPSE_PADDING_SAME, .stride = { 1, 2 }), ONES(DIMS(2, 5, 7, 4)),
         ONES(DIMS(3, 3, 4, 17)), ONES(DIMS(17)), EXACT, BIASED, QUICK),
    CASE("conv", "precision f16, weights", build_f16, LAYER(false, .padding = COPSE_PADDING_SAME),
         ONES(DIMS(2, 5, 7, 4)), ONES(DIMS(3, 3, 4, 17)), ONES(DIMS(1)), EXACT, WEIGHT, STANDARD),
    CASE("conv_transposed", "precision bf16", build_transposed_bf16,
         LAYER(false, .stride = { 2, 2 }), ONES(DIMS(2, 3, 4, 4)), ONES(DIMS(2, 2, 4, 6)),
         ONES(DIMS(1)), EXACT, PLAIN, STANDARD),
    ROW("all settings", (DIMS(2, 9, 8, 6)), (DIMS(3, 2, 3, 4)),
        LAYER(false, .stride = { 2, 1 }, .dilation = { 1, 3 }, .before = { 1, 0 },
              .after = { 0, 2 }, .groups = 2),
        QUICK),
    TRANSPOSED("all settings", (DIMS(2, 4, 5, 4)), (DIMS(3, 2, 2, 6)),
               LAYER(false, .stride = { 2, 3 }, .dilation = { 1, 2 }, .before = { 1, 0 },
                     .after = { 0, 2 }, .extra = { 1, 2 }, .groups = 2),
               QUICK),
    WANTED(1, "conv", conv_build,
           LAYER(false, .stride = { 2, 1 }, .before = { 1, 0 }, .after = { 0, 2 }), QUICK),
    WANTED(2, "conv", conv_build, LAYER(false, .padding = COPSE_PADDING_SAME, .stride = { 1, 2 }),
           STANDARD),
    WANTED(3, "conv", conv_build, LAYER(false, .groups = 2, .dilation = { 2, 1 }), STANDARD),
    WANTED(4, "conv_transposed", build_transposed,
           LAYER(false, .stride = { 2, 2 }, .before = { 1, 0 }, .after = { 0, 1 },
                 .extra = { 0, 1 }),
           QUICK),
    WANTED(5, "conv_transposed", build_transposed,
           LAYER(false, .padding = COPSE_PADDING_SAME, .stride = { 2, 3 }), STANDARD),
    WANTED(6, "conv", conv_build,
           LAYER(false, .padding = COPSE_PADDING_SAME, .stride = { 2 }, .dilation = { 2 }),
           STANDARD),

    CASE("conv", "normal numbers", conv_build, LAYER(true, .before = { 1, 1 }, .after = { 1, 1 }),
         FILL(NORMAL, DIMS(2, 6, 5, 35)), FILL(NORMAL, DIMS(3, 3, 35, 18)), FILL(NORMAL, DIMS(18)),
         WITHIN, BIASED, .skips_differences = true, QUICK),
    CASE("conv", "normal numbers, weights", conv_build, LAYER(false, .padding = COPSE_PADDING_SAME),
         FILL(NORMAL, DIMS(3, 13, 11, 5)), FILL(NORMAL, DIMS(3, 3, 5, 18)), ONES(DIMS(1)), WITHIN,
         WEIGHT, .skips_differences = true, QUICK),
    CASE("conv", "derivatives by differences", conv_build,
         LAYER(false, .stride = { 2, 1 }, .before = { 1, 2 }, .after = { 1, 0 }),
         UNIFORM(-1, 1, DIMS(2, 5, 4, 3)), UNIFORM(-1, 1, DIMS(3, 2, 3, 5)), ONES(DIMS(1)), WITHIN,
         PLAIN, STANDARD),
    CASE("conv_transposed", "derivatives by differences", build_transposed,
         LAYER(false, .stride = { 2, 1 }, .before = { 1, 0 }), UNIFORM(-1, 1, DIMS(2, 3, 4, 3)),
         UNIFORM(-1, 1, DIMS(3, 2, 3, 5)), ONES(DIMS(1)), WITHIN, PLAIN, STANDARD),
    CASE("conv", "positive numbers, 600 channels", conv_build, LAYER(false, .groups = 1),
         FILL(POSITIVE, DIMS(2, 4, 3, 600)), FILL(POSITIVE, DIMS(3, 3, 600, 20)), ONES(DIMS(1)),
         WITHIN, PLAIN, .has_no_gradient = true, STANDARD),
    CASE("conv", "positive numbers, 4,900 pixels", conv_build, LAYER(false, .groups = 1),
         FILL(POSITIVE, DIMS(4, 35, 35, 2)), FILL(POSITIVE, DIMS(1, 1, 2, 3)), ONES(DIMS(1)),
         WITHIN, WEIGHT, .skips_differences = true, STANDARD),
    CASE("conv", "magnitudes from 2^-60 to 2^60", conv_build,
         LAYER(false, .padding = COPSE_PADDING_SAME), SPREAD(-60, 60, DIMS(1, 5, 5, 7)),
         SPREAD(-60, 60, DIMS(3, 3, 7, 18)), ONES(DIMS(1)), WITHIN, PLAIN,
         .skips_differences = true, STANDARD),
    CASE("conv", "NaN stays in its windows", conv_build,
         LAYER(false, .padding = COPSE_PADDING_SAME), VALUES(nan_first, DIMS(1, 4, 4, 1)),
         FILL(POSITIVE, DIMS(3, 3, 1, 17)), ONES(DIMS(1)), WITHIN, PLAIN, .has_no_gradient = true,
         STANDARD),
    CASE("conv", "NaN of taps outside", conv_build, LAYER(false, .before = { 1, 1 }),
         FILL(POSITIVE, DIMS(1, 2, 2, 1)), VALUES(nan_first, DIMS(2, 2, 1, 17)), ONES(DIMS(1)),
         WITHIN, PLAIN, .has_no_gradient = true, STANDARD),

    CASE("conv", "infinity of taps outside, many pixels", conv_build,
         LAYER(true, .padding = COPSE_PADDING_SAME), FILL(POSITIVE, DIMS(2, 9, 9, 4)),
         VALUES(some_infinite, DIMS(3, 3, 4, 12)), FILL(POSITIVE, DIMS(12)), WITHIN, BIASED,
         .has_no_gradient = true, .is_poor = true, STANDARD),

    ROW("one element", (DIMS(1, 1, 1, 1)), (DIMS(1, 1, 1, 1)), LAYER(false, .groups = 1), STANDARD),
    ROW("1 x 1", (DIMS(2, 3, 4, 5)), (DIMS(1, 1, 5, 7)), LAYER(false, .groups = 1), STANDARD),
    ROW("1 x 1, stride 2", (DIMS(2, 5, 4, 5)), (DIMS(1, 1, 5, 7)), LAYER(false, .stride = { 2, 2 }),
        STANDARD),
    ROW("the whole image", (DIMS(3, 4, 5, 2)), (DIMS(4, 5, 2, 3)), LAYER(false, .groups = 1),
        STANDARD),
    ROW("a kernel larger than the image", (DIMS(2, 2, 3, 2)), (DIMS(5, 5, 2, 3)),
        LAYER(false, .padding = COPSE_PADDING_SAME), STANDARD),
    ROW("windows outside of the image", (DIMS(1, 2, 2, 2)), (DIMS(2, 2, 2, 3)),
        LAYER(false, .before = { 4, 3 }, .after = { 2, 5 }), .is_poor = true, STANDARD),
    ROW("stride larger than the kernel", (DIMS(2, 9, 9, 3)), (DIMS(2, 2, 3, 4)),
        LAYER(false, .stride = { 4, 3 }), STANDARD),
    ROW("even kernel, same", (DIMS(2, 5, 6, 3)), (DIMS(2, 4, 3, 4)),
        LAYER(false, .padding = COPSE_PADDING_SAME), STANDARD),
    ROW("same, stride 2", (DIMS(2, 7, 6, 3)), (DIMS(3, 3, 3, 4)),
        LAYER(false, .padding = COPSE_PADDING_SAME, .stride = { 2, 2 }), STANDARD),
    ROW("depthwise", (DIMS(2, 6, 5, 19)), (DIMS(3, 3, 1, 19)),
        LAYER(false, .padding = COPSE_PADDING_SAME, .groups = 19), STANDARD),
    ROW("depthwise, two outputs of a channel", (DIMS(2, 6, 5, 16)), (DIMS(3, 3, 1, 32)),
        LAYER(false, .groups = 16), STANDARD),
    ROW("two groups of 16", (DIMS(2, 6, 5, 32)), (DIMS(3, 3, 16, 32)), LAYER(false, .groups = 2),
        STANDARD),
    ROW("two groups of 8 to 12", (DIMS(2, 9, 8, 16)), (DIMS(3, 2, 8, 24)),
        LAYER(false, .stride = { 2, 1 }, .dilation = { 1, 3 }, .before = { 1, 0 },
              .after = { 0, 2 }, .groups = 2),
        STANDARD),
    ROW("three groups of 9 to 11", (DIMS(2, 6, 9, 27)), (DIMS(2, 3, 9, 33)),
        LAYER(false, .stride = { 1, 2 }, .dilation = { 2, 1 }, .before = { 1, 2 },
              .after = { 2, 0 }, .groups = 3),
        STANDARD),
    ROW("16 to 16 channels", (DIMS(3, 8, 7, 16)), (DIMS(3, 3, 16, 16)),
        LAYER(false, .padding = COPSE_PADDING_SAME), STANDARD),
    ROW("15 to 33 channels", (DIMS(3, 5, 7, 15)), (DIMS(3, 3, 15, 33)),
        LAYER(false, .padding = COPSE_PADDING_SAME), STANDARD),
    ROW("3 to 64 channels", (DIMS(2, 9, 9, 3)), (DIMS(5, 5, 3, 64)),
        LAYER(false, .stride = { 2, 2 }), STANDARD),
    ROW("64 to 65 channels", (DIMS(1, 4, 4, 64)), (DIMS(3, 3, 64, 65)),
        LAYER(false, .padding = COPSE_PADDING_SAME), STANDARD),
    ROW("260 channels", (DIMS(2, 3, 3, 260)), (DIMS(2, 2, 260, 5)), LAYER(false, .groups = 1),
        STANDARD),
    ROW("rows of 300", (DIMS(2, 3, 300, 2)), (DIMS(1, 3, 2, 3)), LAYER(false, .groups = 1),
        STANDARD),
    ROW("sequence", (DIMS(3, 20, 4)), (DIMS(5, 4, 6)),
        LAYER(false, .stride = { 2 }, .before = { 2 }, .after = { 1 }), STANDARD),
    ROW("sequence, dilation", (DIMS(3, 20, 4)), (DIMS(3, 2, 6)),
        LAYER(false, .dilation = { 4 }, .groups = 2), STANDARD),
    ANY("equal terms of each output", 144, LAYER(false, .padding = COPSE_PADDING_SAME),
        VALUES(one, DIMS(2, 4, 5, 16)), VALUES(outputs, DIMS(3, 3, 16, 17)), QUICK),
    ANY("equal terms of each output, chains of a tap", 1161,
        LAYER(false, .padding = COPSE_PADDING_SAME), VALUES(one, DIMS(1, 3, 3, 129)),
        VALUES(outputs, DIMS(3, 3, 129, 17)), STANDARD),
    ANY("equal terms of each output, one tap", 1000, LAYER(false, .groups = 1),
        VALUES(one, DIMS(1, 3, 3, 1000)), VALUES(outputs, DIMS(1, 1, 1000, 17)), STANDARD),
    ANY("equal terms of each output, many taps", 37281, LAYER(false, .groups = 1),
        VALUES(one, DIMS(1, 18, 18, 129)), VALUES(outputs, DIMS(17, 17, 129, 17)), STANDARD),
    ANY("one and numbers that it loses", 256, LAYER(false, .groups = 1),
        FILL(LOST, DIMS(2, 3, 3, 256)), VALUES(one, DIMS(1, 1, 256, 17)), STANDARD),
    EMPTY("conv", conv_build, "no images", LAYER(false, .groups = 1), (DIMS(0, 4, 4, 3)),
          (DIMS(3, 3, 3, 4))),
    EMPTY("conv", conv_build, "no outputs", LAYER(false, .groups = 1), (DIMS(2, 4, 4, 3)),
          (DIMS(3, 3, 3, 0))),
    EMPTY("conv", conv_build, "no channels: zeros", LAYER(false, .groups = 1), (DIMS(2, 4, 4, 0)),
          (DIMS(3, 3, 0, 2))),
    EMPTY("conv", conv_build, "empty images", LAYER(false, .padding = COPSE_PADDING_SAME),
          (DIMS(2, 0, 4, 3)), (DIMS(3, 3, 3, 2))),
    CASE("conv", "no channels: the bias", conv_build, LAYER(true, .activation = COPSE_RELU),
         ONES(DIMS(2, 4, 4, 0)), ONES(DIMS(3, 3, 0, 5)), ONES(DIMS(5)), EXACT, BIASED, STANDARD),
    TRANSPOSED("stride 2", (DIMS(2, 3, 4, 5)), (DIMS(2, 2, 5, 3)), LAYER(false, .stride = { 2, 2 }),
               STANDARD),
    TRANSPOSED("same, 16 channels", (DIMS(2, 3, 4, 16)), (DIMS(3, 3, 16, 16)),
               LAYER(false, .stride = { 2, 2 }, .padding = COPSE_PADDING_SAME), STANDARD),
    TRANSPOSED("two groups of 9 to 10", (DIMS(2, 4, 5, 18)), (DIMS(3, 2, 9, 20)),
               LAYER(false, .stride = { 2, 3 }, .dilation = { 1, 2 }, .before = { 1, 0 },
                     .after = { 0, 2 }, .extra = { 1, 2 }, .groups = 2),
               STANDARD),
    TRANSPOSED("stride larger than the kernel", (DIMS(2, 3, 3, 2)), (DIMS(2, 2, 2, 3)),
               LAYER(false, .stride = { 4, 3 }), .is_poor = true, STANDARD),
    TRANSPOSED("sequence", (DIMS(3, 5, 4)), (DIMS(4, 4, 3)),
               LAYER(false, .stride = { 2 }, .before = { 1 }, .after = { 1 }), STANDARD),
    EMPTY("conv_transposed", build_transposed, "no images", LAYER(false, .groups = 1),
          (DIMS(0, 4, 4, 3)), (DIMS(3, 3, 3, 4))),
    EMPTY("conv_transposed", build_transposed, "empty images", LAYER(false, .groups = 1),
          (DIMS(2, 0, 4, 3)), (DIMS(3, 3, 3, 2))),
    CASE("conv_transposed", "bias, relu", build_transposed,
         LAYER(true, .stride = { 2, 2 }, .activation = COPSE_RELU), ONES(DIMS(2, 3, 4, 3)),
         ONES(DIMS(3, 3, 3, 17)), ONES(DIMS(17)), EXACT, BIASED, STANDARD),
};

COPSE_CASE_TABLE(conv, OPS, STRESS, SPEEDS, .refusals = conv_refusals)
