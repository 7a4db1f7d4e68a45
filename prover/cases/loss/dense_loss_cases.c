/* SPDX-License-Identifier: MIT */
/* Cases of the cross-entropy of a dense layer. Products of small whole numbers are exact, so that
   the limits are those of the cross-entropy. `chunk` sets how many classes are computed at once. */
#include <math.h>

#include "core/ops/loss/dense_loss.h"
#include "prover/cases/cases.h"

struct setting {
    uint32_t chunk;
    copse_averaging averaging;
    bool has_bias, ignores;
    int32_t ignored;
    bool is_transposed; /* w is [classes, width] */
};

/* x, w, labels and a bias, if any. */
static copse_tensor *dense_loss_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    const struct copse_cross_entropy_params p = { .averaging = s->averaging,
                                                  .ignores = s->ignores,
                                                  .ignored_label = s->ignored };
    const struct copse_dense_loss layer = { in[1], s->has_bias ? in[3] : NULL, s->is_transposed,
                                            s->chunk };
    return copse__dense_cross_entropy(g, in[0], &layer, in[2], &p, NULL);
}

/* The hits, as the result. */
static copse_tensor *build_hits(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    copse_tensor *hits;
    const struct copse_dense_loss layer = { .w = in[1], .chunk = s->chunk };
    (void)copse__dense_cross_entropy(g, in[0], &layer, in[2], NULL, &hits);
    return hits;
}

static const struct setting whole = { 0, COPSE_MEAN, false, false, 0, false };
static const struct copse_case_op ops[] = {
    { .name = "dense_cross_entropy",
      .accuracy = COPSE_ACCURACY_loss,
      .divides = true,
      .call = dense_loss_build,
      .user = &whole,
      .in = { F32_OF(2, 3), F32_OF(3, 4), I32_OF(2) },
      .in_count = 3 },
};

static const struct copse_case speeds[] = {
    { .op = "dense_cross_entropy",
      .name = "2048 x 128, 8192 classes",
      .build = dense_loss_build,
      .user = &whole,
      .in = { F32_OF(2048, 128), F32_OF(128, 8192), I32_OF(2048) },
      .in_count = 3,
      .flops = 2.0 * 2048 * 128 * 8192 },
};

static void dense_loss_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 5));
    copse_tensor *w = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 6));
    copse_tensor *narrow = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 0));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *three = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(3));
    const struct copse_cross_entropy_params smooth = { .label_smoothing = 0.1f },
                                            weighted = { .class_weights = v };
    const struct copse_cross_entropy_params unknown = { .averaging = (copse_averaging)9 };
#define CALL(...) copse_dense_cross_entropy(g, __VA_ARGS__, NULL)
    REFUSES(r, SHAPE,
            "dense_cross_entropy: operands f32[4, 5], f32[4, 5] and i32[4]: expected f32 x "
            "[examples, width]",
            CALL(x, x, NULL, n, NULL));
    REFUSES(r, SHAPE, "i32[3]", CALL(x, w, NULL, three, NULL));
    REFUSES(r, SHAPE, "f32[5, 0]", CALL(x, narrow, NULL, n, NULL));
    REFUSES(r, SHAPE, "f32[6]", CALL(v, w, NULL, n, NULL));
    REFUSES(r, SHAPE, "f32[4, 5]", CALL(x, w, NULL, x, NULL));
    REFUSES(r, SHAPE, "bias i32[4]: expected f32 [6]", CALL(x, w, n, n, NULL));
    REFUSES(r, SHAPE, "bias f32[4, 5]", CALL(x, w, x, n, NULL));
    REFUSES(r, SHAPE, "bias f32[2, 2]", CALL(x, w, r->other, n, NULL));
    REFUSES(r, UNSUPPORTED, "label_smoothing and class_weights need all logits",
            CALL(x, w, NULL, n, &smooth));
    REFUSES(r, UNSUPPORTED, "label_smoothing and class_weights need all logits",
            CALL(x, w, NULL, n, &weighted));
    REFUSES(r, ARGUMENT, "9", CALL(x, w, NULL, n, &unknown));
#undef CALL
}

#define CASE(label, how, x, w, labels, bias, ...)                                        \
    {                                                                                    \
        .op = "dense_cross_entropy", .name = label, .build = dense_loss_build,           \
        .user = &(const struct setting)how,                                              \
        .in = { UNWRAP x, UNWRAP w, UNWRAP labels, UNWRAP bias }, .in_count = 4,         \
        .forward = { .ulp = 16 }, .backward = { .ulp = 16, .of_max = 1e-6 }, __VA_ARGS__ \
    }
#define SETTING(chunk, averaging, ignores, ignored)     \
    {                                                   \
        chunk, averaging, true, ignores, ignored, false \
    }
#define TABLE_SETTING(chunk, averaging, ignores, ignored) \
    {                                                     \
        chunk, averaging, true, ignores, ignored, true    \
    }
#define TABLE(label, n, d, v, chunk, averaging, ignores, ignored, ...)                       \
    CASE(label, TABLE_SETTING(chunk, averaging, ignores, ignored), WHOLE(-1, 1, DIMS(n, d)), \
         WHOLE(-1, 1, DIMS(v, d)), I32_UNIFORM(0, (v)-1, DIMS(n)), WHOLE(-2, 2, DIMS(v)),    \
         __VA_ARGS__)
#define HITS(label, x, w, labels)                                                            \
    {                                                                                        \
        .op = "dense_cross_entropy", .name = label, .build = build_hits,                     \
        .user = &(const struct setting){ .chunk = 2 },                                       \
        .in = { UNWRAP x, UNWRAP w, UNWRAP labels }, .in_count = 3, .has_no_gradient = true, \
        .want = hits, QUICK, .is_poor = true                                                 \
    }
/* Numbers of a few bits: products are exact. */
#define SIZED(label, n, d, v, chunk, averaging, ignores, ignored, ...)                    \
    CASE(label, SETTING(chunk, averaging, ignores, ignored), WHOLE(-1, 1, DIMS(n, d)),    \
         WHOLE(-1, 1, DIMS(d, v)), I32_UNIFORM(0, (v)-1, DIMS(n)), WHOLE(-2, 2, DIMS(v)), \
         __VA_ARGS__)
#define SIZES(label, n, d, v, chunk, tier_)                                                       \
    SIZED(label ", mean", n, d, v, chunk, COPSE_MEAN, false, 0, .tier = tier_),                   \
        SIZED(label ", sum", n, d, v, chunk, COPSE_SUM, false, 0, .tier = tier_),                 \
        SIZED(label ", each, ignored", n, d, v, chunk, COPSE_EACH, true, (v) / 2, .tier = tier_), \
        SIZED(label ", mean, ignored", n, d, v, chunk, COPSE_MEAN, true, (v) / 2, .tier = tier_)

#define I INFINITY
#define N NAN
/* One number for each example, and factors of it: logits of any size. */
static const double ones[] = { 1, 1, 1, 1, 1, 1 };
static const double spread[] = { 20, 0, 0, -3, 15, -4, 0, 1, 30 };
static const double last_of[] = { 0, 4, 8 };
static const double out_of_range[] = { 8, -1, 9, 2147483647, -2147483648.0, 2 };
static const double lone[] = { 1, N, I, -I, 0 }, of_lone[] = { 0, 1, 2, 3, 1 };
static const double hidden[] = { -I, -I, -I, -I, 2, 1, -I, 0, -I }, to_hidden[] = { 4, 7, 0, 5, 4 };
static const double ignored_of[] = { -100, -100, -100, 2, -100 };
static const double three[] = { 1, 2, 0, 1, 2, 3, 0, 0, 3 }, best[] = { 1, 0, 2 },
                    eye[] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
static const double hits[] = { 1, 0, 1 };

static const struct copse_case cases[] = {
    SIZES("chunks of 4", 7, 3, 10, 4, COPSE_TIER_QUICK),
    SIZES("one chunk", 7, 3, 10, 0, COPSE_TIER_STANDARD),
    SIZES("chunks of one class", 5, 3, 6, 1, COPSE_TIER_STANDARD),
    SIZES("70 chunks", 5, 4, 140, 2, COPSE_TIER_STANDARD),
    SIZES("rows of more than a group", 3, 5, 1100, 300, COPSE_TIER_STANDARD),
    SIZES("more rows than two groups", 600, 3, 9, 4, COPSE_TIER_STANDARD),
    SIZES("one example", 1, 3, 9, 4, COPSE_TIER_FULL),
    TABLE("a table, chunks of 4", 7, 3, 10, 4, COPSE_MEAN, false, 0, QUICK),
    TABLE("a table, one chunk", 7, 3, 10, 0, COPSE_SUM, false, 0, STANDARD),
    TABLE("a table, ignored", 5, 3, 1100, 300, COPSE_MEAN, true, 550, STANDARD),
    SIZED("nothing", 0, 3, 9, 4, COPSE_SUM, false, 0, STANDARD),
    CASE("numbers that are not whole", SETTING(50, COPSE_MEAN, false, 0),
         UNIFORM(-1, 1, DIMS(40, 8)), UNIFORM(-1, 1, DIMS(8, 130)), I32_UNIFORM(0, 129, DIMS(40)),
         UNIFORM(-1, 1, DIMS(130)), STANDARD),
    CASE("confident rows", SETTING(3, COPSE_EACH, false, 0), VALUES(ones, DIMS(3, 1)),
         VALUES(spread, DIMS(1, 9)), I32_VALUES(last_of, DIMS(3)), WHOLE(0, 0, DIMS(9)), QUICK,
         .skips_differences = true),
    CASE("labels out of range", SETTING(4, COPSE_EACH, false, 0), VALUES(ones, DIMS(6, 1)),
         WHOLE(-2, 2, DIMS(1, 9)), I32_VALUES(out_of_range, DIMS(6)), WHOLE(-2, 2, DIMS(9)), QUICK,
         .skips_differences = true, .is_poor = true),
    CASE("labels out of range, one ignored", SETTING(4, COPSE_EACH, true, -1),
         VALUES(ones, DIMS(6, 1)), WHOLE(-2, 2, DIMS(1, 9)), I32_VALUES(out_of_range, DIMS(6)),
         WHOLE(-2, 2, DIMS(9)), QUICK, .skips_differences = true, .is_poor = true),
    CASE("examples of NaN and infinities", SETTING(2, COPSE_EACH, false, 0),
         VALUES(lone, DIMS(5, 1)), WHOLE(1, 2, DIMS(1, 5)), I32_VALUES(of_lone, DIMS(5)),
         WHOLE(-2, 2, DIMS(5)), QUICK, .has_no_gradient = true),
    CASE("ignored rows with any logits", SETTING(2, COPSE_EACH, true, -100),
         VALUES(lone, DIMS(5, 1)), WHOLE(1, 2, DIMS(1, 5)), I32_VALUES(ignored_of, DIMS(5)),
         WHOLE(-2, 2, DIMS(5)), QUICK, .has_no_gradient = true),
    /* A chunk of -Inf only adds nothing. */
    CASE("biases of -Inf", SETTING(2, COPSE_EACH, false, 0), WHOLE(-2, 2, DIMS(5, 1)),
         WHOLE(-2, 2, DIMS(1, 9)), I32_VALUES(to_hidden, DIMS(5)), VALUES(hidden, DIMS(9)), QUICK,
         .has_no_gradient = true),
    HITS("hits", VALUES(three, DIMS(3, 3)), VALUES(eye, DIMS(3, 3)), I32_VALUES(best, DIMS(3))),
};

COPSE_CASE_TABLE(dense_loss, OPS, SPEEDS, .refusals = dense_loss_refusals)
