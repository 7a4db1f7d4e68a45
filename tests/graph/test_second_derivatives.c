/* SPDX-License-Identifier: MIT */
/* Derivatives of derivatives. Each case is a graph whose result is all first derivatives of an op,
   so that the harness compares second derivatives in double with central differences of the first
   ones, and each device with double. Then closed forms, special values, a gradient of a gradient
   step, and what has no second derivative. */
#include <math.h>

#include "copse/distribute/sync.h"
#include "copse/ops/attention.h"
#include "copse/ops/blocks.h"
#include "copse/ops/conv.h"
#include "copse/ops/functions.h"
#include "copse/ops/gated.h"
#include "copse/ops/logic.h"
#include "copse/ops/losses.h"
#include "copse/ops/norm.h"
#include "copse/ops/pool.h"
#include "copse/ops/resize.h"
#include "copse/ops/scan.h"
#include "tests/rig/conformance/op_harness.h"

/* An op whose first `count` operands are differentiated, and the input that is the slope of its
   result; 0: the result is a scalar. */
struct twice {
    copse_case_build *op;
    uint32_t count, slope;
};

/* The first derivatives by all operands, one after the other. */
static copse_tensor *build_slopes(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct twice *t = user;
    copse_tensor *dx[COPSE_CASE_INPUTS], *y = t->op(g, in, NULL);
    copse_gradients(g, y, t->slope ? in[t->slope] : NULL, in, t->count, dx);
    for (uint32_t i = 0; i < t->count; i++)
        dx[i] = copse_reshape(g, dx[i], COPSE_SHAPE((uint32_t)copse__elements(in[i]->shape)));
    return copse_concat(g, dx, t->count, 0);
}

/* ---- functions of one tensor ---- */

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

#define BUILD(name, ...)                                                                         \
    static copse_tensor *build_##name(copse_graph *g, copse_tensor *const *in, const void *user) \
    {                                                                                            \
        (void)user;                                                                              \
        return __VA_ARGS__;                                                                      \
    }
BUILD(leaky_relu, copse_leaky_relu(g, in[0], 0.1f))
BUILD(elu, copse_elu(g, in[0], 1.5f))
BUILD(pow, copse_pow(g, in[0], 2.5f))
BUILD(clip, copse_clip(g, in[0], -1, 2))
BUILD(multiply_by, copse_multiply_by(g, in[0], -3))
BUILD(divide_by, copse__divide_by(g, in[0], 7))
BUILD(huber, copse__huber(g, in[0], 1.5f))

#define UNARY(op, number, f, g, ref, ref_g, from, to, ...) { #op, { build_##op, 1, 1 }, from, to },
#define SCALED                                             UNARY
static const struct function {
    const char *name;
    struct twice of;
    double low, high;
} functions[] = {
#include "kernels/elementwise/unary.def"
};
#undef UNARY
#undef SCALED

/* Every row of the table, over its range. The ends of the ranges of functions with poles are where
   second derivatives are large, so the errors are relative to the largest one. */
static void functions_of_one_tensor(void **state)
{
    struct copse_case cases[COPSE_COUNT(functions)];
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(functions); i++)
        cases[i] = (struct copse_case){
            .op = "second derivative",
            .name = functions[i].name,
            .build = build_slopes,
            .user = &functions[i].of,
            .in = { { .shape = COPSE_SHAPE(300),
                      .low = functions[i].low,
                      .high = functions[i].high },
                    { .shape = COPSE_SHAPE(300), .low = -2, .high = 2 } },
            .in_count = 2,
            .forward = { .ulp = 32, .of_max = 1e-6 },
            .backward = { .ulp = 64, .of_max = 4e-6 },
            .is_poor = true, /* the second derivatives of straight lines are 0 */
        };
    harness_run_in_turn(&(const struct copse_case_table){
        .family = "second derivatives", .cases = cases, .count = COPSE_COUNT(functions) });
}

/* ---- other ops ---- */

BUILD(add, copse_add(g, in[0], in[1]))
BUILD(sub, copse_sub(g, in[0], in[1]))
BUILD(mul, copse_mul(g, in[0], in[1]))
BUILD(div, copse_div(g, in[0], in[1]))
BUILD(maximum, copse_maximum(g, in[0], in[1]))
BUILD(minimum, copse_minimum(g, in[0], in[1]))
BUILD(prelu, copse_prelu(g, in[0], in[1]))
BUILD(matmul, copse_matmul(g, in[0], in[1], false, false))
BUILD(matmul_tn, copse_matmul(g, in[0], in[1], true, false))
BUILD(matmul_nt, copse_matmul(g, in[0], in[1], false, true))
BUILD(matmul_tt, copse_matmul(g, in[0], in[1], true, true))
/* Two rows of 16 numbers of 4 bits; the matrix is a constant. */
static copse_tensor *of_blocks(copse_graph *g, copse_tensor *x)
{
    static const uint32_t words[] = { 0x76543210, 0xfedcba98, 0x89abcdef, 0x01234567 };
    static const float scales[] = { 0.25f, -0.125f }, offsets[] = { 0.5f, 1 };
    const struct copse_blocks w = { copse_constant(g, COPSE_I32, COPSE_SHAPE(2, 2), words),
                                    copse_constant(g, COPSE_F32, COPSE_SHAPE(2, 1), scales),
                                    copse_constant(g, COPSE_F32, COPSE_SHAPE(2, 1), offsets), 4 };
    return copse_matmul_blocks(g, x, &w, true);
}

BUILD(matmul_blocks, of_blocks(g, copse_square(g, in[0])))
BUILD(dense, copse_dense(g, in[0], in[1], in[2], COPSE_LINEAR))
BUILD(dense_relu, copse_dense(g, in[0], in[1], in[2], COPSE_RELU))
BUILD(dense_sigmoid, copse_dense(g, in[0], in[1], in[2], COPSE_SIGMOID))
BUILD(dense_tanh, copse_dense(g, in[0], in[1], in[2], COPSE_TANH))
BUILD(dense_gelu, copse_dense(g, in[0], in[1], in[2], COPSE_GELU))
BUILD(softmax, copse_softmax(g, in[0]))
BUILD(log_softmax, copse_log_softmax(g, in[0]))
BUILD(softmax_groups, copse_softmax_groups(g, in[0], 3, 0.5f))
BUILD(entropy, copse_sparse_cross_entropy(g, in[0], in[1], COPSE_MEAN))
BUILD(entropy_sum, copse_sparse_cross_entropy(g, in[0], in[1], COPSE_SUM))
BUILD(class_loss,
      copse_cross_entropy(g, in[0], in[1],
                          &(struct copse_cross_entropy_params){ .label_smoothing = 0.1f,
                                                                .ignores = true,
                                                                .ignored_label = 2,
                                                                .averaging = COPSE_EACH }))
BUILD(binary_loss, copse_binary_cross_entropy(g, in[0], in[1], NULL, COPSE_EACH))
BUILD(weighted_loss, copse_binary_cross_entropy(g, in[0], in[1], in[2], COPSE_EACH))
BUILD(divergence, copse_kl_divergence(g, in[0], in[1], COPSE_EACH))
BUILD(squared, copse_mean_squared_error(g, in[0], in[1]))
BUILD(cosine, copse_cosine_similarity(g, in[0], in[1]))
BUILD(sum, copse_sum(g, copse_square(g, in[0]), (const uint32_t[]){ 1 }, 1, false))
BUILD(mean, copse_mean(g, copse_square(g, in[0]), (const uint32_t[]){ 0, 2 }, 2, true))
BUILD(max, copse_max(g, copse_square(g, in[0]), (const uint32_t[]){ 1 }, 1, false))
BUILD(column_sum, copse_dense(g, copse_square(g, in[0]), copse_square(g, in[1]), in[2], COPSE_TANH))
BUILD(gather, copse_gather(g, copse_square(g, in[0]), in[1]))
BUILD(glu, copse_glu(g, in[0], in[1], COPSE_SILU))
BUILD(glu_packed, copse_glu(g, in[0], NULL, COPSE_GELU))
BUILD(layer_norm, copse_layer_norm(g, in[0], in[1], in[2], 1e-3f))
BUILD(rms_norm, copse_rms_norm(g, in[0], in[1], 1e-3f))
BUILD(group_norm, copse_group_norm(g, in[0], 2, in[1], in[2], 1e-3f))
BUILD(cumsum, copse_cumsum(g, copse_square(g, in[0]), 1, false, true))
BUILD(conv, copse_conv(g, in[0], in[1], in[2], NULL))
BUILD(conv_strided,
      copse_conv(g, in[0], in[1], NULL,
                 &(struct copse_conv_params){
                     .stride = { 2, 3 }, .dilation = { 2, 1 }, .padding = COPSE_PADDING_SAME }))
BUILD(conv_groups, copse_conv(g, in[0], in[1], in[2],
                              &(struct copse_conv_params){ .groups = 2,
                                                           .before = { 1, 0 },
                                                           .after = { 0, 2 },
                                                           .activation = COPSE_TANH }))
BUILD(conv_transposed,
      copse_conv_transposed(g, in[0], in[1], NULL,
                            &(struct copse_conv_params){ .stride = { 2, 2 }, .before = { 1, 1 } }))
BUILD(average_pool,
      copse_average_pool(g, copse_square(g, in[0]),
                         &(struct copse_pool_params){
                             .window = { 3, 2 }, .stride = { 2, 1 }, .before = { 1, 0 } }))
BUILD(max_pool,
      copse_max_pool(g, copse_square(g, in[0]), &(struct copse_pool_params){ .window = { 2, 2 } }))
BUILD(resize,
      copse_resize(g, copse_square(g, in[0]), (const uint32_t[]){ 7, 3 }, COPSE_RESIZE_LINEAR))
BUILD(top_k, copse_top_k(g, copse_square(g, in[0]), 3, NULL))

#define F(from, to, ...)   UNIFORM(from, to, DIMS(__VA_ARGS__))
#define LABELS(below, ...) I32_UNIFORM(0, below, DIMS(__VA_ARGS__))
/* An op, the operands by which it is differentiated, the number of the slope, and the inputs. */
#define TWICE(op_, count_, slope_, ...)                                                      \
    {                                                                                        \
        .op = "second derivative", .name = #op_, .build = build_slopes,                      \
        .user = &(const struct twice){ build_##op_, count_, slope_ }, __VA_ARGS__,           \
        .forward = { .ulp = 32, .of_max = 2e-6 }, .backward = { .ulp = 64, .of_max = 4e-6 }, \
        .is_poor = true                                                                      \
    }

static const struct copse_case ops[] = {
    TWICE(add, 2, 2, THREE_INPUTS(F(-2, 2, 3, 4), F(-2, 2, 4), F(-2, 2, 3, 4))),
    TWICE(sub, 2, 2, THREE_INPUTS(F(-2, 2, 3, 4), F(-2, 2, 3, 1), F(-2, 2, 3, 4))),
    TWICE(mul, 2, 2, THREE_INPUTS(F(-2, 2, 3, 4), F(-2, 2, 4), F(-2, 2, 3, 4))),
    TWICE(div, 2, 2, THREE_INPUTS(F(-2, 2, 3, 1), F(0.5, 2, 3, 4), F(-2, 2, 3, 4))),
    TWICE(maximum, 2, 2, THREE_INPUTS(F(-2, 2, 3, 4), F(-2, 2, 3, 4), F(-2, 2, 3, 4))),
    TWICE(minimum, 2, 2, THREE_INPUTS(F(-2, 2, 3, 4), F(-2, 2, 3, 4), F(-2, 2, 3, 4))),
    TWICE(prelu, 2, 2, THREE_INPUTS(F(-2, 2, 3, 4), F(-2, 2, 4), F(-2, 2, 3, 4))),
    TWICE(matmul, 2, 2, THREE_INPUTS(F(-2, 2, 2, 5, 3), F(-2, 2, 3, 4), F(-2, 2, 2, 5, 4))),
    TWICE(matmul_tn, 2, 2, THREE_INPUTS(F(-2, 2, 3, 5), F(-2, 2, 3, 4), F(-2, 2, 5, 4))),
    TWICE(matmul_nt, 2, 2, THREE_INPUTS(F(-2, 2, 2, 5, 3), F(-2, 2, 2, 4, 3), F(-2, 2, 2, 5, 4))),
    TWICE(matmul_tt, 2, 2, THREE_INPUTS(F(-2, 2, 3, 5), F(-2, 2, 4, 3), F(-2, 2, 5, 4))),
    TWICE(matmul_blocks, 1, 1, TWO_INPUTS(F(-2, 2, 3, 16), F(-2, 2, 3, 2))),
    TWICE(dense, 3, 3, FOUR_INPUTS(F(-2, 2, 5, 3), F(-2, 2, 3, 4), F(-1, 1, 4), F(-2, 2, 5, 4))),
    TWICE(dense_relu, 3, 3,
          FOUR_INPUTS(F(-2, 2, 5, 3), F(-2, 2, 3, 4), F(-1, 1, 4), F(-2, 2, 5, 4))),
    TWICE(dense_sigmoid, 3, 3,
          FOUR_INPUTS(F(-2, 2, 5, 3), F(-2, 2, 3, 4), F(-1, 1, 4), F(-2, 2, 5, 4))),
    TWICE(dense_tanh, 3, 3,
          FOUR_INPUTS(F(-2, 2, 2, 5, 3), F(-1, 1, 3, 4), F(-1, 1, 4), F(-2, 2, 2, 5, 4))),
    TWICE(dense_gelu, 3, 3,
          FOUR_INPUTS(F(-2, 2, 5, 3), F(-2, 2, 3, 4), F(-1, 1, 4), F(-2, 2, 5, 4))),
    TWICE(column_sum, 3, 3,
          FOUR_INPUTS(F(-2, 2, 70, 3), F(-1, 1, 3, 4), F(-1, 1, 4), F(-2, 2, 70, 4))),
    TWICE(softmax, 1, 1, TWO_INPUTS(F(-2, 2, 5, 7), F(-2, 2, 5, 7))),
    TWICE(log_softmax, 1, 1, TWO_INPUTS(F(-2, 2, 5, 7), F(-2, 2, 5, 7))),
    TWICE(softmax_groups, 1, 1, TWO_INPUTS(F(-2, 2, 5, 12), F(-2, 2, 5, 12))),
    TWICE(entropy, 1, 0, TWO_INPUTS(F(-3, 3, 6, 5), LABELS(4, 6))),
    TWICE(entropy_sum, 1, 0, TWO_INPUTS(F(-3, 3, 6, 5), LABELS(4, 6))),
    TWICE(class_loss, 1, 2, THREE_INPUTS(F(-3, 3, 6, 5), LABELS(4, 6), F(-2, 2, 6))),
    TWICE(binary_loss, 2, 2, THREE_INPUTS(F(-3, 3, 6, 5), F(0, 1, 6, 5), F(-2, 2, 6, 5))),
    TWICE(weighted_loss, 3, 3,
          FOUR_INPUTS(F(-3, 3, 6, 5), F(0, 1, 6, 5), F(0.5, 2, 5), F(-2, 2, 6, 5))),
    TWICE(divergence, 2, 2, THREE_INPUTS(F(-3, 0, 6, 5), F(0.1, 1, 6, 5), F(-2, 2, 6))),
    TWICE(squared, 2, 0, TWO_INPUTS(F(-3, 3, 6, 5), F(-3, 3, 5))),
    TWICE(cosine, 2, 2, THREE_INPUTS(F(0.5, 2, 6, 5), F(-2, 2, 6, 5), F(-2, 2, 6))),
    TWICE(sum, 1, 1, TWO_INPUTS(F(-2, 2, 3, 70, 2), F(-2, 2, 3, 2))),
    TWICE(mean, 1, 1, TWO_INPUTS(F(-2, 2, 3, 4, 2), F(-2, 2, 1, 4, 1))),
    TWICE(max, 1, 1, TWO_INPUTS(F(-2, 2, 3, 7), F(-2, 2, 3))),
    TWICE(gather, 1, 2, THREE_INPUTS(F(-2, 2, 5, 2), LABELS(4, 9), F(-2, 2, 9, 2))),
    TWICE(glu, 2, 2, THREE_INPUTS(F(-2, 2, 5, 4), F(-2, 2, 5, 4), F(-2, 2, 5, 4))),
    TWICE(glu_packed, 1, 1, TWO_INPUTS(F(-2, 2, 5, 8), F(-2, 2, 5, 4))),
    TWICE(layer_norm, 3, 3, FOUR_INPUTS(F(-2, 2, 5, 8), F(0.5, 2, 8), F(-1, 1, 8), F(-2, 2, 5, 8))),
    TWICE(rms_norm, 2, 2, THREE_INPUTS(F(-2, 2, 5, 8), F(0.5, 2, 8), F(-2, 2, 5, 8))),
    TWICE(group_norm, 3, 3,
          FOUR_INPUTS(F(-2, 2, 2, 9, 4), F(0.5, 2, 4), F(-1, 1, 4), F(-2, 2, 2, 9, 4))),
    TWICE(cumsum, 1, 1, TWO_INPUTS(F(-2, 2, 3, 9), F(-2, 2, 3, 9))),
    TWICE(
        conv, 3, 3,
        FOUR_INPUTS(F(-2, 2, 2, 6, 5, 3), F(-2, 2, 3, 2, 3, 4), F(-1, 1, 4), F(-2, 2, 2, 4, 4, 4))),
    TWICE(conv_strided, 2, 2,
          THREE_INPUTS(F(-2, 2, 2, 7, 8, 3), F(-2, 2, 2, 3, 3, 4), F(-2, 2, 2, 4, 3, 4))),
    TWICE(
        conv_groups, 3, 3,
        FOUR_INPUTS(F(-1, 1, 2, 5, 4, 4), F(-1, 1, 2, 3, 2, 6), F(-1, 1, 6), F(-2, 2, 2, 5, 4, 6))),
    TWICE(conv_transposed, 2, 2,
          THREE_INPUTS(F(-2, 2, 2, 3, 4, 3), F(-2, 2, 3, 3, 3, 2), F(-2, 2, 2, 6, 8, 2))),
    TWICE(average_pool, 1, 1, TWO_INPUTS(F(-2, 2, 2, 6, 5, 3), F(-2, 2, 2, 3, 4, 3))),
    TWICE(max_pool, 1, 1, TWO_INPUTS(F(-2, 2, 2, 6, 4, 3), F(-2, 2, 2, 3, 2, 3))),
    TWICE(resize, 1, 1, TWO_INPUTS(F(-2, 2, 2, 4, 5, 3), F(-2, 2, 2, 7, 3, 3))),
    TWICE(top_k, 1, 1, TWO_INPUTS(F(-2, 2, 4, 7), F(-2, 2, 4, 3))),
};

static void other_ops(void **state)
{
    (void)state;
    harness_run_in_turn(&(const struct copse_case_table){
        .family = "second derivatives", .cases = ops, .count = COPSE_COUNT(ops) });
}

/* ---- derivatives within losses ---- */

/* tanh(x w1) w2, with a norm between: [n, 3] to [n, 2] */
static copse_tensor *network(copse_graph *g, copse_tensor *x, copse_tensor *w1, copse_tensor *w2)
{
    copse_tensor *h = copse_dense(g, x, w1, NULL, COPSE_TANH);
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SHAPE(4), 1);
    h = copse_rms_norm(g, h, one, 0.1f);
    h = copse_add(g, h, copse_silu(g, h));
    return copse_dense(g, h, w2, NULL, COPSE_LINEAR);
}

/* The loss after a step of gradient descent on another batch (Finn, Abbeel and Levine, 2017). */
static copse_tensor *build_step(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *w[] = { in[1], in[2] }, *dw[2];
    copse_tensor *zero = copse_fill(g, COPSE_I32, COPSE_SHAPE(5), 1);
    (void)user;
    copse_tensor *loss =
        copse_sparse_cross_entropy(g, network(g, in[0], w[0], w[1]), zero, COPSE_MEAN);
    copse_gradients(g, loss, NULL, w, 2, dw);
    for (uint32_t i = 0; i < 2; i++)
        w[i] = copse_sub(g, w[i], copse_multiply_by(g, dw[i], 0.5f));
    return copse_sparse_cross_entropy(g, network(g, in[3], w[0], w[1]), zero, COPSE_MEAN);
}

/* (|dD/dx| - 1)^2, the penalty of Gulrajani et al. (2017). */
static copse_tensor *build_penalty(copse_graph *g, copse_tensor *const *in, const void *user)
{
    static const uint32_t last = 1;
    copse_tensor *dx, *x = in[0], *y = copse_sum(g, network(g, x, in[1], in[2]), NULL, 0, false);
    (void)user;
    copse_gradients(g, y, NULL, &x, 1, &dx);
    dx = copse_sum(g, copse_square(g, dx), &last, 1, false);
    dx = copse_sub(g, copse_sqrt(g, dx), copse_scalar(g, 1));
    return copse_mean(g, copse_square(g, dx), NULL, 0, false);
}

/* The product of the Hessian of a mean squared error with v, by x. */
static copse_tensor *build_hessian(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *x = in[0], *dx, *d2, *y = network(g, x, in[1], in[2]);
    (void)user;
    y = copse_mean_squared_error(g, y, copse_scalar(g, 0.5));
    copse_gradients(g, y, NULL, &x, 1, &dx);
    dx = copse_sum(g, copse_mul(g, dx, in[3]), NULL, 0, false);
    copse_gradients(g, dx, NULL, &x, 1, &d2);
    return d2;
}

/* A convolution, pooling and a product: the penalty of its derivative by the pictures. */
static copse_tensor *build_pictures(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *x = in[0], *dx, *y;
    (void)user;
    y = copse_conv(
        g, x, in[1], in[2],
        &(struct copse_conv_params){ .padding = COPSE_PADDING_SAME, .activation = COPSE_SIGMOID });
    y = copse_average_pool(g, y, &(struct copse_pool_params){ .window = { 2, 2 } });
    y = copse_reshape(g, y, COPSE_SHAPE(2, 16));
    y = copse_dense(g, y, in[3], NULL, COPSE_TANH);
    y = copse_log_softmax(g, y);
    copse_gradients(g, copse_mean(g, copse_square(g, y), NULL, 0, false), NULL, &x, 1, &dx);
    return copse_sum(g, copse_square(g, dx), NULL, 0, false);
}

#define LOSS(op_, ...)                                                                  \
    {                                                                                   \
        .op = "loss with derivatives", .name = #op_, .build = build_##op_, __VA_ARGS__, \
        .forward = { .ulp = 64, .of_max = 2e-6 }, .backward = {                         \
            .ulp = 64,                                                                  \
            .of_max = 4e-6                                                              \
        }                                                                               \
    }

static const struct copse_case whole[] = {
    LOSS(step, FOUR_INPUTS(F(-2, 2, 5, 3), F(-1, 1, 3, 4), F(-1, 1, 4, 2), F(-2, 2, 5, 3))),
    LOSS(penalty, THREE_INPUTS(F(-2, 2, 5, 3), F(-1, 1, 3, 4), F(-1, 1, 4, 2))),
    LOSS(hessian, FOUR_INPUTS(F(-2, 2, 5, 3), F(-1, 1, 3, 4), F(-1, 1, 4, 2), F(-2, 2, 5, 3))),
    LOSS(pictures,
         FOUR_INPUTS(F(-2, 2, 2, 4, 4, 3), F(-1, 1, 3, 3, 3, 4), F(-1, 1, 4), F(-1, 1, 16, 3))),
};

static void losses_with_derivatives(void **state)
{
    (void)state;
    harness_run_in_turn(&(const struct copse_case_table){
        .family = "losses with derivatives", .cases = whole, .count = COPSE_COUNT(whole) });
}

/* ---- numbers that follow from the definition ---- */

#define MANY 8

/* f'' of each x, from the definition; `ulp` 0: exactly. In double, and on every device. */
static void expect_second(const char *name, copse_case_build *op, const double *x,
                          const double *want, uint32_t n, double ulp)
{
    double values[MANY], got[MANY], *in = values, *out = got;
    copse_graph *g;
    copse_tensor *t, *y, *first, *second;
    for (uint32_t k = 0; k < n; k++)
        values[k] = (float)x[k];
    OK(copse_graph_create(harness_context(), &g));
    t = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(n));
    y = copse_sum(g, op(g, &t, NULL), NULL, 0, false);
    copse_gradients(g, y, NULL, &t, 1, &first);
    copse_gradients(g, copse_sum(g, first, NULL, 0, false), NULL, &t, 1, &second);
    OK(copse_graph_status(g));
    for (size_t d = 0; d <= harness_device_count(); d++) {
        if (d == 0)
            harness_in_double(g, &t, &in, 1, &second, 1, NULL, &out);
        else
            harness_on_device(harness_device(d - 1), g, &t, &in, 1, &second, 1, NULL, &out);
        for (uint32_t k = 0; k < n; k++) {
            const double w = want[k], v = got[k];
            if (isnan(w) ? !isnan(v) : !(v == w || fabs(v - w) <= ulp * fabs(w) * 0x1p-23))
                fail_msg("%s''(%g) on %s is %.9g, expected %.9g", name, x[k],
                         d ? copse_device_describe(harness_device(d - 1))->id : "reference", v, w);
        }
    }
    copse_graph_release(&g);
}

#define I INFINITY
#define N NAN
#define EXPECT(op, ulp, n, x, ...) \
    expect_second(#op, build_##op, (const double[])x, (const double[])__VA_ARGS__, n, ulp)
#define LIST(...)   \
    {               \
        __VA_ARGS__ \
    }

/* Kinks and infinities. At an infinity with a tangent the curvature is 0. */
static void special_values(void **state)
{
    (void)state;
    EXPECT(square, 0, 5, LIST(0, -3, I, -I, 1e30), LIST(2, 2, 2, 2, 2));
    EXPECT(relu, 0, 6, LIST(0, -0.0, 2, -2, I, N), LIST(0, 0, 0, 0, 0, 0));
    EXPECT(abs, 0, 5, LIST(0, 2, -2, -I, N), LIST(0, 0, 0, 0, 0));
    EXPECT(leaky_relu, 0, 4, LIST(0, 2, -2, I), LIST(0, 0, 0, 0));
    EXPECT(elu, 16, 5, LIST(0, 2, I, -I, -1), LIST(1.5, 0, 0, 0, 1.5 * exp(-1.0)));
    EXPECT(clip, 0, 4, LIST(-1, 2, 5, N), LIST(0, 0, 0, 0));
    EXPECT(exp, 16, 5, LIST(0, -I, I, N, 2), LIST(1, 0, I, N, exp(2.0)));
    EXPECT(log, 16, 4, LIST(1, 4, I, N), LIST(-1, -0.0625, 0, N));
    EXPECT(sqrt, 16, 3, LIST(1, 4, N), LIST(-0.25, -0.03125, N));
    EXPECT(sigmoid, 16, 5, LIST(0, 1, I, -I, N), LIST(0, -0.0908577476729485, 0, 0, N));
    EXPECT(tanh, 16, 5, LIST(0, 1, I, -I, N), LIST(0, -0.6397000084492246, 0, 0, N));
    EXPECT(softplus, 16, 4, LIST(0, I, -I, N), LIST(0.25, 0, 0, N));
    EXPECT(silu, 16, 4, LIST(0, I, -I, N), LIST(0.5, 0, 0, N));
    EXPECT(gelu, 16, 4, LIST(0, I, -I, N), LIST(0.7978845608028654, 0, 0, N));
    EXPECT(gelu_tanh, 16, 4, LIST(0, I, -I, N), LIST(0.7978845608028654, 0, 0, N));
    EXPECT(mish, 16, 4, LIST(0, I, -I, N), LIST(0.64, 0, 0, N));
    EXPECT(atan, 16, 5, LIST(0, 1, I, -I, N), LIST(0, -0.5, 0, 0, N));
    EXPECT(huber, 0, 5, LIST(0, 1, 2, -I, I), LIST(1, 1, 0, 0, 0));
    EXPECT(pow, 16, 3, LIST(1, 4, N), LIST(3.75, 7.5, N));
}

/* The Hessian of the cross-entropy of one row, diag(p) - p p^T, times v. */
static void entropy_of_a_row(void **state)
{
    static const double p[] = { 0.5, 0.25, 0.25 }, v[] = { 1, -2, 4 };
    double logits[3] = { (float)log(0.5), (float)log(0.25), (float)log(0.25) }, got[3],
           *in = logits, *out = got;
    copse_graph *g;
    copse_tensor *x, *dx, *d2, *y;
    (void)state;
    OK(copse_graph_create(harness_context(), &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(1, 3));
    for (int32_t label = 0; label <= 3; label++) {
        copse_tensor *labels = copse_fill(g, COPSE_I32, COPSE_SHAPE(1), label);
        y = copse_sparse_cross_entropy(g, x, labels, COPSE_SUM);
        copse_gradients(g, y, NULL, &x, 1, &dx);
        dx = copse_mul(g, dx,
                       copse_constant(g, COPSE_F32, COPSE_SHAPE(1, 3), (float[]){ 1, -2, 4 }));
        copse_gradients(g, copse_sum(g, dx, NULL, 0, false), NULL, &x, 1, &d2);
        OK(copse_graph_status(g));
        for (size_t d = 0; d < harness_device_count(); d++) {
            harness_on_device(harness_device(d), g, &x, &in, 1, &d2, 1, NULL, &out);
            for (uint32_t k = 0; k < 3; k++) {
                const double mean = p[0] * v[0] + p[1] * v[1] + p[2] * v[2],
                             want = label == 3 ? NAN : p[k] * (v[k] - mean);
                if (label == 3 ? !isnan(got[k]) : fabs(got[k] - want) > 1e-6)
                    fail_msg("label %d, element %u: %.9g, expected %.9g", (int)label, (unsigned)k,
                             got[k], want);
            }
        }
    }
    copse_graph_release(&g);
}

/* x^5 by x five times. */
static void higher_derivatives(void **state)
{
    double value = 2, got, *in = &value, *out = &got;
    static const double want[] = { 80, 160, 240, 240, 120, 0 };
    copse_graph *g;
    copse_tensor *x, *y;
    (void)state;
    OK(copse_graph_create(harness_context(), &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SCALAR);
    y = copse_mul(g, copse_square(g, copse_square(g, x)), x);
    for (size_t i = 0; i < COPSE_COUNT(want); i++) {
        copse_gradients(g, y, NULL, &x, 1, &y);
        OK(copse_graph_status(g));
        for (size_t d = 0; d < harness_device_count(); d++) {
            harness_on_device(harness_device(d), g, &x, &in, 1, &y, 1, NULL, &out);
            if (got != want[i])
                fail_msg("derivative %zu is %.9g, expected %g", i + 1, got, want[i]);
        }
    }
    copse_graph_release(&g);
}

/* ---- what has none ---- */

static void refused(copse_graph *g, copse_tensor *y, copse_tensor *x, const char *word)
{
    copse_tensor *dx;
    y = copse_sum(g, copse_square(g, y), NULL, 0, false);
    copse_gradients(g, y, NULL, &x, 1, &dx);
    OK(copse_graph_status(g));
    copse_gradients(g, copse_sum(g, dx, NULL, 0, false), NULL, &x, 1, &dx);
    FAILS(COPSE_ERR_UNSUPPORTED, copse__graph_take_failure(g), word);
}

static void refusals_give_advice(void **state)
{
    copse_graph *g;
    copse_tensor *x, *w, *labels;
    (void)state;
    OK(copse_graph_create(harness_context(), &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(1, 4, 4, 2));
    refused(
        g,
        copse_max_pool(g, x, &(struct copse_pool_params){ .window = { 3, 3 }, .stride = { 1, 1 } }),
        x, "max_pool has no derivative where windows overlap: use strides");
    x = copse_graph_input(g, "q", COPSE_F32, COPSE_SHAPE(1, 4, 2, 8));
    refused(g, copse_attention(g, x, x, x, NULL), x,
            "attention_grad has no derivative: write an attention");
    x = copse_graph_input(g, "rows", COPSE_F32, COPSE_SHAPE(4, 3));
    w = copse_graph_input(g, "w", COPSE_F32, COPSE_SHAPE(3, 5));
    labels = copse_fill(g, COPSE_I32, COPSE_SHAPE(4), 1);
    refused(g, copse_dense_cross_entropy(g, x, w, NULL, labels, NULL, NULL), x,
            "logits_grad has no derivative: for a loss");
    copse_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_tensor), cmocka_unit_test(other_ops),
        cmocka_unit_test(losses_with_derivatives), cmocka_unit_test(special_values),
        cmocka_unit_test(entropy_of_a_row),        cmocka_unit_test(higher_derivatives),
        cmocka_unit_test(refusals_give_advice),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
