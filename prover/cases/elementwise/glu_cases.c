/* SPDX-License-Identifier: MIT */
/* Cases of gated units. */
#include <math.h>

#include "copse/ops/gated.h"
#include "prover/cases/cases.h"

struct settings {
    copse_activation activation;
    bool is_packed;
};

static copse_tensor *glu_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct settings *s = user;
    return copse_glu(g, in[0], s->is_packed ? NULL : in[1], s->activation);
}

static const struct settings silu = { COPSE_SILU, true }, gelu = { COPSE_GELU, true },
                             sigmoid = { COPSE_SIGMOID, true }, relu = { COPSE_RELU, true },
                             hyperbolic = { COPSE_TANH, true }, linear = { COPSE_LINEAR, true },
                             two_silu = { COPSE_SILU, false }, two_gelu = { COPSE_GELU, false },
                             two_linear = { COPSE_LINEAR, false }, two_relu = { COPSE_RELU, false };

static copse_tensor *random_glu(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *v = copse_tanh(g, in[0]);
    return copse_glu(g, in[0], v, COPSE_SILU);
}

static const struct copse_case_op ops[] = {
    { .name = "glu",
      .accuracy = COPSE_ACCURACY_gated,
      .divides = true,
      .call = glu_build,
      .user = &silu,
      .in = { F32_OF(2, 6) },
      .in_count = 1,
      .random = random_glu },
};

static const struct copse_case speeds[] = {
    { .op = "glu",
      .name = "silu, 2048 x 2048",
      .build = glu_build,
      .user = &silu,
      .in = { F32_OF(SIDE, 2 * SIDE) },
      .in_count = 1,
      .family = "glu",
      .bytes = 3 * MATRIX },
};

static void glu_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 6));
    copse_tensor *odd = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 5));
    copse_tensor *one = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(2, 6));
    REFUSES(r, SHAPE, "glu: operand f32[2, 5]: expected f32 gates and values [.., 2 n]",
            copse_glu(g, odd, NULL, COPSE_SILU));
    REFUSES(r, SHAPE, "expected f32 gates and values [.., 2 n]",
            copse_glu(g, one, NULL, COPSE_SILU));
    REFUSES(r, SHAPE, "expected f32 gates and values [.., 2 n]", copse_glu(g, n, NULL, COPSE_SILU));
    REFUSES(r, SHAPE,
            "glu: operands f32[2, 6] and f32[2, 5]: expected f32 gates and values of one shape",
            copse_glu(g, x, odd, COPSE_SILU));
    REFUSES(r, SHAPE, "of one shape", copse_glu(g, x, n, COPSE_SILU));
    REFUSES(r, ARGUMENT, "glu: 6 is no activation", copse_glu(g, x, x, (copse_activation)6));
    REFUSES(r, ARGUMENT, "glu: -1 is no activation", copse_glu(g, x, x, (copse_activation)-1));
}

/* ULPs: those of the function, 1 or 2 for products. The floor: silu and gelu have derivatives with
   a zero. */
#define PACKED(label, settings, forward_ulp, backward_ulp, floor_, input, ...)                   \
    {                                                                                            \
        .op = "glu", .name = label, .build = glu_build, .user = settings, ONE_INPUT(input),      \
        .forward = { .ulp = forward_ulp }, .backward = { .ulp = backward_ulp, .floor = floor_ }, \
        .family = "glu", __VA_ARGS__                                                             \
    }
#define TWO(label, settings, forward_ulp, backward_ulp, floor_, dims, ...)                     \
    {                                                                                          \
        .op = "glu", .name = label, .build = glu_build, .user = settings,                      \
        TWO_INPUTS(FILL(NORMAL, dims), FILL(NORMAL, dims)), .forward = { .ulp = forward_ulp }, \
        .backward = { .ulp = backward_ulp, .floor = floor_ }, .family = "glu", __VA_ARGS__     \
    }
#define NORMAL(...) FILL(NORMAL, DIMS(__VA_ARGS__))
/* No variant is launched. */
#define EMPTY(label, settings, ...)                                                             \
    {                                                                                           \
        .op = "glu", .name = label, .build = glu_build, .user = settings, __VA_ARGS__, STANDARD \
    }

#define N NAN
#define I INFINITY
static const double pairs[] = { 1, -1, 3, 5, 0, 2, -7, N, I, -I, 2, -4 };
static const double linear_want[] = { 3, -5, 0, N, I, I }, relu_want[] = { 3, 0, 0, N, I, 0 };

static const struct copse_case cases[] = {
    PACKED("stated: no function", &linear, 1, 2, 0, VALUES(pairs, DIMS(3, 4)), .want = linear_want,
           .has_no_gradient = true, .is_poor = true, QUICK),
    PACKED("stated: relu", &relu, 1, 2, 0, VALUES(pairs, DIMS(3, 4)), .want = relu_want,
           .has_no_gradient = true, .is_poor = true, QUICK),
    PACKED("silu", &silu, 6, 8, 0.25, NORMAL(5, 14), QUICK),
    PACKED("gelu", &gelu, 17, 18, 0.25, NORMAL(5, 14), QUICK),
    PACKED("sigmoid", &sigmoid, 6, 8, 0, NORMAL(5, 14), STANDARD),
    PACKED("tanh", &hyperbolic, 6, 8, 0, NORMAL(5, 14), STANDARD),
    PACKED("relu", &relu, 1, 2, 0, NORMAL(5, 14), STANDARD, .is_poor = true,
           .skips_differences = true),
    PACKED("no function", &linear, 1, 2, 0, NORMAL(5, 14), STANDARD),
    PACKED("large gates", &silu, 6, 8, 0.25, UNIFORM(-80, 80, DIMS(9, 40)), STANDARD,
           .skips_differences = true),
    PACKED("large gates of gelu", &gelu, 17, 18, 0.25, UNIFORM(-11, 11, DIMS(9, 40)), STANDARD,
           .skips_differences = true),
    PACKED("rows of one", &silu, 6, 8, 0.25, NORMAL(300, 2), STANDARD),
    PACKED("one row", &silu, 6, 8, 0.25, NORMAL(34), STANDARD),
    PACKED("rows of one vector", &silu, 6, 8, 0.25, NORMAL(7, 32), STANDARD),
    PACKED("rows of 17", &gelu, 17, 18, 0.25, NORMAL(2, 7, 34), STANDARD),
    PACKED("a row longer than an invocation of the wide kernel", &silu, 6, 8, 0.25, NORMAL(3, 4098),
           STANDARD, .skips_differences = true),
    PACKED("one row more than an invocation of the wide kernel", &silu, 6, 8, 0.25, NORMAL(65, 64),
           STANDARD, .skips_differences = true),
    EMPTY("nothing", &silu, ONE_INPUT(NORMAL(0, 6))),
    EMPTY("rows of nothing", &silu, ONE_INPUT(NORMAL(3, 0))),
    TWO("two tensors, silu", &two_silu, 6, 8, 0.25, DIMS(5, 7), QUICK),
    TWO("two tensors, gelu", &two_gelu, 17, 18, 0.25, DIMS(3, 4, 19), STANDARD),
    TWO("two tensors, relu", &two_relu, 1, 2, 0, DIMS(3, 19), STANDARD, .is_poor = true,
        .skips_differences = true),
    TWO("two tensors, no function", &two_linear, 1, 2, 0, DIMS(3, 20), STANDARD),
    TWO("two numbers", &two_silu, 6, 8, 0.25, NO_DIMS, STANDARD),
    EMPTY("two tensors of nothing", &two_silu, TWO_INPUTS(NORMAL(0, 4), NORMAL(0, 4))),
};

COPSE_CASE_TABLE(glu, OPS, SPEEDS, .refusals = glu_refusals)
