/* SPDX-License-Identifier: MIT */
/* Cases of the cross-entropy with settings. Its inputs: logits, labels, and class weights where it
   has them. */
#include <math.h>

#include "copse/ops/losses.h"
#include "prover/cases/cases.h"

struct setting {
    copse_averaging averaging;
    float smoothing;
    bool has_weights, ignores;
    int32_t ignored;
};

static copse_tensor *class_loss_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct setting *s = user;
    const struct copse_cross_entropy_params p = { .averaging = s->averaging,
                                                  .label_smoothing = s->smoothing,
                                                  .class_weights = s->has_weights ? in[2] : NULL,
                                                  .ignores = s->ignores,
                                                  .ignored_label = s->ignored };
    return copse_cross_entropy(g, in[0], in[1], &p);
}

static const struct setting smooth = { COPSE_MEAN, 0.1f, false, false, 0 };

static const struct copse_case_op ops[] = {
    { .name = "cross_entropy",
      .accuracy = COPSE_ACCURACY_loss,
      .call = class_loss_build,
      .user = &smooth,
      .in = { F32_OF(2, 2), I32_OF(2) },
      .in_count = 2,
      .divides = true },
};

static const struct copse_case speeds[] = {
    { .op = "cross_entropy",
      .name = OF_SQUARE,
      .build = class_loss_build,
      .user = &smooth,
      .in = { SQUARE, I32_OF(SIDE) },
      .in_count = 2,
      .bytes = 4 * MATRIX },
};

static void class_loss_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 6));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *e = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 0));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(4));
    copse_tensor *six = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(6));
    const struct copse_cross_entropy_params weighted = { .class_weights = v },
                                            whole = { .class_weights = six };
    const struct copse_cross_entropy_params foreign = { .class_weights = r->other };
    REFUSES(r, SHAPE, "cross_entropy: operands f32[4, 6] and f32[5]: expected f32 logits",
            copse_cross_entropy(g, x, v, NULL));
    REFUSES(r, SHAPE, "i32[6]", copse_cross_entropy(g, x, six, NULL));
    REFUSES(r, SHAPE, "f32[4, 0]", copse_cross_entropy(g, e, n, NULL));
    REFUSES(r, SHAPE, "class_weights f32[5]: expected f32 [6]",
            copse_cross_entropy(g, x, n, &weighted));
    REFUSES(r, SHAPE, "class_weights i32[6]", copse_cross_entropy(g, x, n, &whole));
    REFUSES(r, SHAPE, "class_weights f32[2, 2]", copse_cross_entropy(g, x, n, &foreign));
    REFUSES(r, ARGUMENT, "label_smoothing 1.5 is not 0 to 1",
            copse_cross_entropy(g, x, n,
                                &(struct copse_cross_entropy_params){ .label_smoothing = 1.5f }));
    REFUSES(r, ARGUMENT, "label_smoothing nan",
            copse_cross_entropy(g, x, n,
                                &(struct copse_cross_entropy_params){ .label_smoothing = NAN }));
    REFUSES(r, ARGUMENT, "9 is no averaging",
            copse_cross_entropy(
                g, x, n, &(struct copse_cross_entropy_params){ .averaging = (copse_averaging)9 }));
}

#define WEIGHTS(classes)                                                                   \
    {                                                                                      \
        .type = COPSE_F32, .shape = DIMS(classes), .fill = COPSE_FILL_UNIFORM, .low = 0.5, \
        .high = 2, .is_constant = true                                                     \
    }
#define ROW(label, averaging, smoothing, has_weights, ignores, ignored, logits, labels, classes, \
            ...)                                                                                 \
    WEIGHTED(label, averaging, smoothing, has_weights, ignores, ignored, logits, labels,         \
             (WEIGHTS(classes)), __VA_ARGS__)
#define WEIGHTED(label, averaging, smoothing, has_weights, ignores, ignored, logits, labels,       \
                 weights, ...)                                                                     \
    {                                                                                              \
        .op = "cross_entropy", .name = label, .build = class_loss_build,                           \
        .user = &(const struct setting){ averaging, smoothing, has_weights, ignores, ignored },    \
        .in = { UNWRAP logits, UNWRAP labels, UNWRAP weights }, .in_count = (has_weights) ? 3 : 2, \
        .forward = { .ulp = 16 }, .backward = { .ulp = 16, .of_max = 1e-6 }, __VA_ARGS__           \
    }
#define SIZED(label, averaging, smoothing, has_weights, ignores, ignored, rows, cols, range, ...) \
    ROW(label, averaging, smoothing, has_weights, ignores, ignored,                               \
        UNIFORM(-range, range, DIMS(rows, cols)), I32_UNIFORM(0, cols - 1, DIMS(rows)), cols,     \
        __VA_ARGS__)
/* Every combination of settings. */
#define SETTINGS(label, rows, cols, range, tier_)                                                  \
    SIZED(label ", smoothing", COPSE_MEAN, 0.1f, false, false, 0, rows, cols, range,               \
          .tier = tier_),                                                                          \
        SIZED(label ", smoothing 1", COPSE_SUM, 1.0f, false, false, 0, rows, cols, range,          \
              .tier = tier_),                                                                      \
        SIZED(label ", weights", COPSE_MEAN, 0, true, false, 0, rows, cols, range, .tier = tier_), \
        SIZED(label ", weights, smoothing", COPSE_MEAN, 0.2f, true, false, 0, rows, cols, range,   \
              .tier = tier_),                                                                      \
        SIZED(label ", ignored", COPSE_MEAN, 0, false, true, 0, rows, cols, range, .tier = tier_), \
        SIZED(label ", all settings", COPSE_MEAN, 0.1f, true, true, cols - 1, rows, cols, range,   \
              .tier = tier_),                                                                      \
        SIZED(label ", sum of all", COPSE_SUM, 0.1f, true, true, 0, rows, cols, range,             \
              .tier = tier_),                                                                      \
        SIZED(label ", each", COPSE_EACH, 0.1f, true, true, 0, rows, cols, range, .tier = tier_),  \
        SIZED(label ", each, plain", COPSE_EACH, 0, false, false, 0, rows, cols, range,            \
              .tier = tier_)

#define HALVES                    \
    ({ .type = COPSE_F32,         \
       .shape = DIMS(3),          \
       .fill = COPSE_FILL_VALUES, \
       .values = halves,          \
       .value_count = 3,          \
       .is_constant = true })
#define I INFINITY
#define N NAN
static const double confident[] = { 20, 0, 0, -3, 15, -4, 0, 1, 30 };
static const double right[] = { 0, 1, 2 };
static const double plain[] = { 1, 2, 3, 4, 5, 6, -1, 0, 1, 7, 7, 7, 0, -9, 5, 2, 4, 8 };
static const double out_of_range[] = { 1, -1, 3, 2147483647, -2147483648.0, 2 };
/* The rows of the ignored label have any logits. */
static const double wild[] = { N, 1, 2, I, -I, 3, -I, -I, -I, 1, 2, 0, I, I, 1 };
static const double ignored[] = { -100, -100, -100, 1, -100 };
static const double hidden[] = { 0, -I, 0, 2, 1, -I };
static const double zeros[] = { 0 }, zeros_of_rows[] = { 0, 0, 0, 0, 0 };
static const double first[] = { 0, 0 };
static const double halves[] = { 0.5, 0, 2 };

static const struct copse_case cases[] = {
    SETTINGS("a batch of digits", 64, 10, 4, COPSE_TIER_QUICK),
    SETTINGS("a row longer than a group", 5, 257, 3, COPSE_TIER_STANDARD),
    SETTINGS("rows in two passes", 4, 5000, 3, COPSE_TIER_STANDARD),
    SETTINGS("1000 rows", 1000, 3, 2, COPSE_TIER_STANDARD),
    SETTINGS("two classes", 3, 2, 4, COPSE_TIER_FULL),
    SIZED("one class", COPSE_MEAN, 0, true, false, 0, 7, 1, 4, STANDARD, .is_poor = true),
    SIZED("nothing", COPSE_MEAN, 0.1f, true, true, 0, 0, 5, 4, STANDARD),
    SIZED("no losses of examples", COPSE_EACH, 0.1f, true, true, 0, 0, 5, 4, STANDARD),
    ROW("confident rows keep their digits", COPSE_SUM, 0, true, false, 0,
        VALUES(confident, DIMS(3, 3)), I32_VALUES(right, DIMS(3)), 3, QUICK,
        .skips_differences = true),
    ROW("labels out of range", COPSE_EACH, 0.1f, true, false, 0, VALUES(plain, DIMS(6, 3)),
        I32_VALUES(out_of_range, DIMS(6)), 3, QUICK, .skips_differences = true),
    ROW("labels out of range, one ignored", COPSE_EACH, 0, false, true, -1,
        VALUES(plain, DIMS(6, 3)), I32_VALUES(out_of_range, DIMS(6)), 3, QUICK,
        .skips_differences = true),
    ROW("ignored rows with any logits", COPSE_MEAN, 0.1f, false, true, -100,
        VALUES(wild, DIMS(5, 3)), I32_VALUES(ignored, DIMS(5)), 3, QUICK, .has_no_gradient = true),
    ROW("all are ignored: NaN", COPSE_MEAN, 0, false, true, 0, VALUES(plain, DIMS(6, 3)),
        I32_VALUES(zeros, DIMS(6)), 3, QUICK, .has_no_gradient = true),
    ROW("all are ignored: 0", COPSE_EACH, 0.5f, false, true, 0, VALUES(plain, DIMS(5, 3)),
        I32_VALUES(zeros, DIMS(5)), 3, QUICK, .has_no_gradient = true, .is_poor = true,
        .want = zeros_of_rows),
    ROW("logits of -Inf, smoothing", COPSE_EACH, 0.1f, false, false, 0, VALUES(hidden, DIMS(2, 3)),
        I32_VALUES(first, DIMS(2)), 3, STANDARD, .has_no_gradient = true),
    WEIGHTED("logits of -Inf in a class without weight", COPSE_MEAN, 0.1f, true, false, 0,
             VALUES(hidden, DIMS(2, 3)), I32_VALUES(first, DIMS(2)), HALVES, STANDARD,
             .has_no_gradient = true),
};

COPSE_CASE_TABLE(class_loss, OPS, SPEEDS, .refusals = class_loss_refusals)
