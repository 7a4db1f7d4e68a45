/* SPDX-License-Identifier: MIT */
/* Forms of the kernels that sort positions by row, and of those of top-k. */
#include "core/ops/sort/row_sort.h"
#include "prover/forms/lines.h"

enum {
    VALUES = COPSE_CONTENT_VALUES,
    RESULT = COPSE_CONTENT_RESULT,
    WORDS = COPSE_CONTENT_WORDS,
    INDEX = COPSE_CONTENT_INDEX,
    ARRANGED = COPSE_CONTENT_ARRANGED,
    WHOLE = COPSE_CONTENT_WHOLE
};

#define EACH   3u /* positions of a block */
#define DIGITS 4u

/* Rows of the first digits, 0 to 3, or of the digits above those; the last row is for indices out
   of range. */
static uint32_t shift_of(const struct copse_launch *l)
{
    return l->spec[0] ? 0 : 2;
}

static uint32_t rows_of(const struct copse_launch *l)
{
    return l->spec[0] ? 3 : 13;
}

static uint32_t sorts_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

static void plan_count(struct copse_launch *l)
{
    const uint32_t blocks = sorts_extent(l), n = EACH * blocks - 1;
    const struct copse_params_sort_count p = { n, rows_of(l), blocks, EACH, shift_of(l), DIGITS };
    l->range = rows_of(l);
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n, DIGITS * blocks);
}

static void sorts_reverse(uint32_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)(n - 1 - i);
}

static void arrange_count(const struct copse_launch *l, uint32_t *const *words)
{
    sorts_reverse(words[1], l->counts[1]);
}

static void plan_offsets(struct copse_launch *l)
{
    const struct copse_params_sort_offsets p = { 3, sorts_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)p.blocks * p.digits, p.digits);
}

static void plan_place(struct copse_launch *l)
{
    const uint32_t blocks = sorts_extent(l), n = EACH * blocks - 1;
    const struct copse_params_sort_place p = { n, rows_of(l), blocks, EACH, shift_of(l), DIGITS };
    l->range = rows_of(l);
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n, DIGITS, DIGITS * blocks, n);
}

/* The results of the two steps before. */
static void arrange_place(const struct copse_launch *l, uint32_t *const *words)
{
    const uint32_t n = (uint32_t)l->counts[0], blocks = (uint32_t)(l->counts[3] / DIGITS);
    const struct copse_params_sort_count count = {
        n, rows_of(l), blocks, EACH, shift_of(l), DIGITS
    };
    const struct copse_params_sort_offsets offsets = { blocks, DIGITS };
    sorts_reverse(words[1], n);
    copse__row(COPSE_KERNEL_sort_count)
        ->law->host(&count, l->spec,
                    (struct copse_host_arg[]){ { words[0], n, false },
                                               { words[1], n, false },
                                               { words[3], l->counts[3], false } });
    copse__row(COPSE_KERNEL_sort_offsets)
        ->law->host(&offsets, l->spec,
                    (struct copse_host_arg[]){ { words[3], l->counts[3], false },
                                               { words[2], DIGITS, false } });
}

static void plan_starts(struct copse_launch *l)
{
    const uint32_t rows = sorts_extent(l) - 1;
    const struct copse_params_sort_starts p = { rows + 2, rows };
    l->range = rows;
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n, rows + 1);
}

/* Every third row has three positions, others none; the last positions have indices out of
   range. */
static void arrange_starts(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t n = l->counts[0], rows = l->counts[2] - 1;
    sorts_reverse(words[1], n);
    for (size_t i = 0; i < n; i++) {
        const size_t row = i / 3 * 3;
        words[0][n - 1 - i] = row < rows ? (uint32_t)row : i % 2 ? UINT32_MAX : (uint32_t)rows;
    }
}

static void plan_heads(struct copse_launch *l)
{
    const uint32_t n = COPSE_MAX(sorts_extent(l), 2) - 1;
    const struct copse_params_row_heads p = { n, n / 5 * 3 + 1 };
    l->range = p.rows;
    COPSE_LAUNCH_PLAN(l, p, l->want, n, n, n, (size_t)n + 1);
}

/* Every second row has three positions, others none; the last positions have indices out of
   range. */
static void arrange_heads(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t n = l->counts[0];
    sorts_reverse(words[1], n);
    for (size_t i = 0; i < n; i++) {
        const size_t row = i / 3 * 2;
        words[0][n - 1 - i] = row < l->range ? (uint32_t)row : i % 2 ? UINT32_MAX : l->range;
    }
}

/* ---- the largest elements of rows ---- */

#define EXTENT 9u
#define LIST   4u /* elements of a list of the first pass; their 3 largest stay */
#define KEPT   3u

/* Rows of 9 elements become lists of 3, 3 and 1; these become one of 4 and one of 1. */
static void plan_top_k(struct copse_launch *l)
{
    const bool is_first = l->spec[0] != 0;
    struct copse_params_top_k p = { .n = sorts_extent(l),
                                    .extent = EXTENT,
                                    .width = is_first ? EXTENT : 2 * KEPT + 1,
                                    .run = is_first ? LIST : KEPT,
                                    .keep = is_first ? KEPT : LIST };
    p.to_width = is_first ? 2 * KEPT + 1 : LIST + 1;
    const size_t rows = (p.n + p.width - 1) / p.width;
    COPSE_LAUNCH_PLAN(l, p, l->want, rows * p.extent, is_first ? 1 : rows * p.width,
                      rows * p.to_width);
}

/* The lists of the first pass. */
static void arrange_top_k(const struct copse_launch *l, uint32_t *const *words)
{
    const size_t n = l->counts[0], rows = n / EXTENT;
    const struct copse_params_top_k first = {
        (uint32_t)n, EXTENT, EXTENT, LIST, KEPT, 2 * KEPT + 1
    };
    if (!l->spec[0])
        copse__row(COPSE_KERNEL_top_k)
            ->law->host(&first, (const int32_t[]){ 1 },
                        (struct copse_host_arg[]){ { words[0], n, false },
                                                   { NULL, 0, false },
                                                   { words[1], rows * first.to_width, false } });
}

static void plan_top_k_values(struct copse_launch *l)
{
    const struct copse_params_top_k_values p = { sorts_extent(l), 5, EXTENT };
    l->range = EXTENT;
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)(p.n + p.k - 1) / p.k * EXTENT, p.n, p.n);
}

static void plan_top_k_grad(struct copse_launch *l)
{
    const struct copse_params_top_k_grad p = { sorts_extent(l), 5, EXTENT };
    /* one more, which stays */
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n + 1, p.n + 1, (size_t)(p.n + p.k) / p.k * EXTENT);
}

/* The indices of a row differ; some are the first one out of range, or -1. The next row then has no
   index 0. */
static void arrange_top_k_grad(const struct copse_launch *l, uint32_t *const *words)
{
    for (size_t i = 0; i < l->counts[1]; i++) {
        const size_t row = i / 5, index = (i % 5 + row) * 3 % (EXTENT + 1);
        words[1][i] = index == EXTENT && row % 2 ? UINT32_MAX : (uint32_t)index;
    }
}

#define NO_REALS \
    .no_values = COPSE_ALL_VALUES & ~COPSE_WHOLE_VALUES, .why = "integers have no such numbers"

static const struct copse_launch_form forms[] = {
    { .kernel = COPSE_KERNEL_sort_count,
      .name = "first",
      .spec = { 1 },
      .contents = { INDEX, ARRANGED, WORDS },
      .plan = plan_count,
      .arrange = arrange_count,
      NO_REALS },
    { .kernel = COPSE_KERNEL_sort_count,
      .name = "later",
      .contents = { INDEX, ARRANGED, WORDS },
      .plan = plan_count,
      .arrange = arrange_count,
      NO_REALS },
    { .kernel = COPSE_KERNEL_sort_offsets,
      .name = "",
      .contents = { WHOLE, WORDS },
      .plan = plan_offsets,
      NO_REALS },
    { .kernel = COPSE_KERNEL_sort_place,
      .name = "first",
      .spec = { 1 },
      .contents = { INDEX, ARRANGED, ARRANGED, ARRANGED, WORDS },
      .plan = plan_place,
      .arrange = arrange_place,
      NO_REALS },
    { .kernel = COPSE_KERNEL_sort_place,
      .name = "later",
      .contents = { INDEX, ARRANGED, ARRANGED, ARRANGED, WORDS },
      .plan = plan_place,
      .arrange = arrange_place,
      NO_REALS },
    { .kernel = COPSE_KERNEL_sort_starts,
      .name = "",
      .contents = { ARRANGED, ARRANGED, WORDS },
      .plan = plan_starts,
      .arrange = arrange_starts,
      NO_REALS },
    { .kernel = COPSE_KERNEL_row_heads,
      .name = "",
      .contents = { ARRANGED, ARRANGED, WORDS, WORDS },
      .plan = plan_heads,
      .arrange = arrange_heads,
      NO_REALS },
    { .kernel = COPSE_KERNEL_top_k,
      .name = "first",
      .spec = { 1 },
      .contents = { VALUES, ARRANGED, WORDS },
      .plan = plan_top_k,
      .arrange = arrange_top_k,
      .is_single = true,
      .keeps_subnormals = true },
    { .kernel = COPSE_KERNEL_top_k,
      .name = "later",
      .contents = { VALUES, ARRANGED, WORDS },
      .plan = plan_top_k,
      .arrange = arrange_top_k,
      .is_single = true,
      .keeps_subnormals = true },
    { .kernel = COPSE_KERNEL_top_k_values,
      .name = "",
      .contents = { VALUES, INDEX, RESULT },
      .plan = plan_top_k_values,
      .is_single = true },
    { .kernel = COPSE_KERNEL_top_k_grad,
      .name = "",
      .contents = { VALUES, ARRANGED, RESULT },
      .plan = plan_top_k_grad,
      .arrange = arrange_top_k_grad,
      .is_single = true },
};

/* ---- the lines that an invocation, or a group, walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(sort_count, COPSE_WALKS_BLOCKS),
    COPSE_NO_LINE(sort_offsets, COPSE_WALKS_BLOCKS),
    COPSE_NO_LINE(sort_place, COPSE_WALKS_BLOCKS),
    COPSE_NO_LINE(sort_starts, COPSE_WALKS_NONE),
    COPSE_NO_LINE(row_heads, COPSE_WALKS_NONE),
    COPSE_NO_LINE(top_k, "no case yet: the lists are short"),
    COPSE_NO_LINE(top_k_values, COPSE_WALKS_NONE),
    COPSE_NO_LINE(top_k_grad, COPSE_WALKS_NONE),
};

const struct copse_launch_list copse_launch_sorts = { forms, COPSE_COUNT(forms), lines,
                                                      COPSE_COUNT(lines) };
