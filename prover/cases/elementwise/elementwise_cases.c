/* SPDX-License-Identifier: MIT */
/* Cases of the functions of one tensor: the same for every UNARY row of
   kernels/elementwise/unary.def, with the limits of the row. */
#include "copse/ops/functions.h"
#include "prover/cases/cases.h"

/* Slopes with a zero inside the range: errors near it are relative to the terms that cancel. */
enum {
#define UNARY(op, number, ...) NUMBER_##op = number,
#define SCALED(...)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};
#define SLOPE_FLOOR(op)                                                    \
    (NUMBER_##op == NUMBER_silu || NUMBER_##op == NUMBER_gelu ||           \
             NUMBER_##op == NUMBER_gelu_tanh || NUMBER_##op == NUMBER_mish \
         ? 0.25                                                            \
         : 0.0)

#define UNARY(op, ...)                                                                         \
    static copse_tensor *build_##op(copse_graph *g, copse_tensor *const *in, const void *user) \
    {                                                                                          \
        (void)user;                                                                            \
        return copse_##op(g, in[0]);                                                           \
    }
#define SCALED(...)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED

/* Smooth functions with moderate values for moderate operands; not those that are defined or steep
   within -1 to 1 only. */
enum {
    SMOOTH_exact = false,
    SMOOTH_rounded = true,
    SMOOTH_root = false,
    SMOOTH_rsqrt = false,
    SMOOTH_exponential = true,
    SMOOTH_logarithm = false,
    SMOOTH_sigmoid = true,
    SMOOTH_erf = true,
    SMOOTH_division = false,
};
#define UNARY(op, ...)                                                                          \
    static copse_tensor *random_##op(copse_graph *g, copse_tensor *const *in, const void *user) \
    {                                                                                           \
        copse_tensor *t;                                                                        \
        (void)user;                                                                             \
        t = copse_tanh(g, in[0]);                                                               \
        return copse_##op(g, t);                                                                \
    }
#define SCALED(...)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED

static const struct copse_case_op ops[] = {
#define UNARY(op, number, f, g, r, rg, from, to, ulp, ulp_g, class) \
    { .name = #op,                                                  \
      .accuracy = COPSE_ACCURACY_##class,                           \
      .call = build_##op,                                           \
      .in = { F32_OF(2, 2) },                                       \
      .in_count = 1,                                                \
      .random = SMOOTH_##class && (from) <= -1 ? random_##op : NULL },
#define SCALED(...)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};

static const struct copse_case speeds[] = {
#define UNARY(op_, ...)     \
    { .op = #op_,           \
      .name = OF_SQUARE,    \
      .build = build_##op_, \
      .in = { SQUARE },     \
      .in_count = 1,        \
      .bytes = 2 * MATRIX },
#define SCALED(...)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};

static void elementwise_refusals(struct copse_refusals *r)
{
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    REFUSES(r, SHAPE, "relu: operand i32[4]: expected f32", copse_relu(r->graph, n));
}

#define ROW(function, label, in_, forward_ulp, backward_ulp, ...)                        \
    {                                                                                    \
        .op = #function, .name = label, .build = build_##function, .in = { UNWRAP in_ }, \
        .in_count = 1, .forward = { .ulp = forward_ulp },                                \
        .backward = { .ulp = backward_ulp, .floor = SLOPE_FLOOR(function) }, __VA_ARGS__ \
    }

/* Groups have 256 invocations. */
#define UNARY(op, number, f, g, r, rg, from, to, ulp, ulp_g, class)                                \
    ROW(op, "usual range", UNIFORM(from, to, DIMS(5, 1001)), ulp, ulp_g, .family = "unary_grad",   \
        .family_is_of_gradient = true, QUICK),                                                     \
        ROW(op, "special values", FILL(SPECIAL, DIMS(128)), ulp, ulp_g, QUICK),                    \
        ROW(op, "2^16 bit patterns", FILL(PATTERNS, DIMS(65536)), ulp, 0, .has_no_gradient = true, \
            .family = "unary", STANDARD),                                                          \
        ROW(op, "2^20 bit patterns", FILL(PATTERNS, DIMS(1048576)), ulp, 0,                        \
            .has_no_gradient = true,                                                               \
            FULL), /* Central differences take steps that are too long so near to a pole. */       \
        ROW(op, "near zero", UNIFORM((from) < 0 ? -0.01 : 0.001, 0.01, DIMS(300)), ulp, ulp_g,     \
            .skips_differences = true, .is_poor = (from) >= 1, STANDARD),                          \
        ROW(op, "magnitudes from 2^-30 to 2^30", SPREAD(-30, 30, DIMS(4099)), ulp, ulp_g,          \
            STANDARD),                                                                             \
        ROW(op, "far tails", UNIFORM((from) < 0 ? -120 : 0.001, 120, DIMS(4099)), ulp, ulp_g,      \
            .skips_differences = true, .is_poor = NUMBER_##op == NUMBER_hard_sigmoid, STANDARD),   \
        ROW(op, "nothing", UNIFORM(from, to, DIMS(3, 0)), ulp, ulp_g, STANDARD),                   \
        ROW(op, "a scalar", UNIFORM(from, to, NO_DIMS), ulp, ulp_g, STANDARD),                     \
        ROW(op, "one element more than a group", UNIFORM(from, to, DIMS(257)), ulp, ulp_g,         \
            STANDARD),                                                                             \
        ROW(op, "one element less than a group", UNIFORM(from, to, DIMS(255)), ulp, ulp_g, FULL),  \
        ROW(op, "a whole group", UNIFORM(from, to, DIMS(256)), ulp, ulp_g, FULL),                  \
        ROW(op, "two groups and one element", UNIFORM(from, to, DIMS(513)), ulp, ulp_g, FULL),     \
        ROW(op, "six axes", UNIFORM(from, to, DIMS(2, 3, 1, 5, 1, 7)), ulp, ulp_g, FULL),
#define SCALED(...)

static const struct copse_case cases[] = {
#include "kernels/elementwise/unary.def"
};

COPSE_CASE_TABLE(elementwise, OPS, SPEEDS, .refusals = elementwise_refusals)
