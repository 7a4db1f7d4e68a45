/* SPDX-License-Identifier: MIT */
/* Cases of the functions of two tensors, from the rows of kernels/elementwise/binary.def, and of
   broadcasting. Broadcasting runs on small whole numbers: its derivatives are sums, which are then
   exact. */
#include "copse/ops/functions.h"
#include "copse/ops/logic.h"
#include "prover/cases/cases.h"

typedef copse_tensor *function(copse_graph *g, copse_tensor *a, copse_tensor *b);
struct pair {
    function *build;
};

static copse_tensor *binary_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return ((const struct pair *)user)->build(g, in[0], in[1]);
}

static copse_tensor *random_sum(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_add(g, in[0], in[1]);
}

static copse_tensor *random_product(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *t = copse_tanh(g, in[1]);
    return copse_mul(g, in[0], t);
}

static copse_tensor *random_quotient(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *t = copse_tanh(g, in[1]);
    t = copse_exp(g, t);
    return copse_div(g, in[0], t);
}

enum {
    DIVIDES_exact = false,
    DIVIDES_sum = false,
    DIVIDES_rounded = false,
    DIVIDES_quotient = true
};
#define RANDOM_sum      random_sum
#define RANDOM_rounded  random_product
#define RANDOM_quotient random_quotient
#define RANDOM_exact    NULL
#define OP(function_, class)                                                                \
    {                                                                                       \
        .name = #function_, .accuracy = COPSE_ACCURACY_##class, .divides = DIVIDES_##class, \
        .call = binary_build, .user = &(const struct pair){ copse_##function_ },            \
        .in = { F32_OF(2, 2), F32_OF(2, 2) }, .in_count = 2, .random = RANDOM_##class       \
    }
static const struct copse_case_op ops[] = {
#define BINARY(op, number, f, da, db, r, ra, rb, ulp, ulp_g, class) \
    OP(op, class)                                                   \
    ,
#define COMPARE(op, number, f) \
    OP(op, exact)              \
    ,
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
};

#define SPEED(function_)                                                             \
    {                                                                                \
        .op = #function_, .name = OF_SQUARE, .build = binary_build,                  \
        .user = &(const struct pair){ copse_##function_ }, .in = { SQUARE, SQUARE }, \
        .in_count = 2, .bytes = 3 * MATRIX                                           \
    }
static const struct copse_case speeds[] = {
    SPEED(add),
    SPEED(mul),
    SPEED(div),
    SPEED(maximum),
};

static void binary_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *m = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4, 6));
    REFUSES(r, SHAPE, "add: operands f32[4, 6] and f32[5]: expected", copse_add(g, x, v));
    REFUSES(r, SHAPE, "mul: operands f32[4, 6] and i32[4]: expected", copse_mul(g, x, n));
    REFUSES(r, SHAPE, "div", copse_div(g, x, v));
    REFUSES(r, SHAPE, "maximum", copse_maximum(g, v, x));
    REFUSES(r, SHAPE, "one element type", copse_equal(g, x, n));
    REFUSES(r, SHAPE, "one element type", copse_less(g, x, m));
    REFUSES(r, SHAPE, "equal or 1", copse_equal(g, x, v));
    REFUSES(r, ARGUMENT, "add: operand 1 is NULL", copse_add(g, x, NULL));
}

#define ROW(function_, label, a, b, ...)                                                 \
    {                                                                                    \
        .op = #function_, .name = label, .build = binary_build,                          \
        .user = &(const struct pair){ copse_##function_ }, .in = { UNWRAP a, UNWRAP b }, \
        .in_count = 2, __VA_ARGS__                                                       \
    }

/* Broadcasting with operands made by A and B; `tier_` is the tier of all but the most common
   shapes. */
#define SHAPES(op, tier_, A, B, ...)                                                               \
    ROW(op, "a row", A(DIMS(5, 70)), B(DIMS(70)), STANDARD, __VA_ARGS__),                          \
        ROW(op, "a column", A(DIMS(5, 70)), B(DIMS(5, 1)), tier_, __VA_ARGS__),                    \
        ROW(op, "a column and a row", A(DIMS(5, 1)), B(DIMS(1, 70)), tier_, __VA_ARGS__),          \
        ROW(op, "a scalar behind", A(DIMS(7, 33)), B(NO_DIMS), tier_, __VA_ARGS__),                \
        ROW(op, "a scalar in front", A(NO_DIMS), B(DIMS(7, 33)), tier_, __VA_ARGS__),              \
        ROW(op, "two scalars", A(NO_DIMS), B(NO_DIMS), tier_, __VA_ARGS__),                        \
        ROW(op, "two axes of four", A(DIMS(2, 3, 4, 5)), B(DIMS(2, 1, 4, 1)), tier_, __VA_ARGS__), \
        ROW(op, "different ranks", A(DIMS(2, 1, 4, 1)), B(DIMS(3, 1, 5)), tier_, __VA_ARGS__),     \
        ROW(op, "six axes in turn", A(DIMS(2, 1, 2, 1, 2, 1)), B(DIMS(1, 3, 1, 2, 1, 3)), tier_,   \
            __VA_ARGS__),                                                                          \
        ROW(op, "a row longer than a group", A(DIMS(3, 257)), B(DIMS(257)), tier_, __VA_ARGS__),   \
        ROW(op, "nothing and a row", A(DIMS(2, 0, 3)), B(DIMS(3)), tier_, __VA_ARGS__),            \
        ROW(op, "an axis that becomes nothing", A(DIMS(2, 1, 3)), B(DIMS(1, 0, 1)), tier_,         \
            __VA_ARGS__)

#define FEW(...)      WHOLE(-2, 2, __VA_ARGS__)
#define ANY(...)      FILL(INTEGERS, __VA_ARGS__)
#define DIVIDEND(...) UNIFORM(-4, 4, __VA_ARGS__)
#define DIVISOR(...)  UNIFORM(0.5, 4, __VA_ARGS__) /* excludes values near zero */
#define FORWARD       .has_no_gradient = true

/* Every pair of special values: 94 values, so 96 x 96 elements contain all pairs. */
#define VALUE_CASES(op, ulp_, poor)                                                                \
    ROW(op, "special values, every pair", FILL(SPECIAL, DIMS(96, 96)),                             \
        FILL(SPECIAL, DIMS(96, 96)), .forward = { .ulp = ulp_ }, FORWARD, .is_poor = poor, QUICK), \
        ROW(op, "2^16 pairs of bit patterns", FILL(PATTERNS, DIMS(65536)),                         \
            FILL(PATTERNS, DIMS(65536)), .forward = { .ulp = ulp_ }, FORWARD, .is_poor = poor,     \
            STANDARD),                                                                             \
        ROW(op, "2^20 pairs of bit patterns", FILL(PATTERNS, DIMS(1048576)),                       \
            FILL(PATTERNS, DIMS(1048576)), .forward = { .ulp = ulp_ }, FORWARD, .is_poor = poor,   \
            FULL),                                                                                 \
        ROW(op, "numbers and special values", FILL(NORMAL, DIMS(1000)), FILL(SPECIAL, DIMS(1000)), \
            .forward = { .ulp = ulp_ }, FORWARD, .is_poor = poor, STANDARD)

/* Without broadcasting nothing is summed, so the row's limits apply. */
#define BINARY(op, number, f, da, db, r, ra, rb, ulp_, ulp_g_, class)                             \
    ROW(op, "usual range", DIVIDEND(DIMS(1500)), DIVISOR(DIMS(1500)), .forward = { .ulp = ulp_ }, \
        .backward = { .ulp = ulp_g_ }, QUICK),                                                    \
        ROW(op, "magnitudes from 2^-30 to 2^30", SPREAD(-30, 30, DIMS(1500)),                     \
            SPREAD(-30, 30, DIMS(1500)), .forward = { .ulp = ulp_ },                              \
            .backward = { .ulp = ulp_g_ }, STANDARD),                                             \
        VALUE_CASES(op, ulp_, false),
#define COMPARE(op, number, f)                                                              \
    ROW(op, "whole numbers, many equal", FEW(DIMS(1500)), FEW(DIMS(1500)), .is_poor = true, \
        QUICK),                                                                             \
        VALUE_CASES(op, 0, true),                                                           \
        ROW(op, "integers: special values, every pair", I32_FILL(SPECIAL, DIMS(18, 18)),    \
            I32_FILL(SPECIAL, DIMS(18, 18)), .is_poor = true, QUICK),                       \
        ROW(op, "integers: neighbours that are one f32", I32_VALUES(neighbours, DIMS(6)),   \
            I32_VALUES(others, DIMS(6)), QUICK),                                            \
        ROW(op, "integers: a column", I32_UNIFORM(0, 3, DIMS(9, 40)),                       \
            I32_UNIFORM(0, 3, DIMS(9, 1)), STANDARD),

static const double neighbours[] = { 2147483647, 2147483646, -2147483648.0, 16777217, 5, 0 };
static const double others[] = { 2147483647, 2147483647, -2147483648.0, 16777216, 6, 0 };

static const struct copse_case cases[] = {
#include "kernels/elementwise/binary.def"
    SHAPES(add, FULL, ANY, ANY, .skips_differences = true),
    SHAPES(sub, FULL, ANY, ANY, .skips_differences = true),
    SHAPES(mul, STANDARD, ANY, ANY, .skips_differences = true),
    SHAPES(maximum, FULL, ANY, ANY, .skips_differences = true),
    SHAPES(minimum, FULL, ANY, ANY, .skips_differences = true),
    /* If both are equal, the derivative goes to the first operand. */
    ROW(maximum, "many equal", FEW(DIMS(1500)), FEW(DIMS(1500)), STANDARD),
    ROW(minimum, "many equal", FEW(DIMS(1500)), FEW(DIMS(1500)), STANDARD),
    SHAPES(prelu, STANDARD, ANY, ANY, .is_poor = true, .skips_differences = true),
    ROW(logical_and, "zeros and numbers", I32_FILL(SPECIAL, DIMS(18, 18)),
        I32_UNIFORM(0, 1, DIMS(18)), STANDARD),
    ROW(logical_xor, "zeros and numbers", WHOLE(-1, 1, DIMS(40, 9)), WHOLE(-1, 1, DIMS(9)),
        .is_poor = true, .skips_differences = true, STANDARD),
    SHAPES(equal, STANDARD, FEW, FEW, .is_poor = true, .skips_differences = true),
    SHAPES(greater_equal, FULL, FEW, FEW, .is_poor = true, .skips_differences = true),
    SHAPES(less, FULL, FEW, FEW, .is_poor = true, .skips_differences = true),
    /* Quotients are not exact: ratio R for their sums. */
    SHAPES(div, STANDARD, DIVIDEND, DIVISOR, .forward = { .ulp = 3 }, .backward = { .ratio = 8 }),
};

COPSE_CASE_TABLE(binary, OPS, SPEEDS, .refusals = binary_refusals)
