/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of sums: over ranks, along an axis, by index; the dense layer's stream. */
#include "copse/matmul.h"
#include "core/device/digest.h"
#include "core/device/kernel/mean.h"
#include "core/ops/ops.h"
#include "prover/forms/lines.h"

enum {
    RESULT = COPSE_CONTENT_RESULT,
    WORDS = COPSE_CONTENT_WORDS,
    VALUES = COPSE_CONTENT_VALUES,
    WHOLE = COPSE_CONTENT_WHOLE,
    ARRANGED = COPSE_CONTENT_ARRANGED
};

static uint32_t sums_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, (uint64_t)copse__launch_group(l) * l->per);
}

/* ---- over ranks ---- */

static void plan_accumulate(struct copse_launch *l)
{
    const struct copse_params_accumulate p = { sums_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n);
}

/* Ranks are further apart than their elements. */
static void plan_tree_sum(struct copse_launch *l)
{
    const struct copse_params_tree_sum p = { .n = sums_extent(l),
                                             .base = 2,
                                             .stride = sums_extent(l) + 3 };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.base + (size_t)l->spec[2] * p.stride, p.n);
}

static void plan_sum_i32(struct copse_launch *l)
{
    const struct copse_params_sum_i32 p = { .n = sums_extent(l), .stride = sums_extent(l) + 3 };
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)l->spec[2] * p.stride, p.n);
}

static void plan_digest(struct copse_launch *l)
{
    const struct copse_params_digest p = { (uint32_t)copse__launch_extent(
        l, (uint64_t)copse__launch_group(l) * COPSE_DIGEST_BLOCK) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, (p.n + COPSE_DIGEST_BLOCK - 1) / COPSE_DIGEST_BLOCK);
}

/* The two kinds of f32 sums, and whole numbers. */
static void plan_mean(struct copse_launch *l)
{
    const uint32_t by = l->spec[3] ? 16 : l->spec[2] ? 65535 : 7;
    const struct copse_params_mean p = copse__mean_params(sums_extent(l), by);
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n);
}

/* ---- along an axis ---- */

#define LONG_CHUNKS ((COPSE_LONG_LINE + 63) / 64)

/* Three long lines. */
static void plan_reduce_long(struct copse_launch *l)
{
    const struct copse_params_reduce p = { .n = 3 * LONG_CHUNKS,
                                           .count = COPSE_LONG_LINE,
                                           .chunks = LONG_CHUNKS,
                                           .inner = 1,
                                           .divisor = (float)COPSE_LONG_LINE };
    COPSE_LAUNCH_PLAN(l, p, l->want + 1, (size_t)3 * p.count, p.n);
}

static void plan_reduce(struct copse_launch *l)
{
    struct copse_params_reduce p = {
        .n = sums_extent(l), .count = 9, .chunks = 1, .inner = 3, .divisor = 9.0f
    };
    if (l->regime == COPSE_REGIME_FEW) { /* several invocations of 35 terms for each line */
        p.count = 70;
        p.chunks = 2;
    }
    const uint32_t lines = (p.n + p.chunks * p.inner - 1) / (p.chunks * p.inner);
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)lines * p.count * p.inner, p.n);
}

static void plan_scan_sums(struct copse_launch *l)
{
    struct copse_params_scan_sums p = { .n = sums_extent(l), .count = 9, .chunks = 1, .inner = 3 };
    if (l->regime == COPSE_REGIME_FEW) { /* chunks of 64 and 37 elements */
        p.count = 101;
        p.chunks = 2;
    }
    if (l->form->is_long)
        p = (struct copse_params_scan_sums){ 3 * LONG_CHUNKS, COPSE_LONG_LINE, LONG_CHUNKS, 1 };
    const size_t lines = (p.n + p.chunks * p.inner - 1) / (p.chunks * p.inner);
    COPSE_LAUNCH_PLAN(l, p, l->want + l->form->is_long, lines * p.count * p.inner, p.n);
}

static void plan_scan(struct copse_launch *l)
{
    plan_scan_sums(l); /* the parameters are the same */
    l->counts[2] = l->counts[0];
}

static void plan_columns(struct copse_launch *l)
{
    struct copse_params_column_sum_wide p = { .cols = 45,
                                              .block = l->form->is_long ? COPSE_LONG_LINE
                                                       : l->regime == COPSE_REGIME_FEW ? 600
                                                                                       : 3 };
    const uint32_t strips = (p.cols + 31) / 32,
                   blocks = (uint32_t)((l->want + strips - 1) / strips);
    p.rows = blocks * p.block - (p.block > 3 ? 7 : 1);
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)strips * blocks, (size_t)p.rows * p.cols,
                      (size_t)blocks * p.cols);
}

/* Several chunks in the regime of few groups; WIDTH of kernels/reduce/column_sums.cl. */
static void plan_column_sums(struct copse_launch *l)
{
    const uint32_t width = COPSE_MIN(copse__launch_group(l), 16), count = (uint32_t)l->spec[0],
                   strips = (uint32_t)((l->want + count - 1) / count);
    struct copse_params_column_sums p = { .rows = 9, .chunks = 1 };
    uint32_t cols[4] = { 0 };
    if (l->regime == COPSE_REGIME_FEW)
        p = (struct copse_params_column_sums){ .rows = 150, .chunks = 3 };
    if (l->form->is_long)
        p = (struct copse_params_column_sums){ .rows = COPSE_LONG_LINE, .chunks = 64 };
    for (uint32_t m = 0; m < count; m++) /* each has another number */
        cols[m] = strips * width - (width > 4 ? 1 + m : 0);
    p.cols0 = cols[0];
    p.cols1 = cols[1];
    p.cols2 = cols[2];
    p.cols3 = cols[3];
    for (uint32_t m = count; m < 4; m++)
        cols[m] = 1; /* words that are bound */
    const size_t rows = p.rows;
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)strips * count, rows * cols[0], rows * cols[1],
                      rows * cols[2], rows * cols[3], cols[0], cols[1], cols[2], cols[3]);
}

/* ---- by index ---- */

/* Row r has r % 4 positions; a row of the regime of few groups has 200, so that several chunks are
   added. */
static size_t positions_before(const struct copse_launch *l, size_t row)
{
    const size_t each = l->regime == COPSE_REGIME_FEW ? 200 : 0;
    return row / 4 * 6 + (row % 4 == 0 ? 0 : row % 4 == 1 ? 0 : row % 4 == 2 ? 1 : 3) + each * row;
}

static void plan_gather_grad(struct copse_launch *l)
{
    const uint32_t group = copse__launch_group(l);
    struct copse_params_gather_grad p = { .rows = (uint32_t)l->want,
                                          .width = l->spec[1] ? 12 : 3,
                                          .count = 256u * 64 };
    p.cols = l->spec[0] ? COPSE_MIN(group, 4) : l->spec[1] ? 4 * group : group;
    p.tiles = (p.width + p.cols - 1) / p.cols;
    const size_t positions = COPSE_MAX(positions_before(l, p.rows), 1);
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)p.rows * p.tiles, positions * p.width, positions, p.rows + 1,
                      (size_t)p.rows * p.width);
}

static void arrange_gather_grad(const struct copse_launch *l, uint32_t *const *words)
{
    for (size_t i = 0; i < l->counts[1]; i++)
        words[1][i] = (uint32_t)(l->counts[1] - 1 - i);
    for (size_t row = 0; row < l->counts[2]; row++)
        words[2][row] = (uint32_t)positions_before(l, row);
}

/* The first row has as many positions as a launch adds. */
static void plan_gather_grad_long(struct copse_launch *l)
{
    struct copse_params_gather_grad p = {
        .rows = 3, .width = 3, .count = 256u * 64, .cols = 3, .tiles = 1
    };
    if (l->spec[1])
        p.width = p.cols = 4;
    const size_t positions = p.count + 5;
    COPSE_LAUNCH_PLAN(l, p, p.rows, positions * p.width, positions, p.rows + 1,
                      (size_t)p.rows * p.width);
}

static void arrange_gather_grad_long(const struct copse_launch *l, uint32_t *const *words)
{
    const uint32_t positions = (uint32_t)l->counts[1];
    for (uint32_t i = 0; i < positions; i++)
        words[1][i] = positions - 1 - i;
    memcpy(words[2], (const uint32_t[]){ 0, positions - 5, positions - 5, positions },
           4 * sizeof(uint32_t));
}

/* ---- rows of several lists ---- */

#define LISTS 3u

static void plan_row_find(struct copse_launch *l)
{
    struct copse_params_row_find p = { .n = sums_extent(l), .lists = LISTS };
    p.each = p.rows = (p.n + LISTS - 1) / LISTS;
    l->range = p.each;
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)LISTS * p.each, p.n, (size_t)LISTS * p.n);
}

/* The first list is full, and the second begins behind its rows; the third has rows of both. */
static void arrange_row_find(const struct copse_launch *l, uint32_t *const *words)
{
    const uint32_t each = l->range;
    for (uint32_t i = 0; i < each; i++) {
        words[0][i] = i / 2;
        words[0][each + i] = i < each / 4 * 3 ? (each + 1) / 2 + i / 3 : each;
        words[0][2 * each + i] = i / 3 * 4 < each ? i / 3 * 4 : each;
    }
}

static void plan_rows_of(struct copse_launch *l, uint32_t lists)
{
    struct copse_params_row_join p = { .n = sums_extent(l), .lists = lists, .width = 3 };
    p.entries = p.rows = (p.n + p.width - 1) / p.width;
    copse__divisor(p.width, &p.m, &p.h);
    l->range = p.entries;
    COPSE_LAUNCH_PLAN(l, p, l->want, p.entries, (size_t)lists * p.entries,
                      (size_t)p.entries * p.width, p.n);
}

static void plan_row_join_5(struct copse_launch *l)
{
    plan_rows_of(l, 5);
}

static void plan_row_join_63(struct copse_launch *l)
{
    plan_rows_of(l, 63);
}

/* Every fourth entry leads no row; of the others every third list has no place. */
static void arrange_row_join(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t entries = l->range;
    for (size_t e = 0; e < entries; e++)
        words[0][e] = e % 4 == 3 ? (uint32_t)entries : (uint32_t)e;
    for (size_t i = 0; i < l->counts[1]; i++)
        words[1][i] = (i % entries + i / entries) % 3 == 2
                          ? UINT32_MAX
                          : (uint32_t)((i % entries + 5 * (i / entries)) % entries);
}

/* ---- the derivative of an activation ---- */

static void plan_dense_grad(struct copse_launch *l)
{
    const struct copse_params_dense_grad p = { sums_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, p.n);
}

/* ---- the forms ---- */

#define NO_REALS \
    .no_values = COPSE_ALL_VALUES & ~COPSE_WHOLE_VALUES, .why = "integers have no such numbers"
#define STREAM(kernel_, label, ...)                                              \
    {                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .plan = plan_##kernel_, \
        .is_stream = true, __VA_ARGS__                                           \
    }
#define TREE(ranks, tier_)                                                                     \
    STREAM(tree_sum, #ranks " ranks", .spec = { 0, 0, ranks }, .contents = { VALUES, RESULT }, \
           .is_single = true, .is_rare = ranks > 4, .tier = COPSE_CONFORM_##tier_)
#define SUM_I32(ranks)                                                                      \
    STREAM(sum_i32, #ranks " ranks", .spec = { 0, 0, ranks }, .contents = { WHOLE, WORDS }, \
           NO_REALS)
#define REDUCE(label, kind, ...)                                                                \
    {                                                                                           \
        .kernel = COPSE_KERNEL_reduce, .name = label, .spec = { kind },                         \
        .contents = { VALUES, RESULT }, .plan = plan_reduce, .is_rare = kind != COPSE_AXIS_MAX, \
        __VA_ARGS__                                                                             \
    }
#define REDUCE_LONG(label, kind, ...)                                   \
    {                                                                   \
        .kernel = COPSE_KERNEL_reduce, .name = label, .spec = { kind }, \
        .contents = { VALUES, RESULT }, .plan = plan_reduce_long,       \
        .is_rare = kind != COPSE_AXIS_MAX, COPSE_LONG, __VA_ARGS__      \
    }
/* Sums of absent matrices are not written. */
#define COLUMN_SUMS(label, count, second, third, fourth)                               \
    {                                                                                  \
        .kernel = COPSE_KERNEL_column_sums, .name = label, .spec = { count },          \
        .contents = { VALUES, VALUES, VALUES, VALUES, RESULT, second, third, fourth }, \
        .plan = plan_column_sums, .is_rare = true, .cap = 0x1p100f                     \
    }
#define GATHER_GRAD(label, ...)                                                       \
    {                                                                                 \
        .kernel = COPSE_KERNEL_gather_grad, .name = label, .spec = { __VA_ARGS__ },   \
        .contents = { VALUES, ARRANGED, ARRANGED, RESULT }, .plan = plan_gather_grad, \
        .arrange = arrange_gather_grad, .is_rare = true, .cap = 0x1p100f              \
    }
#define GATHER_GRAD_LONG(label, ...)                                                       \
    {                                                                                      \
        .kernel = COPSE_KERNEL_gather_grad, .name = label, .spec = { __VA_ARGS__ },        \
        .contents = { VALUES, ARRANGED, ARRANGED, RESULT }, .plan = plan_gather_grad_long, \
        .arrange = arrange_gather_grad_long, .no_values = COPSE_ALL_VALUES & ~1u,          \
        .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW),                    \
        .why = "long rows take one launch"                                                 \
    }
#define SCAN_OF(kernel_, label, second, ...)                                         \
    .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { __VA_ARGS__ },        \
    .contents = { VALUES, second, RESULT }, .plan = plan_##kernel_, .is_rare = true, \
    .cap = 0x1p100f
#define SCAN(...)            \
    {                        \
        SCAN_OF(__VA_ARGS__) \
    }
#define SCAN_LONG(...)                   \
    {                                    \
        SCAN_OF(__VA_ARGS__), COPSE_LONG \
    }
#define DENSE_GRAD(label, activation, ...)                  \
    STREAM(dense_grad, label, .spec = { 0, 0, activation }, \
           .contents = { VALUES, VALUES, RESULT },          \
           .zero_why = "the sign of a derivative that is 0 is not promised", __VA_ARGS__)

static const struct copse_launch_form forms[] = {
    STREAM(accumulate, "", .contents = { VALUES, VALUES }, .is_single = true),
    TREE(2, QUICK),
    TREE(3, QUICK),
    TREE(8, QUICK),
    TREE(9, QUICK),
    TREE(23, QUICK),
    TREE(64, QUICK),
    TREE(4, STANDARD),
    TREE(5, STANDARD),
    TREE(6, STANDARD),
    TREE(7, STANDARD),
    TREE(16, STANDARD),
    TREE(17, STANDARD),
    TREE(24, STANDARD),
    TREE(31, STANDARD),
    TREE(32, STANDARD),
    TREE(33, STANDARD),
    TREE(40, STANDARD),
    TREE(47, STANDARD),
    TREE(48, STANDARD),
    TREE(55, STANDARD),
    TREE(56, STANDARD),
    TREE(63, STANDARD),
    SUM_I32(2),
    SUM_I32(64),
    { .kernel = COPSE_KERNEL_row_find,
      .name = "",
      .contents = { ARRANGED, WORDS, WORDS },
      .plan = plan_row_find,
      .arrange = arrange_row_find,
      NO_REALS },
    { .kernel = COPSE_KERNEL_row_join,
      .name = "5 lists",
      .contents = { ARRANGED, ARRANGED, VALUES, RESULT },
      .plan = plan_row_join_5,
      .arrange = arrange_row_join,
      .is_single = true,
      .is_rare = true },
    { .kernel = COPSE_KERNEL_row_join,
      .name = "63 lists",
      .contents = { ARRANGED, ARRANGED, VALUES, RESULT },
      .plan = plan_row_join_63,
      .arrange = arrange_row_join,
      .is_single = true,
      .is_rare = true,
      .tier = COPSE_CONFORM_STANDARD },
    { .kernel = COPSE_KERNEL_digest,
      .name = "",
      .contents = { WHOLE, WORDS },
      .plan = plan_digest,
      NO_REALS },
    STREAM(mean, "of 7", .contents = { VALUES, RESULT }, .is_single = true,
           .keeps_subnormals = true),
    STREAM(mean, "of 16", .spec = { 0, 0, 0, 1 }, .contents = { VALUES, RESULT }, .is_single = true,
           .keeps_subnormals = true),
    STREAM(mean, "of 65535 whole", .spec = { 0, 0, 1 }, .contents = { WHOLE, RESULT },
           .is_single = true, NO_REALS),
    REDUCE("sum", COPSE_AXIS_SUM, .cap = 0x1p100f),
    REDUCE("mean", COPSE_AXIS_MEAN, .cap = 0x1p100f),
    REDUCE("maximum", COPSE_AXIS_MAX, .why = NULL),
    { .kernel = COPSE_KERNEL_column_sum_wide,
      .name = "",
      .contents = { VALUES, RESULT },
      .plan = plan_columns,
      .is_rare = true,
      .cap = 0x1p100f },
    { .kernel = COPSE_KERNEL_column_sum_wide,
      .name = "long",
      .contents = { VALUES, RESULT },
      .plan = plan_columns,
      .is_rare = true,
      .cap = 0x1p100f,
      COPSE_LONG },
    COLUMN_SUMS("one", 1, VALUES, VALUES, VALUES),
    COLUMN_SUMS("two", 2, RESULT, VALUES, VALUES),
    COLUMN_SUMS("three", 3, RESULT, RESULT, VALUES),
    COLUMN_SUMS("four", 4, RESULT, RESULT, RESULT),
    { .kernel = COPSE_KERNEL_column_sums,
      .name = "long",
      .spec = { 4 },
      .contents = { VALUES, VALUES, VALUES, VALUES, RESULT, RESULT, RESULT, RESULT },
      .plan = plan_column_sums,
      .is_rare = true,
      .cap = 0x1p100f,
      COPSE_LONG },
    REDUCE_LONG("sum, long", COPSE_AXIS_SUM, .cap = 0x1p100f),
    REDUCE_LONG("mean, long", COPSE_AXIS_MEAN, .cap = 0x1p100f),
    REDUCE_LONG("maximum, long", COPSE_AXIS_MAX, .cap = 0),
    SCAN(scan_sums, "", RESULT, 0),
    SCAN(scan_sums, "reversed", RESULT, 1),
    SCAN_LONG(scan_sums, "long", RESULT, 0),
    SCAN_LONG(scan_sums, "long, reversed", RESULT, 1),
    SCAN(scan, "", VALUES, 0),
    SCAN(scan, "reversed", VALUES, 1),
    SCAN(scan, "exclusive", VALUES, 0, 1),
    SCAN(scan, "reversed, exclusive", VALUES, 1, 1),
    SCAN(scan, "later", VALUES, 0, 0, 1),
    SCAN(scan, "reversed, later", VALUES, 1, 0, 1),
    SCAN(scan, "exclusive, later", VALUES, 0, 1, 1),
    SCAN(scan, "reversed, exclusive, later", VALUES, 1, 1, 1),
    SCAN_LONG(scan, "long", VALUES, 0, 0, 1),
    SCAN_LONG(scan, "long, reversed, exclusive", VALUES, 1, 1, 1),
    GATHER_GRAD("one chunk at a time", 0),
    GATHER_GRAD("shared", 1),
    GATHER_GRAD("quads", 0, 1),
    GATHER_GRAD_LONG("a long row, one chunk at a time", 0),
    GATHER_GRAD_LONG("a long row, shared", 1),
    GATHER_GRAD_LONG("a long row, quads", 0, 1),
    DENSE_GRAD("relu", COPSE_RELU, .why = NULL),
    DENSE_GRAD("sigmoid", COPSE_SIGMOID, .cap = 0x1p40f),
    DENSE_GRAD("tanh", COPSE_TANH, .cap = 0x1p40f),
};

/* ---- the lines that an invocation, or a group, walks ---- */

#define FEW_LISTS "there are at most 64 lists"
#define LAUNCHES  "a launch takes at most 16,384 positions of a row, which a form has"

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(accumulate, COPSE_WALKS_NONE),
    COPSE_NO_LINE(tree_sum, FEW_LISTS),
    COPSE_NO_LINE(sum_i32, FEW_LISTS),
    COPSE_NO_LINE(row_find, FEW_LISTS),
    COPSE_NO_LINE(row_join, FEW_LISTS),
    COPSE_NO_LINE(digest, COPSE_WALKS_BLOCKS),
    COPSE_NO_LINE(mean, COPSE_WALKS_NONE,
                  .no_flags = "a mean of whole numbers uses no power of two"),
    COPSE_LINE(reduce, count),
    COPSE_LINE(column_sum_wide, block),
    COPSE_LINE(column_sums, rows),
    COPSE_LINE(scan_sums, count),
    COPSE_LINE(scan, count),
    COPSE_NO_LINE(gather_grad, LAUNCHES, .no_flags = "lanes that share a column have one"),
    COPSE_NO_LINE(dense_grad, COPSE_WALKS_NONE),
};

const struct copse_launch_list copse_launch_sums = { forms, COPSE_COUNT(forms), lines,
                                                     COPSE_COUNT(lines) };
