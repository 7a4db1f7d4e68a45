/* SPDX-License-Identifier: MIT */
/* Cases of dense layers, each with every variant of the matrix product. For small whole numbers the
   product is exact, so only the activation determines the limit. */
#include <math.h>

#include "copse/matmul.h"
#include "copse/ops/precision.h"
#include "prover/cases/cases.h"

struct layer {
    copse_activation activation;
    bool has_bias;
};

static copse_tensor *dense_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct layer *l = user;
    return copse_dense(g, in[0], in[1], l->has_bias ? in[2] : NULL, l->activation);
}

static copse_tensor *build_16(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_set_precision(g, *(const copse_type *)user);
    copse_tensor *y = copse_dense(g, in[0], in[1], in[2], COPSE_RELU);
    copse_set_precision(g, COPSE_F32);
    return y;
}

static const struct layer bare = { COPSE_RELU, false };
static const struct copse_case_op ops[] = {
    { .name = "dense",
      .accuracy = COPSE_ACCURACY_dense,
      .divides = true,
      .call = dense_build,
      .user = &bare,
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
};

static const struct copse_case speeds[] = {
    { .op = "dense",
      .name = "64 x 1024 x 1024, relu",
      .build = dense_build,
      .user = &bare,
      .in = { F32_OF(64, 1024), F32_OF(1024, 1024) },
      .in_count = 2,
      .family = "matmul",
      .flops = 2.0 * 64 * 1024 * 1024 },
};

static void dense_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *a = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 5));
    copse_tensor *b = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6, 3));
    copse_tensor *w = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 4));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *one = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    copse_tensor *square = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 2));
    REFUSES(r, SHAPE, "dense: operands f32[4, 5] and f32[6, 3]: expected w to have 5 rows",
            copse_dense(g, a, b, NULL, COPSE_RELU));
    REFUSES(r, SHAPE, "expected a bias of 4 elements", copse_dense(g, a, w, v, COPSE_TANH));
    REFUSES(r, SHAPE, "w of rank 2", copse_dense(g, a, v, NULL, COPSE_LINEAR));
    REFUSES(r, SHAPE, "x of rank 1 or more", copse_dense(g, one, w, NULL, COPSE_LINEAR));
    REFUSES(r, ARGUMENT, "operand 1", copse_dense(g, a, NULL, NULL, COPSE_RELU));
    REFUSES(r, ARGUMENT, "no activation", copse_dense(g, a, w, NULL, (copse_activation)9));
    REFUSES(r, ARGUMENT, "dense", copse_dense(g, square, square, r->other, COPSE_TANH));
}

#define CASE(label, activation, bias, x, w, b, ...)                                                \
    {                                                                                              \
        .op = "dense", .name = label, .build = dense_build,                                        \
        .user = &(const struct layer){ activation, bias }, .in = { UNWRAP x, UNWRAP w, UNWRAP b }, \
        .in_count = (bias) ? 3 : 2, __VA_ARGS__                                                    \
    }
#define ROW(label, activation, bias, x, w, b, ...) \
    CASE(label, activation, bias, x, w, b, .family = "matmul", __VA_ARGS__)

#define ONES(...) WHOLE(-1, 1, __VA_ARGS__)
#define EXACT     .skips_differences = true
#define KIND(name, activation, ulp_, BACKWARD, ...)                                               \
    ROW(name, activation, true, ONES(DIMS(7, 6)), ONES(DIMS(6, 17)), ONES(DIMS(17)),              \
        .forward = { .ulp = ulp_ }, .backward = BACKWARD, QUICK, __VA_ARGS__),                    \
        ROW(name ", no bias", activation, false, ONES(DIMS(7, 6)), ONES(DIMS(6, 17)),             \
            ONES(DIMS(17)), .forward = { .ulp = ulp_ }, .backward = BACKWARD, STANDARD,           \
            __VA_ARGS__),                                                                         \
        ROW(name ", x of one axis", activation, true, ONES(DIMS(6)), ONES(DIMS(6, 17)),           \
            ONES(DIMS(17)), .forward = { .ulp = ulp_ }, .backward = BACKWARD, STANDARD,           \
            __VA_ARGS__),                                                                         \
        ROW(name ", x of three axes", activation, true, ONES(DIMS(2, 3, 6)), ONES(DIMS(6, 17)),   \
            ONES(DIMS(17)), .forward = { .ulp = ulp_ }, .backward = BACKWARD, STANDARD,           \
            __VA_ARGS__),                                                                         \
        ROW(name ", no examples", activation, true, ONES(DIMS(0, 6)), ONES(DIMS(6, 17)),          \
            ONES(DIMS(17)), .forward = { .ulp = ulp_ }, .backward = BACKWARD, STANDARD,           \
            .is_poor = true, __VA_ARGS__),                                                        \
        ROW(name ", a batch of one", activation, true, ONES(DIMS(1, 6)), ONES(DIMS(6, 17)),       \
            ONES(DIMS(17)), .forward = { .ulp = ulp_ }, .backward = BACKWARD, FULL, __VA_ARGS__), \
        ROW(name ", past every tile", activation, true, ONES(DIMS(65, 6)), ONES(DIMS(6, 67)),     \
            ONES(DIMS(67)), .forward = { .ulp = ulp_ }, .backward = BACKWARD, STANDARD,           \
            __VA_ARGS__),                                                                         \
        ROW(name ", normal numbers", activation, true, FILL(NORMAL, DIMS(9, 70)),                 \
            UNIFORM(-0.2, 0.2, DIMS(70, 33)), FILL(NORMAL, DIMS(33)),                             \
            .forward = { .ulp = ulp_, .of_max = 1e-6 }, .backward = { .ulp = 4, .of_max = 1e-6 }, \
            STANDARD, .skips_differences = true)
#define SUMS(...)   \
    {               \
        __VA_ARGS__ \
    }

/* The bias's derivative is a sum down the columns of dy, [rows, cols]; it uses no other kernel. */
#define FIXED(...)                  \
    ({ .type = COPSE_F32,           \
       .shape = __VA_ARGS__,        \
       .fill = COPSE_FILL_INTEGERS, \
       .low = -1,                   \
       .high = 1,                   \
       .is_constant = true })
#define COLUMNS(label, rows, cols, ...)                                                           \
    CASE("bias gradient, " label, COPSE_LINEAR, true, FIXED(DIMS(rows, 1)), FIXED(DIMS(1, cols)), \
         ONES(DIMS(cols)), EXACT, .family = "column_sum", .family_is_of_gradient = true,          \
         __VA_ARGS__)

#define SIXTEEN(label, type, ...)                                                             \
    {                                                                                         \
        .op = "dense", .name = label, .build = build_16, .user = &(const copse_type){ type }, \
        THREE_INPUTS(WHOLE(-3, 3, DIMS(7, 6)), WHOLE(-3, 3, DIMS(6, 17)), ONES(DIMS(17))),    \
        .family = "matmul", .operands = type, EXACT, __VA_ARGS__                              \
    }

/* Activations and tile edges must not hide NaN. */
static const double nan_at_the_end[] = { 1, 1, 1, 1, 1, NAN };
#define NAN_ROW(name, activation)                                                             \
    ROW(name ", NaN stays in its row", activation, false, VALUES(nan_at_the_end, DIMS(2, 3)), \
        FILL(POSITIVE, DIMS(3, 5)), ONES(DIMS(5)), .forward = { .ulp = 16 },                  \
        .has_no_gradient = true, STANDARD)

static const double one[] = { 1 };

static const struct copse_case cases[] = {
    NAN_ROW("linear", COPSE_LINEAR),
    NAN_ROW("relu", COPSE_RELU),
    NAN_ROW("sigmoid", COPSE_SIGMOID),
    NAN_ROW("tanh", COPSE_TANH),
    NAN_ROW("gelu", COPSE_GELU),
    NAN_ROW("silu", COPSE_SILU),
    KIND("linear", COPSE_LINEAR, 0, { 0 }, EXACT),
    KIND("relu", COPSE_RELU, 0, { 0 }, EXACT),
    /* Slopes are computed from y, which loses digits near 1. */
    KIND("sigmoid", COPSE_SIGMOID, 5, SUMS(.ulp = 4, .of_max = 1e-6), EXACT),
    KIND("tanh", COPSE_TANH, 5, SUMS(.ulp = 4, .of_max = 1e-6), EXACT),
    KIND("gelu", COPSE_GELU, 16, SUMS(.ulp = 4, .of_max = 1e-6), EXACT),
    KIND("silu", COPSE_SILU, 5, SUMS(.ulp = 4, .of_max = 1e-6), EXACT),
    SIXTEEN("precision f16, relu", COPSE_F16, QUICK),
    SIXTEEN("precision bf16, relu", COPSE_BF16, STANDARD),
    ROW("derivatives by differences", COPSE_TANH, true, UNIFORM(-1, 1, DIMS(7, 6)),
        UNIFORM(-1, 1, DIMS(6, 17)), UNIFORM(-1, 1, DIMS(17)),
        .forward = { .ulp = 4, .of_max = 1e-6 }, .backward = { .ulp = 4, .of_max = 1e-6 },
        STANDARD),
    ROW("nothing to add: the bias", COPSE_RELU, true, ONES(DIMS(3, 0)), ONES(DIMS(0, 5)),
        ONES(DIMS(5)), EXACT, STANDARD),
    ROW("one number in each row, k 1000, relu", COPSE_RELU, true, FILL(ROWS, DIMS(64, 1000)),
        VALUES(one, DIMS(1000, 33)), FILL(NORMAL, DIMS(33)), .has_no_gradient = true, .terms = 1000,
        STANDARD),
    ROW("one and numbers that it loses, k 256", COPSE_LINEAR, true, FILL(LOST, DIMS(7, 256)),
        VALUES(one, DIMS(256, 17)), FILL(LOST, DIMS(17)), .has_no_gradient = true, .terms = 256,
        QUICK),
    COLUMNS("one element", 1, 1, STANDARD),
    COLUMNS("63 x 31", 63, 31, STANDARD),
    COLUMNS("64 x 32", 64, 32, STANDARD),
    COLUMNS("65 x 33", 65, 33, STANDARD),
    COLUMNS("4095 x 3", 4095, 3, FULL),
    COLUMNS("4096 x 5, one block", 4096, 5, STANDARD),
    COLUMNS("4097 x 65, two blocks", 4097, 65, STANDARD),
    COLUMNS("9001 x 2", 9001, 2, STANDARD),
    COLUMNS("2 x 4099", 2, 4099, FULL),
};

COPSE_CASE_TABLE(dense, OPS, SPEEDS, .refusals = dense_refusals)
