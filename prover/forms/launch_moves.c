/* SPDX-License-Identifier: MIT */
/* Forms of the kernels that move, convert or draw numbers. */
#include <math.h>

#include "core/base/half.h"
#include "core/base/random.h"
#include "core/ops/ops.h"
#include "prover/forms/lines.h"

enum {
    RESULT = COPSE_CONTENT_RESULT,
    WORDS = COPSE_CONTENT_WORDS,
    VALUES = COPSE_CONTENT_VALUES,
    WHOLE = COPSE_CONTENT_WHOLE,
    INDEX = COPSE_CONTENT_INDEX,
    ARRANGED = COPSE_CONTENT_ARRANGED
};

static uint32_t moves_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

/* ---- strided copies ---- */

#define OFFSET 3u

struct walk {
    uint32_t dims[COPSE_MAX_RANK], strides[COPSE_MAX_RANK], m[COPSE_MAX_RANK], h[COPSE_MAX_RANK];
    uint32_t places; /* of the strided side */
};

/* Axes of 3 elements from the innermost one, numbered in the reverse order at the strided side; the
   outermost axis is as long as needed. */
static void walk_of(uint32_t rank, uint32_t n, struct walk *w)
{
    uint32_t inner = 1;
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i + 1 < rank; i++) {
        w->dims[i] = 3;
        copse__divisor(w->dims[i], &w->m[i], &w->h[i]);
        inner *= w->dims[i];
    }
    const uint32_t outer = (n + inner - 1) / inner;
    for (uint32_t i = 0, step = outer * (inner / 3); i + 1 < rank; i++, step /= 3)
        w->strides[i] = step;
    w->strides[rank - 1] = 1;
    w->places = OFFSET + outer * inner;
}

#define COPY(w)                                                                               \
    {                                                                                         \
        n, OFFSET, (w).dims[0], (w).dims[1], (w).dims[2], (w).dims[3], (w).dims[4], (w).m[0], \
            (w).m[1], (w).m[2], (w).m[3], (w).m[4], (w).h[0], (w).h[1], (w).h[2], (w).h[3],   \
            (w).h[4], (w).strides[0], (w).strides[1], (w).strides[2], (w).strides[3],         \
            (w).strides[4], (w).strides[5]                                                    \
    }
#define PLAN_COPY(kernel)                                                                       \
    static void plan_##kernel(struct copse_launch *l)                                           \
    {                                                                                           \
        const uint32_t n = moves_extent(l);                                                     \
        struct walk w;                                                                          \
        walk_of((uint32_t)l->spec[0], n, &w);                                                   \
        const struct copse_params_##kernel p = COPY(w);                                         \
        COPSE_LAUNCH_PLAN(l, p, l->want, l->spec[1] ? n : w.places, l->spec[1] ? w.places : n); \
    }
PLAN_COPY(copy)
PLAN_COPY(copy_i32)

/* ---- constants and conversions ---- */

static void plan_fill(struct copse_launch *l)
{
    const struct copse_params_fill p = { moves_extent(l), copse__launch_number(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n);
}

static void plan_fill_i32(struct copse_launch *l)
{
    const struct copse_params_fill_i32 p = { moves_extent(l), copse__launch_whole(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n);
}

static void plan_step_scalar(struct copse_launch *l)
{
    const struct copse_params_step_scalar p = { 5 };
    COPSE_LAUNCH_PLAN(l, p, l->want, COPSE_STEP_WORDS, 1);
}

static void arrange_step_scalar(const struct copse_launch *l, uint32_t *const *words)
{
    const float x = copse__launch_number(l);
    for (uint32_t i = 0; i < COPSE_STEP_WORDS; i++)
        words[0][i] = i;
    memcpy(&words[0][5], &x, sizeof x);
}

static void plan_from_u8(struct copse_launch *l)
{
    const struct copse_params_from_u8 p = { moves_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, (p.n + 3) / 4, p.n);
}

static void plan_from_half(struct copse_launch *l)
{
    const struct copse_params_from_half p = { moves_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, (p.n + 1) / 2, p.n);
}

/* The next pattern of 16 bits; only those of the class, unless it is a mixture. */
static uint32_t next_pattern(const struct copse_launch *l, uint32_t *next)
{
    const unsigned fraction = l->spec[0] ? 7 : 10, top = 0x7fffu >> fraction;
    const uint32_t h = (*next += 40503u) & 0xffffu, exponent = h >> fraction & top;
    const uint32_t sign = h & 0x8000u, mask = (1u << fraction) - 1u;
    switch (l->values) {
    case COPSE_VALUES_ZEROS:
        return sign;
    case COPSE_VALUES_NANS:
        return h | top << fraction | 1u;
    case COPSE_VALUES_INFINITIES:
        return sign | top << fraction;
    case COPSE_VALUES_SUBNORMALS:
        return sign | (h & mask) | 1u;
    case COPSE_VALUES_EXTREMES:
        return sign | (h & 1u ? 1u << fraction : (top << fraction) - 1u);
    case COPSE_VALUES_USUAL:
        return exponent == 0 || exponent == top ? sign | 1u << fraction | (h & mask) : h;
    default:
        return h;
    }
}

static void arrange_from_half(const struct copse_launch *l, uint32_t *const *words)
{
    uint32_t next = (uint32_t)(l->seed >> 7);
    for (size_t i = 0; i < 2 * l->counts[0]; i++)
        ((uint16_t *)words[0])[i] = (uint16_t)next_pattern(l, &next);
}

static void plan_to_half(struct copse_launch *l)
{
    /* Odd where the last invocation of a group is used. */
    const bool is_odd = l->regime == COPSE_REGIME_FEW || l->regime == COPSE_REGIME_TAIL;
    const struct copse_params_to_half p = { 2 * moves_extent(l) - is_odd };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, (p.n + 1) / 2);
}

/* The number halfway from a pattern to the next one away from zero. */
static uint32_t tie_of(uint32_t h, bool is_bfloat)
{
    if (is_bfloat)
        return h << 16 | 0x8000u;
    const uint32_t below = copse__bits_of(copse__f16_to_f32((uint16_t)h)), fraction = h & 0x3ffu;
    if (h >> 10 & 31u)
        return below | 0x1000u;
    return (h & 0x8000u) << 16 | copse__bits_of(((float)fraction + 0.5f) * 0x1p-24f);
}

/* Numbers of 16 bits, the ties between them, and the numbers next to a tie. */
static void arrange_to_half(const struct copse_launch *l, uint32_t *const *words)
{
    uint32_t next = (uint32_t)(l->seed >> 7);
    for (size_t i = 0; i < l->counts[0]; i++) {
        const uint32_t h = next_pattern(l, &next);
        const bool is_exact =
            i % 4 == 0 || l->values == COPSE_VALUES_ZEROS || l->values == COPSE_VALUES_INFINITIES;
        if (is_exact)
            words[0][i] = copse__bits_of(l->spec[0] ? copse__bf16_to_f32((uint16_t)h)
                                                    : copse__f16_to_f32((uint16_t)h));
        else
            words[0][i] = tie_of(h, l->spec[0] != 0) + (uint32_t)(i % 4) - 2u;
    }
}

static void plan_to_f32(struct copse_launch *l)
{
    const struct copse_params_to_f32 p = { moves_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n);
}

static void plan_to_i32(struct copse_launch *l)
{
    const struct copse_params_to_i32 p = { moves_extent(l) };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.n);
}

/* ---- rows of a table ---- */

static void plan_rows(struct copse_launch *l, uint32_t rows, uint32_t width)
{
    struct copse_params_gather p = { .n = moves_extent(l), .width = width, .rows = rows };
    copse__divisor(p.width, &p.m, &p.h);
    l->range = rows;
    COPSE_LAUNCH_PLAN(l, p, l->want, rows * width, (p.n + width - 1) / width, p.n);
}

static void plan_gather(struct copse_launch *l)
{
    plan_rows(l, 11, 3);
}

static void plan_gather_far(struct copse_launch *l)
{
    plan_rows(l, (1u << 24) + 5, 1);
}

/* The rows past 2^24 first. */
static void arrange_gather_far(const struct copse_launch *l, uint32_t *const *words)
{
    for (uint32_t i = 0; i < COPSE_MIN(l->counts[1], 9); i++)
        words[1][i] = (1u << 24) - 4 + i;
}

static void plan_row_put(struct copse_launch *l)
{
    struct copse_params_row_put p = { .n = moves_extent(l), .width = 3 };
    p.rows = (p.n + p.width - 1) / p.width;
    copse__divisor(p.width, &p.m, &p.h);
    l->range = p.rows;
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, p.rows, (size_t)p.rows * p.width);
}

/* In reverse order; every fourth place names no row. */
static void arrange_row_put(const struct copse_launch *l, uint32_t *const *words)
{
    for (uint32_t i = 0; i < l->range; i++)
        words[1][i] = i % 4 == 3 ? (i % 8 == 3 ? l->range : UINT32_MAX) : l->range - 1 - i;
}

/* ---- dropout ---- */

#define DROPOUT_ROW    7u
#define DROPOUT_STREAM 3u

/* About a half: the random word of one of the first elements of the step that COPSE_CONTENT_STEP
   has. The element is kept, with a word lower by one it would not be. */
static uint32_t dropout_threshold(const struct copse_launch *l)
{
    uint32_t step[COPSE_STEP_WORDS], random[4];
    copse__launch_step(l, step, COPSE_STEP_WORDS);
    uint32_t counter[4] = { step[COPSE_STEP_FIRST_EXAMPLE] * DROPOUT_ROW, 0,
                            step[COPSE_STEP_NUMBER], DROPOUT_STREAM };
    do {
        copse__philox(counter,
                      (const uint32_t[]){ step[COPSE_STEP_SEED_LO], step[COPSE_STEP_SEED_HI] },
                      random);
        counter[0]++;
    } while (random[0] < 0x40000000u || random[0] > 0x90000000u);
    return random[0];
}

static void plan_dropout(struct copse_launch *l)
{
    struct copse_params_dropout p = { .n = moves_extent(l),
                                      .row_elements = DROPOUT_ROW,
                                      .stream = DROPOUT_STREAM,
                                      .threshold = dropout_threshold(l),
                                      .scale = copse__launch_either(l, 1.25f, 2.0f) };
    copse__divisor(p.row_elements, &p.m, &p.h);
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, COPSE_STEP_WORDS, p.n);
}

/* 32 elements to an invocation. */
static void plan_dropout_wide(struct copse_launch *l)
{
    const struct copse_params_dropout_wide p = {
        (uint32_t)copse__launch_extent(l, 32), DROPOUT_ROW, DROPOUT_STREAM, dropout_threshold(l),
        copse__launch_either(l, 1.25f, 2.0f),  32
    };
    COPSE_LAUNCH_PLAN(l, p, l->want, p.n, COPSE_STEP_WORDS, p.n);
}

/* Elements on both sides of place 2^32, where the counter carries. */
static void arrange_far(const struct copse_launch *l, uint32_t *const *words)
{
    words[1][COPSE_STEP_FIRST_EXAMPLE] =
        (uint32_t)(((uint64_t)1 << 32) / DROPOUT_ROW - l->counts[0] / (2 * DROPOUT_ROW));
}

/* Examples on both sides of 2^32. */
static void arrange_last(const struct copse_launch *l, uint32_t *const *words)
{
    words[1][COPSE_STEP_FIRST_EXAMPLE] = 0u - (uint32_t)(l->counts[0] / (2 * DROPOUT_ROW)) - 1u;
}

/* ---- the forms ---- */

#define NO_REALS \
    .no_values = COPSE_ALL_VALUES & ~COPSE_WHOLE_VALUES, .why = "integers have no such numbers"
#define ONE_GROUP                                                   \
    .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_ONE), \
    .why = "the kernel writes one number"
#define COPY_FORM(kernel_, label, rank, is_scatter, from, to, ...)                       \
    {                                                                                    \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .spec = { rank, is_scatter },   \
        .contents = { from, to }, .plan = plan_##kernel_, .is_single = true, __VA_ARGS__ \
    }
#define DROPOUT(kernel_, label, arrange_)                                           \
    {                                                                               \
        .kernel = COPSE_KERNEL_##kernel_, .name = label,                            \
        .contents = { VALUES, COPSE_CONTENT_STEP, RESULT }, .plan = plan_##kernel_, \
        .arrange = arrange_, .has_zero_signs = true                                 \
    }

static const struct copse_launch_form forms[] = {
    COPY_FORM(copy, "1 axis", 1, 0, VALUES, RESULT, .tier = COPSE_CONFORM_QUICK),
    COPY_FORM(copy, "transposed", 2, 0, VALUES, RESULT, .tier = COPSE_CONFORM_QUICK),
    COPY_FORM(copy, "6 axes", 6, 0, VALUES, RESULT, .tier = COPSE_CONFORM_QUICK),
    COPY_FORM(copy, "to strides", 3, 1, VALUES, RESULT, .tier = COPSE_CONFORM_QUICK),
    COPY_FORM(copy_i32, "1 axis", 1, 0, WHOLE, WORDS, NO_REALS),
    COPY_FORM(copy_i32, "6 axes", 6, 0, WHOLE, WORDS, NO_REALS),
    COPY_FORM(copy_i32, "to strides", 3, 1, WHOLE, WORDS, NO_REALS),
    { .kernel = COPSE_KERNEL_fill,
      .name = "",
      .contents = { RESULT },
      .plan = plan_fill,
      .is_poor = true,
      .is_single = true },
    { .kernel = COPSE_KERNEL_fill_i32,
      .name = "",
      .contents = { WORDS },
      .plan = plan_fill_i32,
      .is_poor = true,
      NO_REALS },
    { .kernel = COPSE_KERNEL_step_scalar,
      .name = "",
      .contents = { ARRANGED, RESULT },
      .plan = plan_step_scalar,
      .arrange = arrange_step_scalar,
      .is_poor = true,
      .is_single = true,
      ONE_GROUP },
    { .kernel = COPSE_KERNEL_from_u8,
      .name = "",
      .contents = { WHOLE, WORDS },
      .plan = plan_from_u8,
      NO_REALS },
    { .kernel = COPSE_KERNEL_from_half,
      .name = "f16",
      .contents = { ARRANGED, RESULT },
      .plan = plan_from_half,
      .arrange = arrange_from_half,
      .is_single = true },
    { .kernel = COPSE_KERNEL_from_half,
      .name = "bf16",
      .spec = { 1 },
      .contents = { ARRANGED, RESULT },
      .plan = plan_from_half,
      .arrange = arrange_from_half,
      .is_single = true },
    { .kernel = COPSE_KERNEL_to_half,
      .name = "f16",
      .contents = { VALUES, WORDS },
      .plan = plan_to_half,
      .arrange = arrange_to_half,
      .is_single = true },
    { .kernel = COPSE_KERNEL_to_half,
      .name = "bf16",
      .spec = { 1 },
      .contents = { VALUES, WORDS },
      .plan = plan_to_half,
      .arrange = arrange_to_half,
      .is_single = true },
    { .kernel = COPSE_KERNEL_to_f32,
      .name = "",
      .contents = { WHOLE, RESULT },
      .plan = plan_to_f32,
      NO_REALS },
    { .kernel = COPSE_KERNEL_to_i32,
      .name = "",
      .contents = { VALUES, WORDS },
      .plan = plan_to_i32 },
    { .kernel = COPSE_KERNEL_gather,
      .name = "",
      .contents = { VALUES, INDEX, RESULT },
      .plan = plan_gather,
      .is_single = true },
    { .kernel = COPSE_KERNEL_gather,
      .name = "rows past 2^24",
      .contents = { VALUES, INDEX, RESULT },
      .plan = plan_gather_far,
      .arrange = arrange_gather_far,
      .is_single = true,
      .tier = COPSE_CONFORM_STANDARD,
      .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW),
      .why = "one launch of this table is enough" },
    { .kernel = COPSE_KERNEL_row_put,
      .name = "",
      .contents = { VALUES, ARRANGED, RESULT },
      .plan = plan_row_put,
      .arrange = arrange_row_put,
      .is_single = true },
    DROPOUT(dropout, "", NULL),
    DROPOUT(dropout, "places around 2^32", arrange_far),
    DROPOUT(dropout, "examples around 2^32", arrange_last),
    DROPOUT(dropout_wide, "", NULL),
    DROPOUT(dropout_wide, "places around 2^32", arrange_far),
    DROPOUT(dropout_wide, "examples around 2^32", arrange_last),
};

/* ---- the lines that an invocation, or a group, walks ---- */

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(copy, COPSE_WALKS_NONE),        COPSE_NO_LINE(copy_i32, COPSE_WALKS_NONE),
    COPSE_NO_LINE(fill, COPSE_WALKS_NONE),        COPSE_NO_LINE(fill_i32, COPSE_WALKS_NONE),
    COPSE_NO_LINE(step_scalar, COPSE_WALKS_NONE), COPSE_NO_LINE(from_u8, COPSE_WALKS_NONE),
    COPSE_NO_LINE(from_half, COPSE_WALKS_NONE),   COPSE_NO_LINE(to_half, COPSE_WALKS_NONE),
    COPSE_NO_LINE(to_f32, COPSE_WALKS_NONE),      COPSE_NO_LINE(to_i32, COPSE_WALKS_NONE),
    COPSE_NO_LINE(gather, COPSE_WALKS_NONE),      COPSE_NO_LINE(row_put, COPSE_WALKS_NONE),
    COPSE_NO_LINE(dropout, COPSE_WALKS_NONE),     COPSE_NO_LINE(dropout_wide, COPSE_WALKS_NONE),
};

const struct copse_launch_list copse_launch_moves = { forms, COPSE_COUNT(forms), lines,
                                                      COPSE_COUNT(lines) };
