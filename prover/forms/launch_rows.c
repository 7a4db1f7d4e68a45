/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of rows: statistics, softmax, losses, norms, argmax. */
#include <math.h>

#include "core/ops/ops.h"
#include "prover/forms/arranged_rows.h"
#include "prover/forms/lines.h"

enum {
    RESULT = COPSE_CONTENT_RESULT,
    WORDS = COPSE_CONTENT_WORDS,
    VALUES = COPSE_CONTENT_VALUES,
    USUAL = COPSE_CONTENT_USUAL,
    INDEX = COPSE_CONTENT_INDEX,
    ARRANGED = COPSE_CONTENT_ARRANGED
};
enum { FORWARD, GRADIENT, SCALE_GRADIENT, BOTH }; /* of kernels/norm/layer_norm.cl */

#define COLS 5u

static uint32_t rows_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

#define LONG_CHUNKS ((COPSE_LONG_LINE + 63) / 64) /* of three lines */

/* ---- argmax ---- */

static void plan_argmax(struct copse_launch *l)
{
    struct copse_params_argmax p = {
        .n = rows_extent(l), .extent = 9, .count = 9, .chunks = 1, .inner = 3
    };
    if (l->regime == COPSE_REGIME_FEW) { /* two invocations for each line */
        p.extent = p.count = 70;
        p.chunks = 2;
    }
    if (!l->spec[0]) {
        p.count = COPSE_MIN(p.count, 7);
        p.chunks = 1;
    }
    if (l->form->is_long)
        p = (struct copse_params_argmax){ 3 * LONG_CHUNKS, COPSE_LONG_LINE, COPSE_LONG_LINE,
                                          LONG_CHUNKS, 1 };
    const size_t outer = (p.n + p.chunks * p.inner - 1) / (p.chunks * p.inner);
    COPSE_LAUNCH_PLAN(l, p, l->want + l->form->is_long, outer * p.extent * p.inner,
                      l->spec[0] ? 1 : outer * p.count * p.inner, p.n);
}

static void arrange_argmax(const struct copse_launch *l, uint32_t *const *words)
{
    for (size_t i = 0; i < l->counts[1]; i++)
        words[1][i] = (uint32_t)(i * 5 % (l->form->is_long ? COPSE_LONG_LINE : 9));
}

/* ---- softmax and the losses ---- */

static void plan_row_stats(struct copse_launch *l)
{
    struct copse_params_row_stats p = { .n = rows_extent(l), .count = COLS, .chunks = 1 };
    if (l->regime == COPSE_REGIME_FEW) {
        p.count = 70;
        p.chunks = 2;
    }
    if (l->form->is_long)
        p = (struct copse_params_row_stats){ 3 * LONG_CHUNKS, COPSE_LONG_LINE, LONG_CHUNKS };
    const size_t rows = (p.n + p.chunks - 1) / p.chunks;
    COPSE_LAUNCH_PLAN(l, p, l->want + l->form->is_long, rows * p.count * (l->spec[0] ? 1 : 2),
                      2 * (size_t)p.n);
}

/* Of the pairs (m, t), t is a sum of exponentials. */
static void rows_positive(uint32_t *pairs, size_t words)
{
    for (size_t i = 1; i < words; i += 2)
        pairs[i] &= 0x7fffffffu;
}

static void arrange_row_stats(const struct copse_launch *l, uint32_t *const *words)
{
    if (!l->spec[0])
        rows_positive(words[0], l->counts[0]);
}

static void plan_softmax(struct copse_launch *l)
{
    struct copse_params_softmax p = { .n = rows_extent(l), .cols = COLS };
    copse__divisor(p.cols, &p.m, &p.h);
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, 2 * (size_t)((p.n + COLS - 1) / COLS), p.n);
}

static void arrange_softmax(const struct copse_launch *l, uint32_t *const *words)
{
    rows_positive(words[1], l->counts[1]);
}

static void plan_cross_entropy(struct copse_launch *l)
{
    const struct copse_params_cross_entropy p = { rows_extent(l), COLS };
    l->range = COLS;
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)p.rows * COLS, p.rows, 2 * (size_t)p.rows, p.rows);
}

static void plan_cross_entropy_grad(struct copse_launch *l)
{
    struct copse_params_cross_entropy_grad p = { .n = rows_extent(l),
                                                 .cols = COLS,
                                                 .divisor = copse__launch_either(l, 4.0f, 8.0f) };
    const size_t rows = (p.n + COLS - 1) / COLS;
    copse__divisor(p.cols, &p.m, &p.h);
    l->range = COLS;
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, rows, 2 * rows, 1, p.n);
}

static void arrange_loss(const struct copse_launch *l, uint32_t *const *words)
{
    rows_positive(words[2], l->counts[2]);
}

/* The one upstream slope is zero, NaN or infinite in launches of these classes. */
static void arrange_loss_grad(const struct copse_launch *l, uint32_t *const *words)
{
    const bool is_special = l->values == COPSE_VALUES_ZEROS || l->values == COPSE_VALUES_NANS ||
                            l->values == COPSE_VALUES_INFINITIES;
    const float slope = is_special ? copse__launch_number(l) : 0.75f;
    arrange_loss(l, words);
    memcpy(words[3], &slope, sizeof slope);
}

#define IGNORED   2u
#define FIRST_COL 3u /* the chunk has COLS columns from here on */

static void plan_label_logit(struct copse_launch *l)
{
    const struct copse_params_label_logit p = { rows_extent(l), COLS, FIRST_COL };
    l->range = FIRST_COL + COLS + 1;
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)p.rows * COLS, p.rows, p.rows, p.rows);
}

static void plan_logits_grad(struct copse_launch *l)
{
    struct copse_params_logits_grad p = { .n = rows_extent(l),
                                          .cols = COLS,
                                          .first = FIRST_COL,
                                          .classes = FIRST_COL + COLS + 1,
                                          .ignored = IGNORED };
    const size_t rows = (p.n + COLS - 1) / COLS;
    copse__divisor(p.cols, &p.m, &p.h);
    l->range = p.classes;
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, rows, 2 * rows, rows, p.n);
}

static void plan_class_loss(struct copse_launch *l)
{
    struct copse_params_class_loss p = { .n = rows_extent(l),
                                         .cols = COLS,
                                         .ignored = IGNORED,
                                         .at_label = copse__launch_either(l, 0.75f, 0.9375f),
                                         .share = copse__launch_either(l, 0.25f, 0.0625f) };
    const size_t rows = l->spec[0] ? (p.n + COLS - 1) / COLS : p.n;
    copse__divisor(p.cols, &p.m, &p.h);
    l->range = COLS;
    COPSE_LAUNCH_PLAN(l, p, l->want, rows * COLS, rows, 2 * rows, COLS, p.n);
}

static void plan_class_loss_grad(struct copse_launch *l)
{
    struct copse_params_class_loss_grad p = { .n = rows_extent(l),
                                              .cols = COLS,
                                              .ignored = IGNORED,
                                              .at_label = copse__launch_either(l, 0.75f, 0.9375f),
                                              .share = copse__launch_either(l, 0.25f, 0.0625f),
                                              .keep = copse__launch_either(l, 0.5f, 0.75f),
                                              .smoothing = copse__launch_either(l, 0.5f, 0.25f) };
    const size_t rows = (p.n + COLS - 1) / COLS;
    copse__divisor(p.cols, &p.m, &p.h);
    l->range = COLS;
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, rows, 2 * rows, COLS, 1, rows, p.n);
}

/* ---- rows for wide vectors ---- */

/* A row of the regime of few groups takes several rounds of a group. */
static uint32_t cols_of(const struct copse_launch *l)
{
    return l->form->is_long                 ? COPSE_LONG_LINE
           : l->regime == COPSE_REGIME_FEW  ? 1100
           : l->regime == COPSE_REGIME_AXIS ? 5
                                            : 37;
}

/* Two rows to a group; the last one has one. */
static uint32_t rows_by_two(const struct copse_launch *l)
{
    return 2 * (uint32_t)l->want - 1;
}

static void plan_row_stats_wide(struct copse_launch *l)
{
    const struct copse_params_row_stats_wide p = { rows_by_two(l), cols_of(l), 2 };
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)p.rows * p.cols, 2 * (size_t)p.rows);
}

static void plan_softmax_wide(struct copse_launch *l)
{
    const struct copse_params_softmax_wide p = { rows_by_two(l), cols_of(l), 2 };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n);
}

static void plan_softmax_grad(struct copse_launch *l)
{
    const struct copse_params_softmax_grad p = { (uint32_t)l->want, cols_of(l) };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n, n);
}

static void plan_softmax_grad_wide(struct copse_launch *l)
{
    const struct copse_params_softmax_grad_wide p = { rows_by_two(l), cols_of(l), 2 };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n, n);
}

static void plan_softmax_groups(struct copse_launch *l)
{
    const struct copse_params_softmax_groups p = { (uint32_t)l->want, cols_of(l),
                                                   copse__launch_either(l, 0.75f, 0.5f) };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n);
}

static void plan_softmax_groups_grad(struct copse_launch *l)
{
    const struct copse_params_softmax_groups_grad p = { (uint32_t)l->want, cols_of(l),
                                                        copse__launch_either(l, 0.75f, 0.5f) };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n, n);
}

static void plan_cross_entropy_grad_wide(struct copse_launch *l)
{
    const struct copse_params_cross_entropy_grad_wide p = { rows_by_two(l), cols_of(l),
                                                            copse__launch_either(l, 4.0f, 8.0f),
                                                            2 };
    const size_t n = (size_t)p.rows * p.cols;
    l->range = p.cols;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, p.rows, 2 * (size_t)p.rows, 1, n);
}

void copse__arrange_softmax_grad(const struct copse_launch *l, uint32_t *const *words)
{
    for (size_t i = 0; l->spec[0] && i < l->counts[0]; i++)
        words[0][i] |= 0x80000000u;
}

void copse__arrange_loss_grad(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t rows = l->counts[1], cols = l->counts[0] / rows;
    arrange_loss_grad(l, words);
    for (size_t row = 0; row < rows; row++) {
        float m = -INFINITY, x;
        for (size_t i = row * cols; i < (row + 1) * cols && !isnan(m); i++) {
            memcpy(&x, &words[0][i], sizeof x);
            m = x <= m ? m : x;
        }
        memcpy(&words[2][2 * row], &m, sizeof m);
    }
}

/* ---- norms ---- */

static size_t second_of(const struct copse_launch *l, size_t rows, size_t cols)
{
    return l->spec[0] == FORWARD ? cols : rows * cols;
}

size_t copse__words_of_norm_z(const struct copse_launch *l, size_t n)
{
    return l->spec[0] == BOTH || (l->spec[0] == FORWARD && l->spec[2]) ? n : 1;
}

#define PLAN_NORM(l, p, groups_)                                                                 \
    do {                                                                                         \
        const size_t n_ = (size_t)(p).rows * (p).cols;                                           \
        COPSE_LAUNCH_PLAN(l, p, groups_, n_, (p).cols, second_of(l, (p).rows, (p).cols), n_, n_, \
                          copse__words_of_norm_z(l, n_));                                        \
    } while (0)

static void plan_norm(struct copse_launch *l)
{
    const struct copse_params_layer_norm p = { (uint32_t)l->want, cols_of(l),
                                               copse__launch_either(l, 0.125f, 0.5f) };
    PLAN_NORM(l, p, l->want);
}

static void plan_norm_wide(struct copse_launch *l)
{
    const struct copse_params_layer_norm_wide p = { rows_by_two(l), cols_of(l),
                                                    copse__launch_either(l, 0.125f, 0.5f), 2 };
    PLAN_NORM(l, p, l->want);
}

/* Two rows of more elements than the levels of a sum take at once. */
#define LONG_ROW ((64u * 64 + 4) * 64 + 1)

static void plan_norm_long(struct copse_launch *l)
{
    const struct copse_params_layer_norm p = { 2, LONG_ROW, 0.125f };
    PLAN_NORM(l, p, p.rows);
}

static void plan_groups_long(struct copse_launch *l)
{
    const struct copse_params_softmax_groups p = { 2, LONG_ROW, 0.75f };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, p.rows, n, n);
}

static void plan_groups_grad_long(struct copse_launch *l)
{
    const struct copse_params_softmax_groups_grad p = { 2, LONG_ROW, 0.75f };
    const size_t n = (size_t)p.rows * p.cols;
    COPSE_LAUNCH_PLAN(l, p, p.rows, n, n, n);
}

static void plan_norm_wide_long(struct copse_launch *l)
{
    const struct copse_params_layer_norm_wide p = { 2, LONG_ROW, 0.125f, 2 };
    PLAN_NORM(l, p, 1);
}

void copse__arrange_norm_mean(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t cols = l->counts[1];
    for (size_t i = 0; i < l->counts[0]; i++) {
        float x;
        memcpy(&x, &words[0][i], sizeof x);
        x += i / cols % 2 ? -1000.0f : 1000.0f;
        memcpy(&words[0][i], &x, sizeof x);
    }
}

/* A row of equal numbers, except that the first one is the next larger number. The computed mean of
   so many numbers is wrong by some ULPs, so the variance of the wide kernel is below 0. */
static void plan_norm_wide_equal(struct copse_launch *l)
{
    const struct copse_params_layer_norm_wide p = { 1, 1211856, 0.125f, 2 };
    PLAN_NORM(l, p, 1);
}

static void arrange_norm_equal(const struct copse_launch *l, uint32_t *const *words)
{
    const float x = 0x1.d0e826p0f;
    for (size_t i = 0; i < l->counts[0]; i++)
        memcpy(&words[0][i], &x, sizeof x);
    words[0][0]++;
}

/* ---- the forms ---- */

#define NO_REALS \
    .no_values = COPSE_ALL_VALUES & ~COPSE_WHOLE_VALUES, .why = "integers have no such numbers"
#define SHARES .zero_why = "a share and the logarithm of one that is 0 have no sign"
#define ROW_STATS(label, is_first, ...)                                                       \
    {                                                                                         \
        .kernel = COPSE_KERNEL_row_stats, .name = label, .spec = { is_first },                \
        .contents = { VALUES, RESULT }, .plan = plan_row_stats, .arrange = arrange_row_stats, \
        .is_rare = true, SHARES, __VA_ARGS__                                                  \
    }
#define SOFTMAX(label, is_logarithm, ...)                                                         \
    {                                                                                             \
        .kernel = COPSE_KERNEL_softmax, .name = label, .spec = { is_logarithm },                  \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_softmax, .arrange = arrange_softmax, \
        .is_rare = true, SHARES, __VA_ARGS__                                                      \
    }
#define SOFTMAX_WIDE(label, is_logarithm, ...)                                              \
    {                                                                                       \
        .kernel = COPSE_KERNEL_softmax_wide, .name = label, .spec = { is_logarithm },       \
        .contents = { VALUES, RESULT }, .plan = plan_softmax_wide, .is_rare = true, SHARES, \
        __VA_ARGS__                                                                         \
    }
#define SOFTMAX_GRAD(kernel_, label, is_logarithm, ...)                                       \
    {                                                                                         \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { is_logarithm },            \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_##kernel_,                       \
        .arrange = copse__arrange_softmax_grad, .cap = 4, .is_rare = true, APART, __VA_ARGS__ \
    }
#define SOFTMAX_GRAD_SHORT(label, is_logarithm)                                          \
    {                                                                                    \
        .kernel = COPSE_KERNEL_softmax_grad, .name = label, .spec = { is_logarithm, 1 }, \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_softmax_grad,               \
        .arrange = copse__arrange_softmax_grad, .cap = 4, .is_rare = true, APART         \
    }
#define ALL_SIZES .no_regimes = 0
#define SOFTMAX_GRADS(kernel_)                                 \
    SOFTMAX_GRAD(kernel_, "softmax", 0, ALL_SIZES),            \
        SOFTMAX_GRAD(kernel_, "logarithm", 1, ALL_SIZES),      \
        SOFTMAX_GRAD(kernel_, "softmax, long", 0, COPSE_LONG), \
        SOFTMAX_GRAD(kernel_, "logarithm, long", 1, COPSE_LONG)
#define GROUPS(label, plan_, ...)                                                             \
    {                                                                                         \
        .kernel = COPSE_KERNEL_softmax_groups, .name = label, .contents = { VALUES, RESULT }, \
        .plan = plan_, .is_rare = true, SHARES, __VA_ARGS__                                   \
    }
#define GROUPS_GRAD(label, plan_, ...)                                                           \
    {                                                                                            \
        .kernel = COPSE_KERNEL_softmax_groups_grad, .name = label,                               \
        .contents = { VALUES, VALUES, RESULT }, .plan = plan_, .cap = 4, .is_rare = true, APART, \
        __VA_ARGS__                                                                              \
    }
#define ONCE \
    .no_values = COPSE_ALL_VALUES & ~1u, COPSE_FEW_ALONE, .why = "long rows take one launch"
/* A subnormal number times an infinity is infinite, or NaN where the number was rounded to 0. */
#define APART .apart = COPSE_BIT(COPSE_VALUES_SUBNORMALS)
#define NORM_AS(label, ...)                                                                \
    {                                                                                      \
        .kernel = COPSE_KERNEL_layer_norm, .name = label, .spec = { __VA_ARGS__ },         \
        .contents = { VALUES, VALUES, VALUES, VALUES, RESULT, RESULT }, .plan = plan_norm, \
        .cap = 4, .is_rare = true, APART                                                   \
    }
#define NORM(label, op, is_centered, adds) \
    NORM_AS(label, op, is_centered, adds), NORM_AS(label ", short", op, is_centered, adds, 1)
#define NORM_WIDE(label, op, is_centered, adds)                                                   \
    {                                                                                             \
        .kernel = COPSE_KERNEL_layer_norm_wide, .name = label, .spec = { op, is_centered, adds }, \
        .contents = { VALUES, VALUES, VALUES, VALUES, RESULT, RESULT }, .plan = plan_norm_wide,   \
        .cap = 4, .is_rare = true, APART                                                          \
    }
/* One of these for each result of u. */
#define NORMS(form)                                                                              \
    form("forward", FORWARD, 1, 0), form("forward of a sum", FORWARD, 1, 1),                     \
        form("gradient", GRADIENT, 1, 0), form("gradient, added", GRADIENT, 1, 1),               \
        form("gradient of the scale", SCALE_GRADIENT, 1, 0), form("both gradients", BOTH, 1, 0), \
        form("both gradients, added", BOTH, 1, 1), form("RMS", FORWARD, 0, 0),                   \
        form("RMS of a sum", FORWARD, 0, 1), form("RMS, gradient", GRADIENT, 0, 0),              \
        form("RMS, gradient, added", GRADIENT, 0, 1),                                            \
        form("RMS, gradient of the scale", SCALE_GRADIENT, 0, 0),                                \
        form("RMS, both gradients", BOTH, 0, 0), form("RMS, both gradients, added", BOTH, 0, 1)
#define NORM_OF(kernel_, label, op, plan_, wide, ...)                                  \
    {                                                                                  \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { op, 1 },            \
        .contents = { VALUES, VALUES, VALUES, VALUES, RESULT, RESULT }, .plan = plan_, \
        .no_values = COPSE_ALL_VALUES & ~1u,                                           \
        .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW), __VA_ARGS__    \
    }
#define LONG_ROWS  .why = "long rows take one launch"
#define LARGE_MEAN .why = "large means take one launch", .arrange = copse__arrange_norm_mean

/* A weight of 0 where the class has other numbers than usual ones. */
static void arrange_weights(const struct copse_launch *l, uint32_t *const *words)
{
    arrange_loss(l, words);
    if (l->values != COPSE_VALUES_USUAL)
        words[3][1] = 0;
}

#define LOGITS_GRAD(label, has_ignored)                                                  \
    {                                                                                    \
        .kernel = COPSE_KERNEL_logits_grad, .name = label, .spec = { has_ignored },      \
        .contents = { VALUES, INDEX, VALUES, VALUES, RESULT }, .plan = plan_logits_grad, \
        .arrange = arrange_loss, .is_rare = true, APART                                  \
    }

/* Weights are usual numbers: a product with a subnormal one has few digits. */
#define CLASS_LOSS(label, is_wide, has_ignored)                                             \
    {                                                                                       \
        .kernel = COPSE_KERNEL_class_loss, .name = label, .spec = { is_wide, has_ignored }, \
        .contents = { VALUES, INDEX, VALUES, USUAL, RESULT }, .plan = plan_class_loss,      \
        .arrange = arrange_weights, .cap = 65536, .is_rare = true, APART                    \
    }
#define CLASS_LOSS_GRAD(label, has_ignored)                                                      \
    {                                                                                            \
        .kernel = COPSE_KERNEL_class_loss_grad, .name = label, .spec = { has_ignored },          \
        .contents = { VALUES, INDEX, VALUES, USUAL, USUAL, VALUES, RESULT },                     \
        .plan = plan_class_loss_grad, .arrange = arrange_weights, .cap = 65536, .is_rare = true, \
        APART                                                                                    \
    }

static const struct copse_launch_form forms[] = {
    { .kernel = COPSE_KERNEL_argmax,
      .name = "first",
      .spec = { 1 },
      .contents = { VALUES, ARRANGED, WORDS },
      .plan = plan_argmax },
    { .kernel = COPSE_KERNEL_argmax,
      .name = "later",
      .contents = { VALUES, ARRANGED, WORDS },
      .plan = plan_argmax,
      .arrange = arrange_argmax },
    { .kernel = COPSE_KERNEL_argmax,
      .name = "first, long",
      .spec = { 1 },
      .contents = { VALUES, ARRANGED, WORDS },
      .plan = plan_argmax,
      COPSE_LONG },
    { .kernel = COPSE_KERNEL_argmax,
      .name = "later, long",
      .contents = { VALUES, ARRANGED, WORDS },
      .plan = plan_argmax,
      .arrange = arrange_argmax,
      COPSE_LONG },
    ROW_STATS("first", 1, ALL_SIZES),
    ROW_STATS("later", 0, ALL_SIZES),
    ROW_STATS("first, long", 1, COPSE_LONG),
    ROW_STATS("later, long", 0, COPSE_LONG),
    SOFTMAX("softmax", 0, .why = NULL),
    SOFTMAX("logarithm", 1, .why = NULL),
    { .kernel = COPSE_KERNEL_cross_entropy,
      .name = "",
      .contents = { VALUES, INDEX, VALUES, RESULT },
      .plan = plan_cross_entropy,
      .arrange = arrange_loss,
      .is_rare = true,
      SHARES },
    { .kernel = COPSE_KERNEL_cross_entropy_grad,
      .name = "",
      .contents = { VALUES, INDEX, VALUES, VALUES, RESULT },
      .plan = plan_cross_entropy_grad,
      .arrange = arrange_loss_grad,
      .is_rare = true,
      SHARES },
    { .kernel = COPSE_KERNEL_label_logit,
      .name = "",
      .contents = { VALUES, INDEX, VALUES, RESULT },
      .plan = plan_label_logit,
      .is_single = true },
    LOGITS_GRAD("", 0),
    LOGITS_GRAD("ignored", 1),
    CLASS_LOSS("label", 0, 0),
    CLASS_LOSS("label, ignored", 0, 1),
    CLASS_LOSS("classes", 1, 1),
    CLASS_LOSS("classes, none ignored", 1, 0),
    CLASS_LOSS_GRAD("", 0),
    CLASS_LOSS_GRAD("ignored", 1),
    { .kernel = COPSE_KERNEL_row_stats_wide,
      .name = "",
      .contents = { VALUES, RESULT },
      .plan = plan_row_stats_wide,
      .is_rare = true,
      SHARES },
    { .kernel = COPSE_KERNEL_row_stats_wide,
      .name = "long",
      .contents = { VALUES, RESULT },
      .plan = plan_row_stats_wide,
      .is_rare = true,
      SHARES,
      COPSE_LONG },
    SOFTMAX_WIDE("softmax", 0, .why = NULL),
    SOFTMAX_WIDE("logarithm", 1, .why = NULL),
    SOFTMAX_WIDE("softmax, long", 0, COPSE_LONG),
    SOFTMAX_WIDE("logarithm, long", 1, COPSE_LONG),
    SOFTMAX_GRADS(softmax_grad),
    SOFTMAX_GRAD_SHORT("softmax, short", 0),
    SOFTMAX_GRAD_SHORT("logarithm, short", 1),
    SOFTMAX_GRADS(softmax_grad_wide),
    GROUPS("", plan_softmax_groups, ALL_SIZES),
    GROUPS("long", plan_softmax_groups, COPSE_LONG),
    GROUPS("long rows", plan_groups_long, ONCE),
    GROUPS_GRAD("", plan_softmax_groups_grad, ALL_SIZES),
    GROUPS_GRAD("long", plan_softmax_groups_grad, COPSE_LONG),
    GROUPS_GRAD("long rows", plan_groups_grad_long, ONCE),
    { .kernel = COPSE_KERNEL_cross_entropy_grad_wide,
      .name = "",
      .contents = { VALUES, INDEX, VALUES, VALUES, RESULT },
      .plan = plan_cross_entropy_grad_wide,
      .arrange = copse__arrange_loss_grad,
      .is_rare = true,
      SHARES },
    { .kernel = COPSE_KERNEL_cross_entropy_grad_wide,
      .name = "long",
      .contents = { VALUES, INDEX, VALUES, VALUES, RESULT },
      .plan = plan_cross_entropy_grad_wide,
      .arrange = copse__arrange_loss_grad,
      .is_rare = true,
      SHARES,
      COPSE_LONG },
    NORMS(NORM),
    NORMS(NORM_WIDE),
    NORM_OF(layer_norm, "long rows", FORWARD, plan_norm_long, , LONG_ROWS),
    NORM_OF(layer_norm, "large mean", FORWARD, plan_norm, , LARGE_MEAN),
    NORM_OF(layer_norm_wide, "long rows", FORWARD, plan_norm_wide_long, _wide, LONG_ROWS),
    NORM_OF(layer_norm_wide, "large mean", FORWARD, plan_norm_wide, _wide, LARGE_MEAN),
    NORM_OF(layer_norm_wide, "equal numbers, gradient", GRADIENT, plan_norm_wide_equal, _wide,
            LONG_ROWS, .arrange = arrange_norm_equal, .tier = COPSE_CONFORM_STANDARD),
};

/* ---- the lines that an invocation, or a group, walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_LINE(argmax, count),
    COPSE_LINE(row_stats, count),
    COPSE_NO_LINE(softmax, COPSE_WALKS_NONE),
    COPSE_NO_LINE(cross_entropy, COPSE_WALKS_NONE),
    COPSE_NO_LINE(cross_entropy_grad, COPSE_WALKS_NONE),
    COPSE_NO_LINE(label_logit, COPSE_WALKS_NONE),
    COPSE_NO_LINE(logits_grad, COPSE_WALKS_NONE),
    COPSE_NO_LINE(class_loss, COPSE_WALKS_NONE),
    COPSE_NO_LINE(class_loss_grad, COPSE_WALKS_NONE),
    COPSE_LINE(row_stats_wide, cols),
    COPSE_LINE(softmax_wide, cols),
    COPSE_LINE(softmax_grad, cols),
    COPSE_LINE(softmax_grad_wide, cols),
    COPSE_LINE(softmax_groups, cols),
    COPSE_LINE(softmax_groups_grad, cols),
    COPSE_LINE(cross_entropy_grad_wide, cols),
    COPSE_LINE(layer_norm, cols),
    COPSE_LINE(layer_norm_wide, cols),
};

const struct copse_launch_list copse_launch_rows = { forms, COPSE_COUNT(forms), lines,
                                                     COPSE_COUNT(lines) };
