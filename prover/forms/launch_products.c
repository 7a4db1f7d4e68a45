/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of matrix products. */
#include <math.h>

#include "copse/matmul.h"
#include "core/ops/product/matmul_tile.h"
#include "core/ops/product/product_end.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };

#define SHORT 5u /* terms of a sum */

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

/* A sum of the regime of few groups is longer than a chain of 256 additions. */
static uint32_t products_terms(const struct copse_launch *l)
{
    return l->regime == COPSE_REGIME_FEW ? 300 : SHORT;
}

/* C in tiles of rows x cols: two columns of tiles where there are several, an odd edge on both
   sides. */
struct tiles {
    uint32_t m, n;
    uint64_t groups;
};

static struct tiles tiles_of(const struct copse_launch *l, uint32_t rows, uint32_t cols)
{
    const uint32_t across = l->want > 1 ? 2 : 1, down = divide_up(l->want, across);
    return (struct tiles){ down * rows - rows / 3, across * cols - cols / 3,
                           (uint64_t)across * down };
}

/* Words of the buffers `bias` and z, of a C of m x n in `times` parts or matrices. */
static size_t words_of_bias(const struct copse_launch *l, size_t times, size_t m, size_t n)
{
    return copse__end_has_z(l->spec) ? times * m * n : n;
}

static size_t words_of_kept(const struct copse_launch *l, size_t count)
{
    return copse__end_keeps(l->spec) ? count : 1;
}

static void plan_matmul(struct copse_launch *l)
{
    const struct tiles t = tiles_of(l, 4 * l->group_y, 4 * l->group_x);
    const uint32_t k = products_terms(l);
    const struct copse_params_matmul p = { .m = t.m,
                                           .n = t.n,
                                           .k = k,
                                           .k_end = k,
                                           .batch = 1,
                                           .a_each = 1,
                                           .a_count = 1,
                                           .b_each = 1,
                                           .b_count = 1 };
    COPSE_LAUNCH_PLAN(l, p, t.groups, (size_t)t.m * k, (size_t)k * t.n, t.n, (size_t)t.m * t.n);
}

/* Item i reads matrix i of A and matrix i / 2 % 3 of B. */
static void plan_batch(struct copse_launch *l)
{
    const uint32_t m = 3, n = 2, k = products_terms(l), batch = (uint32_t)l->want;
    const struct copse_params_matmul p = { .m = m,
                                           .n = n,
                                           .k = k,
                                           .k_end = k,
                                           .batch = batch,
                                           .a_each = 1,
                                           .a_count = batch,
                                           .b_each = 2,
                                           .b_count = 3 };
    const uint64_t groups =
        (uint64_t)batch * divide_up(m, 4 * l->group_y) * divide_up(n, 4 * l->group_x);
    COPSE_LAUNCH_PLAN(l, p, groups, (size_t)batch * m * k, 3 * (size_t)k * n, n,
                      (size_t)batch * m * n);
}

/* The second part of a sum that is split over two launches: it adds to C, then bias and activation
   follow. */
static void plan_part(struct copse_launch *l)
{
    plan_matmul(l);
    ((struct copse_params_matmul *)(void *)l->params)->k_begin = 2;
}

static void plan_tiles(struct copse_launch *l, uint32_t k, uint32_t part)
{
    const uint32_t parts = divide_up(k, part), whole = l->spec[5] ? 4 : 1;
    struct tiles t;
    uint32_t rows, cols, batch = 1;
    copse__tile_size((enum copse_tile_shape)l->spec[4], l->group_x * l->group_y, &rows, &cols);
    if (l->regime == COPSE_REGIME_AXIS) { /* whole tiles would take 4 GiB */
        batch = divide_up(l->want, parts);
        t = (struct tiles){ 4, 4, batch };
    } else {
        t = tiles_of(l, rows, cols);
    }
    const struct copse_params_matmul_tile p = { .m = t.m / whole * whole,
                                                .n = t.n / whole * whole,
                                                .k = divide_up(k, whole) * whole,
                                                .batch = batch,
                                                .a_each = 1,
                                                .a_count = batch,
                                                .b_each = 2,
                                                .b_count = 3,
                                                .part = part,
                                                .parts = parts };
    const size_t count = (size_t)parts * batch * p.m * p.n;
    COPSE_LAUNCH_PLAN(l, p, parts * t.groups, (size_t)batch * p.m * p.k, 3 * (size_t)p.k * p.n,
                      words_of_bias(l, (size_t)parts * batch, p.m, p.n), words_of_kept(l, count),
                      count);
}

static void plan_tile(struct copse_launch *l)
{
    const uint32_t k = products_terms(l);
    plan_tiles(l, k, divide_up(k, 16) * 16);
}

static void plan_tile_parts(struct copse_launch *l)
{
    plan_tiles(l, 36, 16);
}

/* Six parts. */
static void plan_join(struct copse_launch *l)
{
    const uint32_t n = 7, count = (uint32_t)l->want * l->group_x * l->group_y - 3;
    const struct copse_params_matmul_join p = { count, n, 6 };
    COPSE_LAUNCH_PLAN(l, p, l->want, 6 * (size_t)count, copse__end_has_z(l->spec) ? count : n,
                      words_of_kept(l, count), count);
}

static void plan_texel(struct copse_launch *l)
{
    struct tiles t = tiles_of(l, 8, 64);
    const uint32_t k = l->regime == COPSE_REGIME_AXIS ? 4 : divide_up(products_terms(l), 4) * 4;
    if (l->regime == COPSE_REGIME_AXIS) /* whole tiles would take 128 MiB */
        t = (struct tiles){ 8 * (uint32_t)l->want - 3, 3, l->want };
    const uint32_t a_row = divide_up(l->spec[2] ? t.m : k, 4), a_rows = l->spec[2] ? k : t.m;
    const uint32_t b_row = divide_up(l->spec[3] ? k : t.n, 4), b_rows = l->spec[3] ? t.n : k;
    const struct copse_params_matmul_texel p = { .m = t.m,
                                                 .n = t.n,
                                                 .k = k,
                                                 .k_end = k,
                                                 .a_row = a_row,
                                                 .b_row = b_row,
                                                 .batch = 1,
                                                 .a_each = 1,
                                                 .a_count = 1,
                                                 .b_each = 1,
                                                 .b_count = 1 };
    const size_t count = (size_t)t.m * t.n;
    COPSE_LAUNCH_PLAN(l, p, t.groups, 4 * (size_t)a_row * a_rows, 4 * (size_t)b_row * b_rows,
                      words_of_bias(l, 1, t.m, t.n), words_of_kept(l, count), count);
}

#define HALVES(n) (((size_t)(n) + 1) / 2) /* words of n elements of f16 */

static void plan_halves(struct copse_launch *l, const struct copse_params_matmul_half *p,
                        uint64_t groups)
{
    COPSE_LAUNCH_PLAN(l, *p, groups, HALVES((size_t)p->batch * p->m * p->k),
                      HALVES((size_t)p->b_count * p->k * p->n), p->n,
                      (size_t)p->batch * p->m * p->n);
}

/* Items of 3 x 2: item i reads matrix i of A and matrix i / 2 % 3 of B. */
static void plan_half_batch(struct copse_launch *l)
{
    const uint32_t batch = (uint32_t)l->want, k = products_terms(l);
    const struct copse_params_matmul_half p = { .m = 3,
                                                .n = 2,
                                                .k = k,
                                                .k_end = k,
                                                .batch = batch,
                                                .a_each = 1,
                                                .a_count = batch,
                                                .b_each = 2,
                                                .b_count = 3 };
    plan_halves(l, &p, batch);
}

static void plan_one_half(struct copse_launch *l, uint32_t rows, uint32_t cols)
{
    const struct tiles t = tiles_of(l, rows, cols);
    const uint32_t k = products_terms(l);
    const struct copse_params_matmul_half p = { .m = t.m,
                                                .n = t.n,
                                                .k = k,
                                                .k_end = k,
                                                .batch = 1,
                                                .a_each = 1,
                                                .a_count = 1,
                                                .b_each = 1,
                                                .b_count = 1 };
    plan_halves(l, &p, t.groups);
}

static void plan_half(struct copse_launch *l)
{
    plan_one_half(l, 4 * l->group_y, 4 * l->group_x);
}

static void plan_half_part(struct copse_launch *l)
{
    plan_half(l);
    ((struct copse_params_matmul_half *)(void *)l->params)->k_begin = 2;
}

/* With more groups than an axis, items of one incomplete tile. */
static void plan_units(struct copse_launch *l, uint32_t terms, uint32_t part)
{
    const int32_t form = l->spec[5];
    const uint32_t whole = form % COPSE_COOPERATIVE_LARGE ? 8 : 1,
                   tile = copse__cooperative_tile(form), k = divide_up(terms, whole) * whole,
                   parts = divide_up(k, part);
    struct tiles t = tiles_of(l, tile, tile);
    uint32_t batch = 1;
    if (l->regime == COPSE_REGIME_AXIS) {
        batch = divide_up(l->want, parts);
        t = (struct tiles){ whole > 1 ? whole : 3, whole > 1 ? whole : 2, batch };
    }
    const struct copse_params_matmul_cooperative p = { .m = t.m / whole * whole,
                                                       .n = t.n / whole * whole,
                                                       .k = k,
                                                       .batch = batch,
                                                       .a_each = 1,
                                                       .a_count = batch,
                                                       .b_each = 2,
                                                       .b_count = 3,
                                                       .part = part,
                                                       .parts = parts };
    const size_t count = (size_t)parts * batch * p.m * p.n;
    COPSE_LAUNCH_PLAN(
        l, p, parts * t.groups, HALVES((size_t)batch * p.m * p.k), HALVES(3 * (size_t)p.k * p.n),
        words_of_bias(l, (size_t)parts * batch, p.m, p.n), words_of_kept(l, count), count);
}

static void plan_cooperative(struct copse_launch *l)
{
    const uint32_t k = products_terms(l);
    plan_units(l, k, divide_up(k, 16) * 16);
}

static void plan_cooperative_parts(struct copse_launch *l)
{
    plan_units(l, 116, 48);
}

/* Sums that are added to C twice. */
static void plan_chunks(struct copse_launch *l)
{
    plan_units(l, 2 * 4096 + 40, 8192 + 48);
}

static void arrange_halves(const struct copse_launch *l, uint32_t *const *words)
{
    copse__launch_halves(l, 0, l->spec[4] != 0, words[0]);
    copse__launch_halves(l, 1, l->spec[4] != 0, words[1]);
}

static void any_matmul(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_matmul *p = (const void *)l->params;
    copse__launch_any(l, words, p->k, p->n);
}

static void any_tile(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_matmul_tile *p = (const void *)l->params;
    copse__launch_any(l, words, p->k, p->n);
}

static void any_texel(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_matmul_texel *p = (const void *)l->params;
    copse__launch_any(l, words, 4 * (size_t)p->a_row, 4 * (size_t)p->b_row);
}

static void any_wide(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_matmul_wide *p = (const void *)l->params;
    copse__launch_any(l, words, p->k, p->b_step);
}

static void any_chunk(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_matmul_chunk *p = (const void *)l->params;
    copse__launch_any(l, words, p->k, p->n);
}

static void any_halves(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_matmul_half *p = (const void *)l->params;
    copse__launch_any_halves(l, l->spec[4] != 0, words, p->k, p->n);
}

static void any_cooperative(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_matmul_cooperative *p = (const void *)l->params;
    copse__launch_any_halves(l, l->spec[4] != 0, words, p->k, p->n);
}

/* B in panels. */
static void plan_wide(struct copse_launch *l)
{
    const uint32_t width = 16u << l->spec[2], k = products_terms(l);
    struct tiles t = tiles_of(l, 6, width);
    if (l->regime == COPSE_REGIME_AXIS && width > 16) /* whole tiles would take 96 MiB */
        t = (struct tiles){ 6 * (uint32_t)l->want - 2, 3, l->want };
    const struct copse_params_matmul_wide p = {
        .m = t.m,
        .n = t.n,
        .k = k,
        .a_row = k,
        .a_step = 1,
        .b_panel = k * width,
        .b_step = width,
        .batch = 1,
        .a_each = 1,
        .a_count = 1,
        .b_each = 1,
        .b_count = 1,
    };
    COPSE_LAUNCH_PLAN(l, p, t.groups, (size_t)t.m * k, (size_t)divide_up(t.n, width) * k * width,
                      t.n, (size_t)t.m * t.n);
}

/* Items of 5 x 14: item i reads matrix i of A, transposed, and matrix i / 2 % 3 of B. */
#define BATCH_M 5u
#define BATCH_N 14u

static void plan_wide_batch(struct copse_launch *l)
{
    const uint32_t k = products_terms(l), batch = (uint32_t)l->want;
    const struct copse_params_matmul_wide p = {
        .m = BATCH_M,
        .n = BATCH_N,
        .k = k,
        .a_row = 1,
        .a_step = BATCH_M,
        .b_panel = k * 16,
        .b_step = 16,
        .a_batch = BATCH_M * k,
        .b_batch = k * 16,
        .batch = batch,
        .a_each = 1,
        .a_count = batch,
        .b_each = 2,
        .b_count = 3,
    };
    COPSE_LAUNCH_PLAN(l, p, batch, (size_t)batch * BATCH_M * k, 3 * (size_t)k * 16, BATCH_N,
                      (size_t)batch * BATCH_M * BATCH_N);
}

/* Invocations of 12 rows, two tiles in registers; with few groups the bias follows the last one of
   two whole chunks, or a part of a chunk. */
static void plan_chunk(struct copse_launch *l)
{
    const bool is_whole = l->spec[0] && l->regime == COPSE_REGIME_FEW;
    const uint32_t k = is_whole ? 512 : products_terms(l), rows = 12;
    struct tiles t = tiles_of(l, rows, 64);
    if (l->regime == COPSE_REGIME_AXIS) /* whole tiles would take 200 MiB */
        t = (struct tiles){ rows * (uint32_t)l->want - 4, 3, l->want };
    const struct copse_params_matmul_chunk p = {
        .m = t.m,
        .n = t.n,
        .k = k,
        .batch = 1,
        .a_each = 1,
        .a_count = 1,
        .b_each = 1,
        .b_count = 1,
        .rows = rows,
    };
    COPSE_LAUNCH_PLAN(l, p, t.groups, (size_t)t.m * k, (size_t)k * t.n, t.n, (size_t)t.m * t.n);
}

static void plan_chunk_batch(struct copse_launch *l)
{
    const uint32_t k = products_terms(l), batch = (uint32_t)l->want;
    const struct copse_params_matmul_chunk p = {
        .m = BATCH_M,
        .n = BATCH_N,
        .k = k,
        .batch = batch,
        .a_each = 1,
        .a_count = batch,
        .b_each = 2,
        .b_count = 3,
        .rows = BATCH_M,
    };
    COPSE_LAUNCH_PLAN(l, p, batch, (size_t)batch * BATCH_M * k, 3 * (size_t)k * BATCH_N, BATCH_N,
                      (size_t)batch * BATCH_M * BATCH_N);
}

static void plan_texel_batch(struct copse_launch *l)
{
    const uint32_t k = divide_up(products_terms(l), 4) * 4, batch = (uint32_t)l->want;
    /* z is as large as the result: less of both */
    const uint32_t n = copse__end_has_z(l->spec) ? BATCH_N / 2 : BATCH_N;
    const uint32_t a_row = k / 4, b_row = divide_up(n, 4);
    const struct copse_params_matmul_texel p = {
        .m = BATCH_M,
        .n = n,
        .k = k,
        .k_end = k,
        .a_row = a_row,
        .b_row = b_row,
        .a_batch = a_row * BATCH_M,
        .b_batch = b_row * k,
        .batch = batch,
        .a_each = 1,
        .a_count = batch,
        .b_each = 2,
        .b_count = 3,
    };
    const size_t count = (size_t)batch * BATCH_M * n;
    COPSE_LAUNCH_PLAN(l, p, batch, 4 * (size_t)p.a_batch * batch, 3 * 4 * (size_t)p.b_batch,
                      words_of_bias(l, batch, BATCH_M, n), words_of_kept(l, count), count);
}

/* A sum of three levels. */
static void plan_wide_long(struct copse_launch *l)
{
    const uint32_t width = 16, k = 2 * 64 * 256 + 5;
    const struct copse_params_matmul_wide p = {
        .m = 7,
        .n = 17,
        .k = k,
        .a_row = k,
        .a_step = 1,
        .b_panel = k * width,
        .b_step = width,
        .batch = 1,
        .a_each = 1,
        .a_count = 1,
        .b_each = 1,
        .b_count = 1,
    };
    COPSE_LAUNCH_PLAN(l, p, 4, (size_t)p.m * k, 2 * (size_t)k * width, p.n, (size_t)p.m * p.n);
}

/* ---- the forms ---- */

/* Kernels with ends have z before the last buffer. */
#define TO(kernel_, label, plan_, c, ...)                                                     \
    {                                                                                         \
        .kernel = COPSE_KERNEL_##kernel_, .name = label,                                      \
        .contents = { VALUES, VALUES, VALUES, c, RESULT }, .plan = plan_, .cap = 0x1p50f,     \
        .is_rare = true,                                                                      \
        .least_group = COPSE_KERNEL_##kernel_ == COPSE_KERNEL_matmul_texel ? TEXEL_LANES : 0, \
        .spec = {                                                                             \
            __VA_ARGS__                                                                       \
        }                                                                                     \
    }
/* a group of matmul_texel has 8 invocations on every device */
#define TEXEL_LANES                         8
#define PRODUCT(kernel_, label, plan_, ...) TO(kernel_, label, plan_, RESULT, __VA_ARGS__)
#define OF_HALVES(kernel_, group_, apart_, label, plan_, c, ...)                           \
    {                                                                                      \
        .kernel = COPSE_KERNEL_##kernel_, .name = label,                                   \
        .contents = { COPSE_CONTENT_ARRANGED, COPSE_CONTENT_ARRANGED, VALUES, c, RESULT }, \
        .plan = plan_, .arrange = arrange_halves, .cap = 0x1p15f, .is_rare = true,         \
        .least_group = group_, .apart = apart_, .spec = {                                  \
            __VA_ARGS__                                                                    \
        }                                                                                  \
    }
#define TILE(label, plan_, ...)                                                                \
    {                                                                                          \
        .kernel = COPSE_KERNEL_matmul_tile, .name = label,                                     \
        .contents = { VALUES, VALUES, VALUES, RESULT, RESULT }, .plan = plan_, .cap = 0x1p50f, \
        .is_rare = true, .least_group = COPSE_TILE_LEAST_GROUP, .spec = {                      \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }
#define JOIN(label, ...)                                                                   \
    {                                                                                      \
        .kernel = COPSE_KERNEL_matmul_join, .name = label,                                 \
        .contents = { VALUES, VALUES, RESULT, RESULT }, .plan = plan_join, .cap = 0x1p50f, \
        .spec = {                                                                          \
            __VA_ARGS__                                                                    \
        }                                                                                  \
    }
/* ends, of functions by their numbers in kernels/elementwise/unary.def */
#define KEPT_GELU                  (COPSE_END_KEEPS + 12)
#define SLOPE_OF_GELU              (COPSE_END_SLOPE + 12)
#define SLOPE_BY_RELU              (COPSE_END_SLOPE_BY_Y + COPSE_RELU)
#define HALF(label, plan_, c, ...) OF_HALVES(matmul_half, 0, 0, label, plan_, c, __VA_ARGS__)
#define SUBNORMAL                  COPSE_BIT(COPSE_VALUES_SUBNORMALS)
/* The product of infinity and a subnormal bf16 number, which is subnormal in f32, too, is NaN where
   these are flushed. */
#define BFLOAT(label, plan_, c, ...) \
    OF_HALVES(matmul_half, 0, SUBNORMAL, label, plan_, c, __VA_ARGS__)
#define UNITS(label, apart_, ...)                                                                 \
    OF_HALVES(matmul_cooperative, COPSE_COOPERATIVE_LEAST_GROUP, apart_, label, plan_cooperative, \
              RESULT, __VA_ARGS__)
/* Each of so many groups multiplies a whole tile of zeros, which takes a CPU a minute. */
#define LARGE_UNITS(label, apart_, ...)                                                         \
    {                                                                                           \
        .kernel = COPSE_KERNEL_matmul_cooperative, .name = label,                               \
        .contents = { COPSE_CONTENT_ARRANGED, COPSE_CONTENT_ARRANGED, VALUES, RESULT, RESULT }, \
        .plan = plan_cooperative, .arrange = arrange_halves, .cap = 0x1p15f, .is_rare = true,   \
        .least_group = COPSE_COOPERATIVE_LEAST_GROUP, .apart = apart_,                          \
        .no_regimes = COPSE_BIT(COPSE_REGIME_AXIS), .why = "small tiles have as many groups",   \
        .spec = {                                                                               \
            __VA_ARGS__                                                                         \
        }                                                                                       \
    }
#define WHOLE 3 /* rows of A and B are whole eights */
#define LARGE COPSE_COOPERATIVE_LARGE
/* Equal and lost terms, in sums of 300. */
#define ANY(kernel_, plan_, arrange_, contents_, lanes, ...)                                    \
    {                                                                                           \
        .kernel = COPSE_KERNEL_##kernel_, .name = "any terms",                                  \
        .contents = { COPSE_CONTENT_##contents_, COPSE_CONTENT_##contents_, VALUES, RESULT,     \
                      RESULT },                                                                 \
        .plan = plan_, .arrange = arrange_, .is_proven = true, .cap = 0x1p15f, .is_rare = true, \
        .least_group = lanes, .no_values = COPSE_ALL_VALUES & ~1u,                              \
        .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW),                         \
        .why = "launches of few groups have the longest sums", .spec = {                        \
            __VA_ARGS__                                                                         \
        }                                                                                       \
    }

static const struct copse_launch_form forms[] = {
    PRODUCT(matmul, "", plan_matmul, 0),
    PRODUCT(matmul, "bias, relu", plan_matmul, 1, COPSE_RELU),
    PRODUCT(matmul, "both transposed", plan_matmul, 0, 0, 1, 1),
    PRODUCT(matmul, "batch", plan_batch, 0, 0, 0, 0, 1),
    TO(matmul, "second part", plan_part, VALUES, 1, COPSE_RELU),
    PRODUCT(matmul_texel, "", plan_texel, 0),
    PRODUCT(matmul_texel, "bias, relu", plan_texel, 1, COPSE_RELU),
    PRODUCT(matmul_texel, "A transposed", plan_texel, 0, 0, 1, 0),
    PRODUCT(matmul_texel, "B transposed", plan_texel, 0, 0, 0, 1),
    PRODUCT(matmul_texel, "batch", plan_texel_batch, 0, 0, 0, 0, 1),
    PRODUCT(matmul_texel, "gelu, its operand kept", plan_texel, 1, KEPT_GELU),
    PRODUCT(matmul_texel, "slope of gelu, batch", plan_texel_batch, 0, SLOPE_OF_GELU, 0, 0, 1),
    PRODUCT(matmul_texel, "slope by relu", plan_texel, 0, SLOPE_BY_RELU, 0, 1),
    HALF("f16", plan_half, RESULT, 0),
    HALF("f16, bias, relu", plan_half, RESULT, 1, COPSE_RELU),
    BFLOAT("bf16, both transposed", plan_half, RESULT, 0, 0, 1, 1, 1),
    BFLOAT("bf16, batch", plan_half_batch, RESULT, 0, 0, 0, 0, 1),
    HALF("f16, second part", plan_half_part, VALUES, 1, COPSE_RELU),
    UNITS("small", 0, 0, 0, 0, 0, 0, WHOLE),
    UNITS("small, odd, bias, relu", 0, 1, COPSE_RELU),
    UNITS("small, both transposed", 0, 0, 0, 1, 1, 0, WHOLE),
    UNITS("small, odd, B transposed", 0, 0, 0, 0, 1),
    LARGE_UNITS("large", 0, 0, 0, 0, 0, 0, LARGE + WHOLE),
    LARGE_UNITS("large, odd, both transposed", 0, 0, 0, 1, 1, 0, LARGE),
    LARGE_UNITS("large, B transposed, bias, relu", 0, 1, COPSE_RELU, 0, 1, 0, LARGE + WHOLE),
    UNITS("bf16, small", SUBNORMAL, 0, 0, 0, 0, 1, WHOLE),
    LARGE_UNITS("bf16, large, odd, A transposed, bias, relu", SUBNORMAL, 1, COPSE_RELU, 1, 0, 1,
                LARGE),
    UNITS("small, gelu, its operand kept", 0, 1, KEPT_GELU),
    UNITS("small, odd, slope of gelu, B transposed", 0, 0, SLOPE_OF_GELU, 0, 1),
    LARGE_UNITS("large, slope by relu", 0, 0, SLOPE_BY_RELU, 0, 0, 0, LARGE),
    { .kernel = COPSE_KERNEL_matmul_cooperative,
      .name = "parts",
      .contents = { COPSE_CONTENT_ARRANGED, COPSE_CONTENT_ARRANGED, VALUES, RESULT, RESULT },
      .plan = plan_cooperative_parts,
      .arrange = arrange_halves,
      .cap = 0x1p15f,
      .is_rare = true,
      .least_group = COPSE_COOPERATIVE_LEAST_GROUP,
      .no_regimes = COPSE_BIT(COPSE_REGIME_ONE),
      .why = "three parts have three groups" },
    { .kernel = COPSE_KERNEL_matmul_cooperative,
      .name = "chunks",
      .contents = { COPSE_CONTENT_ARRANGED, COPSE_CONTENT_ARRANGED, VALUES, RESULT, RESULT },
      .plan = plan_chunks,
      .arrange = arrange_halves,
      .cap = 0x1p12f,
      .is_rare = true,
      .least_group = COPSE_COOPERATIVE_LEAST_GROUP,
      .no_values = COPSE_ALL_VALUES & ~1u,
      .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW),
      .why = "long sums take one launch",
      .spec = { 1, COPSE_RELU, 0, 0, 0, WHOLE } },
    PRODUCT(matmul_chunk, "", plan_chunk, 0),
    PRODUCT(matmul_chunk, "bias, relu, B transposed", plan_chunk, 1, COPSE_RELU, 0, 1),
    PRODUCT(matmul_chunk, "batch, A transposed", plan_chunk_batch, 0, 0, 1),
    PRODUCT(matmul_wide, "16 columns", plan_wide, 0),
    PRODUCT(matmul_wide, "batch", plan_wide_batch, 0),
    PRODUCT(matmul_wide, "64 columns, bias, relu", plan_wide, 1, COPSE_RELU, 2),
    { .kernel = COPSE_KERNEL_matmul_wide,
      .name = "long sums",
      .contents = { VALUES, VALUES, VALUES, RESULT },
      .plan = plan_wide_long,
      .no_values = COPSE_ALL_VALUES & ~1u,
      .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW),
      .why = "long sums take one launch" },
    ANY(matmul, plan_matmul, any_matmul, VALUES, 0, 1),
    TILE("large", plan_tile, 0, 0, 0, 0, COPSE_TILE_LARGE, 3),
    TILE("large, odd", plan_tile, 0, 0, 1, 1, COPSE_TILE_LARGE, 0),
    TILE("small, bias, relu", plan_tile, 1, COPSE_RELU, 0, 0, COPSE_TILE_SMALL, 0),
    TILE("small, both transposed", plan_tile, 0, 0, 1, 1, COPSE_TILE_SMALL, 3),
    TILE("flat, B transposed", plan_tile, 0, 0, 0, 1, COPSE_TILE_FLAT, 1),
    TILE("thin, A transposed", plan_tile, 0, 0, 1, 0, COPSE_TILE_THIN, 2),
    TILE("large, gelu, its operand kept", plan_tile, 1, KEPT_GELU, 0, 0, COPSE_TILE_LARGE, 0),
    TILE("small, slope of gelu", plan_tile, 0, SLOPE_OF_GELU, 0, 1, COPSE_TILE_SMALL, 0),
    TILE("flat, slope by relu", plan_tile, 0, SLOPE_BY_RELU, 0, 0, COPSE_TILE_FLAT, 3),
    { .kernel = COPSE_KERNEL_matmul_tile,
      .name = "parts",
      .contents = { VALUES, VALUES, VALUES, RESULT, RESULT },
      .plan = plan_tile_parts,
      .cap = 0x1p50f,
      .is_rare = true,
      .least_group = COPSE_TILE_LEAST_GROUP,
      .no_regimes = COPSE_BIT(COPSE_REGIME_ONE),
      .why = "three parts have three groups",
      .spec = { 0, 0, 0, 0, COPSE_TILE_SMALL, 3 } },
    ANY(matmul_tile, plan_tile, any_tile, VALUES, COPSE_TILE_LEAST_GROUP, 1, 0, 0, 0,
        COPSE_TILE_LARGE, 3),
    JOIN("", 0),
    JOIN("bias, relu", 1, COPSE_RELU),
    JOIN("gelu, its operand kept", 1, KEPT_GELU),
    JOIN("slope of gelu", 0, SLOPE_OF_GELU),
    ANY(matmul_texel, plan_texel, any_texel, VALUES, TEXEL_LANES, 1),
    ANY(matmul_chunk, plan_chunk, any_chunk, VALUES, 0, 1),
    ANY(matmul_wide, plan_wide, any_wide, VALUES, 0, 1),
    ANY(matmul_half, plan_half, any_halves, ARRANGED, 0, 1),
    ANY(matmul_cooperative, plan_cooperative, any_cooperative, ARRANGED,
        COPSE_COOPERATIVE_LEAST_GROUP, 1),
};

/* ---- the lines that an invocation, or a group, walks ---- */

#define COMBINED \
    "products: modes run and grad have the combinations of operands, bias and activation"
#define PRODUCTS "sums of products: no case here; mode stress has chains of 70,001"

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(matmul, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(matmul_texel, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(matmul_half, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(matmul_cooperative, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(matmul_chunk, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(matmul_wide, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(matmul_tile, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(matmul_join, "parts: at most 16 but for sums of 262,144 terms and more",
                  .no_flags = COMBINED),
};

const struct copse_launch_list copse_launch_products = { forms, COPSE_COUNT(forms), lines,
                                                         COPSE_COUNT(lines) };
