/* SPDX-License-Identifier: MIT */
/* Cases of Huber's loss, smooth L1, and cosines. */
#include <math.h>

#include "copse/ops/losses.h"
#include "prover/cases/cases.h"

struct setting {
    float number; /* delta, beta, margin */
    copse_averaging averaging;
};

static copse_tensor *build_huber(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    return copse_huber_loss(g, in[0], in[1], s->number, s->averaging);
}

static copse_tensor *build_smooth(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    return copse_smooth_l1_loss(g, in[0], in[1], s->number, s->averaging);
}

static copse_tensor *build_cosine(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_cosine_similarity(g, in[0], in[1]);
}

static copse_tensor *build_embedding(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    return copse_cosine_embedding_loss(g, in[0], in[1], in[2], s->number, s->averaging);
}

/* 1 plus the cosine of the magnitudes. */
static copse_tensor *size_embedding(copse_graph *g, copse_tensor *const *in, const void *user)
{
    copse_tensor *a = copse_abs(g, in[0]);
    copse_tensor *b = copse_abs(g, in[1]);
    a = copse_cosine_similarity(g, a, b);
    copse_tensor *one = copse_fill(g, COPSE_F32, COPSE_SCALAR, 1);
    a = copse_add(g, a, one);
    return copse__average(g, a, ((const struct setting *)user)->averaging);
}

#define SET(number, averaging) (&(const struct setting){ number, COPSE_##averaging })

static const struct copse_case_op ops[] = {
    { .name = "huber_loss",
      .accuracy = COPSE_ACCURACY_loss,
      .divides = true,
      .call = build_huber,
      .user = SET(1, MEAN),
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
    { .name = "smooth_l1_loss",
      .accuracy = COPSE_ACCURACY_loss,
      .divides = true,
      .call = build_smooth,
      .user = SET(1, MEAN),
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
    { .name = "cosine_similarity",
      .accuracy = COPSE_ACCURACY_loss,
      .divides = true,
      .call = build_cosine,
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
    { .name = "cosine_embedding_loss",
      .accuracy = COPSE_ACCURACY_loss,
      .divides = true,
      .call = build_embedding,
      .user = SET(0, MEAN),
      .in = { F32_OF(2, 2), F32_OF(2, 2), I32_OF(2) },
      .in_count = 3 },
};

static void distance_loss_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *three = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(3));
    copse_tensor *one = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    REFUSES(r, SHAPE, "huber_loss", copse_huber_loss(g, x, v, 1, COPSE_MEAN));
    REFUSES(r, ARGUMENT, "delta 0 is not", copse_huber_loss(g, x, x, 0, COPSE_MEAN));
    REFUSES(r, ARGUMENT, "delta inf", copse_huber_loss(g, x, x, INFINITY, COPSE_MEAN));
    REFUSES(r, ARGUMENT, "delta nan", copse_huber_loss(g, x, x, NAN, COPSE_MEAN));
    REFUSES(r, ARGUMENT, "no averaging", copse_huber_loss(g, x, x, 1, (copse_averaging)5));
    REFUSES(r, SHAPE, "smooth_l1_loss", copse_smooth_l1_loss(g, x, n, 1, COPSE_MEAN));
    REFUSES(r, ARGUMENT, "beta -1 is not", copse_smooth_l1_loss(g, x, x, -1, COPSE_MEAN));
    REFUSES(r, SHAPE, "cosine_similarity: operands f32[4, 6] and f32[5]",
            copse_cosine_similarity(g, x, v));
    REFUSES(r, SHAPE, "rank 1 or more", copse_cosine_similarity(g, one, one));
    REFUSES(r, SHAPE, "labels i32[3]: expected i32[4]",
            copse_cosine_embedding_loss(g, x, x, three, 0, COPSE_MEAN));
    REFUSES(r, SHAPE, "labels f32[5]", copse_cosine_embedding_loss(g, x, x, v, 0, COPSE_MEAN));
    REFUSES(r, ARGUMENT, "margin 1.5 is not -1 to 1",
            copse_cosine_embedding_loss(g, x, x, n, 1.5f, COPSE_MEAN));
}

#define ROW(op_, function, label, setting_, a, b, ...)                                          \
    {                                                                                           \
        .op = op_, .name = label, .build = build_##function, .user = setting_,                  \
        .in = { UNWRAP a, UNWRAP b }, .in_count = 2, .backward = { .ulp = 16, .of_max = 1e-6 }, \
        __VA_ARGS__                                                                             \
    }
#define HUBER(label, number, averaging, a, b, ...)                                          \
    ROW("huber_loss", huber, label, SET(number, averaging), a, b, .forward = { .ulp = 16 }, \
        __VA_ARGS__)
#define SMOOTH(label, number, averaging, a, b, ...)                                              \
    ROW("smooth_l1_loss", smooth, label, SET(number, averaging), a, b, .forward = { .ulp = 16 }, \
        __VA_ARGS__)
#define COSINE(label, a, b, ...) \
    ROW("cosine_similarity", cosine, label, NULL, a, b, .forward = { .ratio = 16 }, __VA_ARGS__)
#define EMBEDDING(label, number, averaging, a, b, labels, ...)                       \
    {                                                                                \
        .op = "cosine_embedding_loss", .name = label, .build = build_embedding,      \
        .user = SET(number, averaging), .in = { UNWRAP a, UNWRAP b, UNWRAP labels }, \
        .in_count = 3, .forward = { .ratio = 16 }, .magnitude = size_embedding,      \
        .backward = { .ulp = 16, .of_max = 1e-6 }, __VA_ARGS__                       \
    }

static const double similar[] = { 1, -1, -1, 1, -1, 0, 2 };
static const double still[] = { 0, 0, 0, 1, 2, 3, 1e-20, 0, 0 };
static const double moved[] = { 1, 2, 3, 0, 0, 0, 1, 1, 1 };

static const struct copse_case cases[] = {
    HUBER("usual range, mean", 1, MEAN, UNIFORM(-2, 2, DIMS(13, 17)), UNIFORM(-2, 2, DIMS(13, 17)),
          QUICK),
    HUBER("delta 0.3, sum", 0.3f, SUM, UNIFORM(-2, 2, DIMS(13, 17)), UNIFORM(-2, 2, DIMS(13, 17)),
          STANDARD),
    HUBER("a row, each", 2, EACH, UNIFORM(-2, 2, DIMS(13, 17)), UNIFORM(-2, 2, DIMS(17)), STANDARD),
    HUBER("4097 rows", 1, MEAN, FILL(POSITIVE, DIMS(4097, 3)), FILL(NORMAL, DIMS(4097, 3)),
          STANDARD, .skips_differences = true),
    HUBER("nothing", 1, MEAN, FILL(NORMAL, DIMS(0, 3)), FILL(NORMAL, DIMS(0, 3)), STANDARD),
    SMOOTH("usual range, mean", 1, MEAN, UNIFORM(-2, 2, DIMS(13, 17)), UNIFORM(-2, 2, DIMS(13, 17)),
           QUICK),
    SMOOTH("beta 0.3, each", 0.3f, EACH, UNIFORM(-2, 2, DIMS(13, 17)), UNIFORM(-2, 2, DIMS(13, 17)),
           STANDARD),
    SMOOTH("beta 0, sum", 0, SUM, UNIFORM(-2, 2, DIMS(13, 17)), UNIFORM(-2, 2, DIMS(13, 17)),
           QUICK),
    COSINE("usual range", FILL(NORMAL, DIMS(13, 17)), FILL(NORMAL, DIMS(13, 17)), QUICK),
    COSINE("three axes", FILL(NORMAL, DIMS(2, 3, 5)), FILL(NORMAL, DIMS(2, 3, 5)), STANDARD),
    COSINE("two vectors", FILL(NORMAL, DIMS(9)), FILL(NORMAL, DIMS(9)), STANDARD),
    COSINE("vectors longer than a group", FILL(NORMAL, DIMS(3, 700)), FILL(NORMAL, DIMS(3, 700)),
           STANDARD),
    COSINE("vectors of zeros", VALUES(still, DIMS(3, 3)), VALUES(moved, DIMS(3, 3)), QUICK,
           .skips_differences = true, .is_poor = true),
    COSINE("nothing", FILL(NORMAL, DIMS(0, 3)), FILL(NORMAL, DIMS(0, 3)), STANDARD),
    EMBEDDING("usual range, each", 0.1f, EACH, FILL(NORMAL, DIMS(7, 9)), FILL(NORMAL, DIMS(7, 9)),
              I32_VALUES(similar, DIMS(7)), QUICK, .has_no_gradient = true),
    EMBEDDING("usual range, mean", -0.2f, MEAN, FILL(NORMAL, DIMS(5, 9)), FILL(NORMAL, DIMS(5, 9)),
              I32_VALUES(similar, DIMS(5)), QUICK),
    EMBEDDING("usual range, sum", 0.1f, SUM, FILL(NORMAL, DIMS(5, 9)), FILL(NORMAL, DIMS(5, 9)),
              I32_VALUES(similar, DIMS(5)), STANDARD),
};

COPSE_CASE_TABLE(distance_loss, OPS, .refusals = distance_loss_refusals)
