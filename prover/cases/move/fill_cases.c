/* SPDX-License-Identifier: MIT */
/* Cases of fill, of constants, of conversions between element types, and of scalars of the step
   buffer. */
#include <math.h>

#include "prover/cases/cases.h"

struct constant {
    copse_type type;
    copse_shape shape;
    double value;
};

static copse_tensor *build_fill(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct constant *c = user;
    (void)in;
    return copse_fill(g, c->type, c->shape, c->value);
}

static copse_tensor *build_scalar(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)in;
    return copse_scalar(g, *(const double *)user);
}

struct array {
    copse_type type;
    copse_shape shape;
    const void *values;
};

static copse_tensor *build_constant(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct array *a = user;
    (void)in;
    return copse_constant(g, a->type, a->shape, a->values);
}

/* Two constants and a variable result: their values stay from run to run. */
static copse_tensor *build_line(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct array *a = user;
    copse_tensor *slope = copse_constant(g, a->type, a->shape, a->values);
    copse_tensor *offset = copse_constant(g, a->type, COPSE_SCALAR, a->values);
    copse_tensor *y = copse_mul(g, in[0], slope);
    return copse_add(g, y, offset);
}

static copse_tensor *build_cast(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_cast(g, in[0], *(const copse_type *)user);
}

/* To the type and to f32. */
static copse_tensor *build_cast_back(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *y = copse_cast(g, in[0], *(const copse_type *)user);
    return copse_cast(g, y, COPSE_F32);
}

static copse_tensor *build_sum_16(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *a = copse_cast(g, in[0], COPSE_F16);
    copse_tensor *b = copse_cast(g, in[1], COPSE_BF16);
    return copse_add(g, a, b);
}

static copse_tensor *build_step_scalar(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    copse_tensor *t = copse__step_scalar(g, COPSE_STEP_SHARE);
    return copse_mul(g, in[0], t);
}

static const copse_type to_i32 = COPSE_I32, to_f32 = COPSE_F32, to_f16 = COPSE_F16;
static const struct constant ones = { COPSE_F32, DIMS(SIDE, SIDE), 1 },
                             none = { COPSE_F32, DIMS(2), 0 };
static const float wholes[300] = {
    3, -2, 5, 7, 1, 0, -1, 0x1.fffffep127f, -INFINITY, NAN, 2, 0.1f
};
static const int32_t numbers[300] = { 3, -2, INT32_MIN, INT32_MAX, 16777217 };
static const struct array some = { COPSE_F32, DIMS(2, 3), wholes };
static const double minus_quarter = -0.25;
static const struct copse_case_op ops[] = {
    { .name = "fill", .accuracy = COPSE_ACCURACY_exact, .call = build_fill, .user = &none },
    { .name = "scalar",
      .accuracy = COPSE_ACCURACY_exact,
      .call = build_scalar,
      .user = &minus_quarter },
    { .name = "constant",
      .accuracy = COPSE_ACCURACY_rounded,
      .call = build_constant,
      .user = &some },
    { .name = "cast",
      .accuracy = COPSE_ACCURACY_exact,
      .takes_any_type = true,
      .call = build_cast,
      .user = &to_i32,
      .in = { F32_OF(2, 2) },
      .in_count = 1 },
    { .name = "step_scalar", .accuracy = COPSE_ACCURACY_exact }, /* not public */
};

static const struct copse_case speeds[] = {
    { .op = "cast",
      .name = "f16 to f32, " OF_SQUARE,
      .build = build_cast,
      .user = &to_f32,
      .in = { { .type = COPSE_F16, .shape = DIMS(SIDE, SIDE) } },
      .in_count = 1,
      .bytes = 1.5 * MATRIX },
    { .op = "cast",
      .name = "f32 to f16 and back, " OF_SQUARE,
      .build = build_cast_back,
      .user = &to_f16,
      .in = { SQUARE },
      .in_count = 1,
      .bytes = 3 * MATRIX },
    { .op = "cast",
      .name = "f32 to i32, " OF_SQUARE,
      .build = build_cast,
      .user = &to_i32,
      .in = { SQUARE },
      .in_count = 1,
      .bytes = 2 * MATRIX },
    { .op = "fill", .name = OF_SQUARE, .build = build_fill, .user = &ones, .bytes = MATRIX },
};

static void fill_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    const copse_shape high = { COPSE_MAX_RANK + 1, { 1 } };
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    REFUSES(r, ARGUMENT, "type 9", copse_cast(g, x, (copse_type)9));
    REFUSES(r, ARGUMENT, "fill", copse_fill(g, (copse_type)9, COPSE_SCALAR, 0));
    REFUSES(r, ARGUMENT, "fill", copse_fill(g, COPSE_F32, high, 0));
    REFUSES(r, ARGUMENT, "'values' is NULL", copse_constant(g, COPSE_F32, COPSE_SCALAR, NULL));
    REFUSES(r, ARGUMENT, "the type f32 or i32", copse_constant(g, COPSE_U8, COPSE_SCALAR, wholes));
    REFUSES(r, ARGUMENT, "a rank of at most 6", copse_constant(g, COPSE_F32, high, wholes));
    REFUSES(r, SHAPE, "constant: shape [65536, 65536]",
            copse_constant(g, COPSE_F32, COPSE_SHAPE(65536, 65536), wholes));
    REFUSES(r, SHAPE, "", copse_fill(g, COPSE_F32, COPSE_SHAPE(65536, 65536), 0));
}

#define CONSTANT(label, type, value, shape, ...)                                             \
    {                                                                                        \
        .op = "fill", .name = label, .build = build_fill,                                    \
        .user = &(const struct constant){ type, shape, value }, .is_poor = true, __VA_ARGS__ \
    }
#define ARRAY(label, type, values_, shape, ...)                                             \
    {                                                                                       \
        .op = "constant", .name = label, .build = build_constant,                           \
        .user = &(const struct array){ type, shape, values_ }, .is_poor = true, __VA_ARGS__ \
    }
#define CAST(label, to, input, ...)                                                          \
    {                                                                                        \
        .op = "cast", .name = label, .build = build_cast, .user = &(const copse_type){ to }, \
        .in = { UNWRAP input }, .in_count = 1, .has_no_gradient = true, __VA_ARGS__          \
    }
#define HALF(label, through, input, ...)                                               \
    {                                                                                  \
        .op = "cast", .name = label, .build = build_cast_back,                         \
        .user = &(const copse_type){ through }, .in = { UNWRAP input }, .in_count = 1, \
        .skips_differences = true, __VA_ARGS__                                         \
    }
#define STEP_SCALAR(label, input, ...)                                                          \
    {                                                                                           \
        .op = "step_scalar", .name = label, .build = build_step_scalar, .in = { UNWRAP input }, \
        .in_count = 1, __VA_ARGS__                                                              \
    }
#define TYPED(type_, kind, ...) ({ .type = type_, .shape = __VA_ARGS__, .fill = COPSE_FILL_##kind })
#define TO_I32                  COPSE_I32
#define TO_F32                  COPSE_F32

/* Values beyond and just before the limits of i32, fractions, NaN, a subnormal number. */
static const double floats[] = { 0,      -0.0,          1.9,           -1.9,      0x1.fffffep30,
                                 0x1p31, -0x1p31,       0x1.000002p31, 3e9,       -0x1.000002p31,
                                 -3e9,   0x1.fffffep22, INFINITY,      -INFINITY, NAN,
                                 0.5,    -0.5,          1e-40 };
/* Pairs of a tie and its neighbours, for both formats. */
static const double sixteen[29] = {
    0,
    -0.0,
    1,
    1 + 0x1p-11,
    1 + 0x1.8p-10,
    -1 - 0x1p-11,
    1 + 0x1.002p-11,
    1 + 0x1p-8,
    1 + 0x1.8p-7,
    -1 - 0x1.02p-8,
    65504,
    65519.99609375,
    65520,
    -65520,
    0x1p-14,
    0x1p-24,
    0x1p-25,
    0x1.000002p-25,
    -0x1.8p-24,
    0x1.ff4p-15,
    0x1.ffep-15,
    0x1p-40,
    0x1.fep127,
    0x1.fefffep127,
    0x1.ffp127,
    INFINITY,
    -INFINITY,
    NAN,
    0x1p-126,
};
static const double as_f16[29] = {
    0,          -0.0,         1,           1,        1 + 0x1p-9, -1,         1 + 0x1p-10,
    1 + 0x1p-8, 1 + 0x1.8p-7, -1 - 0x1p-8, 65504,    65504,      INFINITY,   -INFINITY,
    0x1p-14,    0x1p-24,      0,           0x1p-24,  -0x1p-23,   0x1.ffp-15, 0x1p-14,
    0,          INFINITY,     INFINITY,    INFINITY, INFINITY,   -INFINITY,  NAN,
    0,
};
static const double as_bf16[29] = {
    0,          -0.0,        1,          1,       1,        -1,      1,          1,
    1 + 0x1p-6, -1 - 0x1p-7, 65536,      65536,   65536,    -65536,  0x1p-14,    0x1p-24,
    0x1p-25,    0x1p-25,     -0x1.8p-24, 0x1p-14, 0x1p-14,  0x1p-40, 0x1.fep127, 0x1.fep127,
    INFINITY,   INFINITY,    -INFINITY,  NAN,     0x1p-126,
};
static const double integers[] = { 0,          1,          -1,         16777216,      16777217,
                                   16777219,   33554431,   2147483647, -2147483648.0, 2147483583,
                                   2147483584, 2147483585, 123456789 };
static const uint32_t quarter[COPSE_STEP_WORDS] = { [COPSE_STEP_SHARE] = 0x3e800000u }; /* 0.25f */

static const struct copse_case cases[] = {
    { .op = "scalar",
      .name = "a number",
      .build = build_scalar,
      .user = &minus_quarter,
      .is_poor = true },
    CONSTANT("a matrix", COPSE_F32, 2.5, DIMS(3, 300), QUICK),
    CONSTANT("a matrix, i32, rounded to even", COPSE_I32, 2.5, DIMS(3, 300), QUICK),
    CONSTANT("a scalar", COPSE_F32, 0.1, NO_DIMS, STANDARD),
    CONSTANT("one element more than a group", COPSE_F32, -1e-3, DIMS(257), STANDARD),
    CONSTANT("nothing", COPSE_F32, 2.5, DIMS(3, 0), STANDARD),
    CONSTANT("NaN", COPSE_F32, NAN, DIMS(9), STANDARD),
    CONSTANT("-Inf", COPSE_F32, -INFINITY, DIMS(9), STANDARD),
    CONSTANT("the largest f32", COPSE_F32, 0x1.fffffep127, DIMS(9), STANDARD),
    CONSTANT("the end of i32", COPSE_I32, 3e9, DIMS(9), STANDARD),
    CONSTANT("the beginning of i32", COPSE_I32, -INFINITY, DIMS(9), STANDARD),

    ARRAY("an array with NaN and infinities", COPSE_F32, wholes, DIMS(3, 100), QUICK),
    ARRAY("an array, i32", COPSE_I32, numbers, DIMS(300), QUICK),
    ARRAY("an array, one element", COPSE_F32, wholes, NO_DIMS, STANDARD),
    ARRAY("an array, nothing", COPSE_F32, wholes, DIMS(3, 0), STANDARD),
    { .op = "constant",
      .name = "an operand",
      .build = build_line,
      .user = &(const struct array){ COPSE_F32, DIMS(7), wholes },
      ONE_INPUT(FILL(INTEGERS, DIMS(50, 7))),
      .skips_differences = true,
      QUICK },

    CAST("f32 to i32: ends, fractions, NaN", TO_I32, VALUES(floats, DIMS(18)), QUICK),
    CAST("i32 to f32: halves and ends", TO_F32, I32_VALUES(integers, DIMS(13)), QUICK),
    CAST("f32 to i32: special values", TO_I32, FILL(SPECIAL, DIMS(128)), STANDARD),
    CAST("f32 to i32: 2^16 bit patterns", TO_I32, FILL(PATTERNS, DIMS(65536)), STANDARD),
    CAST("f32 to i32: 2^20 bit patterns", TO_I32, FILL(PATTERNS, DIMS(1048576)), FULL),
    CAST("f32 to i32: magnitudes to 2^33", TO_I32, SPREAD(-2, 33, DIMS(5, 1001)), STANDARD),
    CAST("i32 to f32: special values", TO_F32, I32_FILL(SPECIAL, DIMS(32)), STANDARD),
    CAST("i32 to f32: all magnitudes", TO_F32,
         I32_UNIFORM(-2147483648.0, 2147483647, DIMS(5, 1001)), STANDARD),
    CAST("f32 to i32: a scalar", TO_I32, UNIFORM(-9, 9, NO_DIMS), STANDARD),
    CAST("i32 to f32: nothing", TO_F32, I32_UNIFORM(-9, 9, DIMS(0, 3)), STANDARD),
    CAST("u8 to i32: every byte", TO_I32, TYPED(COPSE_U8, PATTERNS, DIMS(3, 259)), QUICK),
    CAST("u8 to f32: more than 65,535 groups", TO_F32, TYPED(COPSE_U8, PATTERNS, DIMS(65537, 257)),
         FULL),
    CAST("u8 to i32: a scalar", TO_I32, TYPED(COPSE_U8, PATTERNS, NO_DIMS), STANDARD),
    CAST("u8 to i32: nothing", TO_I32, TYPED(COPSE_U8, PATTERNS, DIMS(0, 3)), STANDARD),
    CAST("f16 to f32: every pattern", TO_F32, TYPED(COPSE_F16, PATTERNS, DIMS(65537)), QUICK),
    CAST("f16 to f32: more than 65,535 groups", TO_F32,
         TYPED(COPSE_F16, PATTERNS, DIMS(65537, 257)), FULL),
    CAST("f16 to i32", TO_I32, TYPED(COPSE_F16, NORMAL, DIMS(3, 85)), STANDARD),
    CAST("f16 to f32: a scalar", TO_F32, TYPED(COPSE_F16, NORMAL, NO_DIMS), STANDARD),
    CAST("bf16 to f32: every pattern", TO_F32, TYPED(COPSE_BF16, PATTERNS, DIMS(65537)), QUICK),
    CAST("bf16 to f32: nothing", TO_F32, TYPED(COPSE_BF16, NORMAL, DIMS(0)), STANDARD),
    CAST("bf16 to i32", TO_I32, TYPED(COPSE_BF16, NORMAL, DIMS(257)), STANDARD),
    HALF("f32 to f16 and back: ties, ends, subnormals, NaN", COPSE_F16, VALUES(sixteen, DIMS(29)),
         .want = as_f16, QUICK),
    HALF("f32 to bf16 and back: ties, ends, subnormals, NaN", COPSE_BF16, VALUES(sixteen, DIMS(29)),
         .want = as_bf16, QUICK),
    HALF("f16 to f16: every pattern", COPSE_F16, TYPED(COPSE_F16, PATTERNS, DIMS(65537)),
         .has_no_gradient = true, QUICK),
    HALF("bf16 to bf16: every pattern", COPSE_BF16, TYPED(COPSE_BF16, PATTERNS, DIMS(65537)),
         .has_no_gradient = true, QUICK),
    HALF("f32 to f16 and back: around the range of f16", COPSE_F16, SPREAD(-27, 17, DIMS(5, 1001)),
         STANDARD),
    HALF("f32 to f16 and back: 2^20 bit patterns", COPSE_F16, FILL(PATTERNS, DIMS(1048576)), FULL),
    HALF("f32 to bf16 and back: 2^16 bit patterns", COPSE_BF16, FILL(PATTERNS, DIMS(65536)),
         STANDARD),
    HALF("f32 to bf16 and back: a scalar", COPSE_BF16, FILL(NORMAL, NO_DIMS), STANDARD),
    HALF("f32 to f16 and back: nothing", COPSE_F16, FILL(NORMAL, DIMS(0, 3)), STANDARD),
    HALF("f16 to bf16", COPSE_BF16, TYPED(COPSE_F16, PATTERNS, DIMS(301)), .has_no_gradient = true,
         STANDARD),
    HALF("u8 to f16", COPSE_F16, TYPED(COPSE_U8, PATTERNS, DIMS(3, 7)), .has_no_gradient = true,
         STANDARD),
    { .op = "cast",
      .name = "operands of f16 and bf16 of an op that computes in f32",
      .build = build_sum_16,
      TWO_INPUTS(FILL(NORMAL, DIMS(3, 5)), FILL(NORMAL, DIMS(5))),
      .skips_differences = true,
      QUICK },
    CAST("f32 to f32", TO_F32, FILL(NORMAL, DIMS(9)), STANDARD),

    /* Not public: the replica's shard of the global batch. */
    STEP_SCALAR("a share of a quarter", FILL(NORMAL, DIMS(3, 5)), .step = quarter, QUICK),
};

COPSE_CASE_TABLE(fill, OPS, SPEEDS, .refusals = fill_refusals)
