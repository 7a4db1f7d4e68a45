/* SPDX-License-Identifier: MIT */
/* Cases of binary cross-entropy and Kullback-Leibler divergence. */
#include <math.h>

#include "copse/ops/losses.h"
#include "prover/cases/cases.h"

struct setting {
    copse_averaging averaging;
    bool has_weight;
};

static copse_tensor *build_binary(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    return copse_binary_cross_entropy(g, in[0], in[1], s->has_weight ? in[2] : NULL, s->averaging);
}

static copse_tensor *build_divergence(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return copse_kl_divergence(g, in[0], in[1], ((const struct setting *)user)->averaging);
}

/* The sum of p (|log p| + |log q|). */
static copse_tensor *size_divergence(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const copse_averaging averaging = ((const struct setting *)user)->averaging;
    const uint32_t last = in[0]->shape.rank - 1;
    copse_tensor *t = copse_log(g, in[1]);
    t = copse_abs(g, t);
    copse_tensor *log_q = copse_abs(g, in[0]);
    t = copse_add(g, t, log_q);
    t = copse_mul(g, t, in[1]);
    copse_tensor *zero = copse_fill(g, COPSE_F32, COPSE_SCALAR, 0);
    t = copse_where(g, in[1], t, zero);
    t = copse_sum(g, t, &last, 1, false);
    return copse__average(g, t, averaging);
}

static const struct setting mean = { COPSE_MEAN, false }, sum = { COPSE_SUM, false },
                            each = { COPSE_EACH, false };
static const struct setting weighted = { COPSE_MEAN, true }, each_weighted = { COPSE_EACH, true };

enum { COUNT_mean = 2, COUNT_sum = 2, COUNT_each = 2, COUNT_weighted = 3, COUNT_each_weighted = 3 };

static const struct copse_case_op ops[] = {
    { .name = "binary_cross_entropy",
      .accuracy = COPSE_ACCURACY_loss,
      .divides = true,
      .call = build_binary,
      .user = &mean,
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
    { .name = "kl_divergence",
      .accuracy = COPSE_ACCURACY_loss,
      .divides = true,
      .call = build_divergence,
      .user = &mean,
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
};

static const struct copse_case speeds[] = {
    { .op = "binary_cross_entropy",
      .name = OF_SQUARE,
      .build = build_binary,
      .user = &mean,
      .in = { SQUARE, SQUARE },
      .in_count = 2,
      .bytes = 4 * MATRIX },
    { .op = "kl_divergence",
      .name = OF_SQUARE,
      .build = build_divergence,
      .user = &mean,
      .in = { SQUARE, SQUARE },
      .in_count = 2,
      .bytes = 4 * MATRIX },
};

static void pair_loss_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6));
    copse_tensor *four = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4, 6));
    copse_tensor *one = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    REFUSES(r, SHAPE, "operands f32[4, 6] and f32[6]: expected two f32 tensors of one shape",
            copse_binary_cross_entropy(g, x, v, NULL, COPSE_MEAN));
    REFUSES(r, SHAPE, "i32[4, 6]", copse_binary_cross_entropy(g, x, n, NULL, COPSE_MEAN));
    REFUSES(r, SHAPE, "positive_weight f32[4] for logits f32[4, 6]",
            copse_binary_cross_entropy(g, x, x, four, COPSE_MEAN));
    REFUSES(r, ARGUMENT, "7 is no averaging",
            copse_binary_cross_entropy(g, x, x, NULL, (copse_averaging)7));
    REFUSES(r, SHAPE, "kl_divergence: operands f32[4, 6] and i32[4, 6]",
            copse_kl_divergence(g, x, n, COPSE_SUM));
    REFUSES(r, SHAPE, "kl_divergence: the operands are scalars",
            copse_kl_divergence(g, one, one, COPSE_SUM));
    REFUSES(r, ARGUMENT, "no averaging", copse_kl_divergence(g, x, x, (copse_averaging)-1));
}

#define BINARY(label, setting_, x, y, weight, ...)                                             \
    {                                                                                          \
        .op = "binary_cross_entropy", .name = label, .build = build_binary, .user = &setting_, \
        .in = { UNWRAP x,                                                                      \
                UNWRAP y,                                                                      \
                { .type = COPSE_F32,                                                           \
                  .shape = weight,                                                             \
                  .fill = COPSE_FILL_UNIFORM,                                                  \
                  .low = 0.5,                                                                  \
                  .high = 3 } },                                                               \
        .in_count = COUNT_##setting_, .forward = { .ulp = 16 },                                \
        .backward = { .ulp = 16, .of_max = 1e-6 }, __VA_ARGS__                                 \
    }
#define DIVERGENCE(label, setting_, log_q, p, ...)                                           \
    {                                                                                        \
        .op = "kl_divergence", .name = label, .build = build_divergence, .user = &setting_,  \
        .in = { UNWRAP log_q, UNWRAP p }, .in_count = 2, .forward = { .ratio = 16 },         \
        .magnitude = size_divergence, .backward = { .ulp = 16, .of_max = 1e-6 }, __VA_ARGS__ \
    }

#define I INFINITY
#define N NAN
static const double steep[] = {
    I, I, -I, -I, N, 1, 300, -300, 3e38, -3e38, 1e-30, 0, 50, -88.5, 0
};
static const double sides[] = { 0, 1, 0, 1, 1, N, 0, 1, 1, 0, 1, 0, 1, 1, 0.5 };
static const double costs[] = { I,
                                0,
                                0,
                                I,
                                N,
                                N,
                                300,
                                300,
                                0,
                                0,
                                0.69314718055994531,
                                0.69314718055994531,
                                1.9287498479639178e-22,
                                88.5,
                                0.69314718055994531 };
static const double logs[] = { -I, -1, -2, 0, -1, -I, N, -I, -3 };
static const double shares[] = { 0, 0.5, 0.5, 1, 0, 0, 0, 0.25, 0.75 };
static const double divergences[] = { 0.80685281944005469, 0, I };

static const struct copse_case cases[] = {
    BINARY("usual range, mean", mean, UNIFORM(-4, 4, DIMS(13, 17)), UNIFORM(0, 1, DIMS(13, 17)),
           DIMS(1), QUICK),
    BINARY("usual range, sum", sum, UNIFORM(-4, 4, DIMS(13, 17)), UNIFORM(0, 1, DIMS(13, 17)),
           DIMS(1), STANDARD),
    BINARY("usual range, each", each, UNIFORM(-4, 4, DIMS(13, 17)), UNIFORM(0, 1, DIMS(13, 17)),
           DIMS(1), QUICK),
    BINARY("weights of the last axis", weighted, UNIFORM(-4, 4, DIMS(13, 17)),
           UNIFORM(0, 1, DIMS(13, 17)), DIMS(17), QUICK),
    BINARY("weights of two axes", each_weighted, UNIFORM(-4, 4, DIMS(3, 4, 5)),
           UNIFORM(0, 1, DIMS(3, 4, 5)), DIMS(4, 5), STANDARD),
    BINARY("one weight", each_weighted, UNIFORM(-4, 4, DIMS(3, 4, 5)), UNIFORM(0, 1, DIMS(3, 4, 5)),
           DIMS(1), STANDARD),
    BINARY("distances of 50", each, UNIFORM(-50, 50, DIMS(600)), UNIFORM(0, 1, DIMS(600)), DIMS(1),
           STANDARD),
    BINARY("4097 rows", weighted, UNIFORM(-4, 4, DIMS(4097, 3)), UNIFORM(0, 1, DIMS(4097, 3)),
           DIMS(3), STANDARD, .skips_differences = true),
    BINARY("a scalar", mean, UNIFORM(-4, 4, NO_DIMS), UNIFORM(0, 1, NO_DIMS), DIMS(1), STANDARD),
    BINARY("nothing", mean, UNIFORM(-4, 4, DIMS(0, 3)), UNIFORM(0, 1, DIMS(0, 3)), DIMS(1),
           STANDARD),
    BINARY("infinite logits", each, VALUES(steep, DIMS(15)), VALUES(sides, DIMS(15)), DIMS(1),
           QUICK, .has_no_gradient = true, .want = costs),

    DIVERGENCE("usual range, mean", mean, UNIFORM(-6, 0, DIMS(13, 17)),
               UNIFORM(0.01, 1, DIMS(13, 17)), QUICK),
    DIVERGENCE("usual range, sum", sum, UNIFORM(-6, 0, DIMS(13, 17)),
               UNIFORM(0.01, 1, DIMS(13, 17)), STANDARD),
    DIVERGENCE("usual range, each", each, UNIFORM(-6, 0, DIMS(3, 4, 5)),
               UNIFORM(0.01, 1, DIMS(3, 4, 5)), QUICK),
    DIVERGENCE("a row longer than a group", each, UNIFORM(-6, 0, DIMS(3, 700)),
               UNIFORM(0.01, 1, DIMS(3, 700)), STANDARD),
    DIVERGENCE("one row", mean, UNIFORM(-6, 0, DIMS(5)), UNIFORM(0.01, 1, DIMS(5)), STANDARD),
    DIVERGENCE("4097 rows", mean, UNIFORM(-6, 0, DIMS(4097, 3)), UNIFORM(0.01, 1, DIMS(4097, 3)),
               STANDARD, .skips_differences = true),
    DIVERGENCE("nothing", mean, UNIFORM(-6, 0, DIMS(0, 3)), UNIFORM(0.01, 1, DIMS(0, 3)), STANDARD),
    DIVERGENCE("shares of 0", each, VALUES(logs, DIMS(3, 3)), VALUES(shares, DIMS(3, 3)), QUICK,
               .has_no_gradient = true, .want = divergences),
};

COPSE_CASE_TABLE(pair_loss, OPS, SPEEDS, .refusals = pair_loss_refusals)
