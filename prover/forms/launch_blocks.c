/* SPDX-License-Identifier: MIT */
/* Forms of the kernels that read matrices of blocks. Words have all bit patterns. */
#include "core/ops/ops.h"
#include "core/ops/product/blocks.h"
#include "core/ops/product/matmul_tile.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };
enum { ARRANGED = COPSE_CONTENT_ARRANGED, INDEX = COPSE_CONTENT_INDEX };

#define LOG_GROUP 4 /* groups of 16 numbers */

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

/* Words, and groups, of so many numbers. */
static size_t words_of(const struct copse_launch *l, size_t numbers)
{
    return numbers * (size_t)l->spec[1] / 32;
}
static size_t groups_of(size_t numbers)
{
    return numbers >> LOG_GROUP;
}

static void arrange_at(const struct copse_launch *l, uint32_t buffer, uint32_t *words)
{
    for (size_t i = 0; i < l->counts[buffer]; i++)
        words[i] = ((uint32_t)i + (uint32_t)l->seed) * 2654435769u ^ (uint32_t)i >> 3;
}

static void arrange_product(const struct copse_launch *l, uint32_t *const *words)
{
    arrange_at(l, 1, words[1]);
}

static void arrange_rows(const struct copse_launch *l, uint32_t *const *words)
{
    arrange_at(l, 0, words[0]);
}

/* ---- products ---- */

struct sizes {
    uint32_t m, n, k;
    uint64_t groups;
};

/* C in tiles of rows x cols, two columns, or rows, of tiles where there are several. Rows of the matrix are
   whole groups. Sums of the regime of few groups are longer than a chain. */
static struct sizes sizes_of(const struct copse_launch *l, uint32_t rows, uint32_t cols)
{
    const bool is_few = l->regime == COPSE_REGIME_FEW, is_axis = l->regime == COPSE_REGIME_AXIS;
    /* with more groups than an axis along the matrix, which takes less memory than A */
    const uint32_t two = l->want > 1 ? 2 : 1, others = divide_up(l->want, two),
                   across = is_axis ? others : two, down = is_axis ? two : others;
    struct sizes s = { .m = down * rows - rows / 3 };
    if (l->spec[0]) {
        s.n = across * cols - cols / 3;
        s.k = is_few ? 320 : is_axis ? 16 : 32;
    } else {
        s.n = COPSE_MAX(across * cols / 16, 2u) * 16 - 16;
        s.k = is_few ? 300 : is_axis ? 1 : 5;
    }
    s.groups = (uint64_t)down * divide_up(s.n, cols);
    return s;
}

#define PLAN(l, p, s)                                                                            \
    COPSE_LAUNCH_PLAN(l, p, (s).groups, (size_t)(s).m *(s).k, words_of(l, (size_t)(s).n *(s).k), \
                      groups_of((size_t)(s).n *(s).k), groups_of((size_t)(s).n *(s).k),          \
                      (size_t)(s).m *(s).n)

static void plan_shared(struct copse_launch *l)
{
    const struct sizes s = sizes_of(l, 4 * l->group_y, 4 * l->group_x);
    const struct copse_params_matmul_blocks p = { .m = s.m,
                                                  .n = s.n,
                                                  .k = s.k,
                                                  .k_end = s.k,
                                                  .batch = 1,
                                                  .a_each = 1,
                                                  .a_count = 1,
                                                  .b_each = 1,
                                                  .b_count = 1 };
    PLAN(l, p, s);
}

/* The second part of a sum that is split over two launches: it adds to C. */
static void plan_part(struct copse_launch *l)
{
    plan_shared(l);
    ((struct copse_params_matmul_blocks *)(void *)l->params)->k_begin = 2;
}

/* With more groups than an axis, each has two rows. */
static void plan_wide(struct copse_launch *l)
{
    const bool is_axis = l->regime == COPSE_REGIME_AXIS;
    const uint32_t rows = is_axis ? 2 : 12;
    struct sizes s = sizes_of(l, rows, 64);
    if (is_axis)
        s = (struct sizes){ rows * (uint32_t)l->want - 1, l->spec[0] ? 3 : 16, s.k, l->want };
    const struct copse_params_blocks_wide p = { s.m, s.n, s.k, rows };
    PLAN(l, p, s);
}

/* With more groups than an axis, each has a part of its own: whole tiles would take 4 GiB. */
static void plan_tile_of(struct copse_launch *l, uint32_t part)
{
    const int32_t form = l->spec[4];
    const bool is_axis = l->regime == COPSE_REGIME_AXIS;
    uint32_t rows, cols;
    copse__tile_size(COPSE_BLOCKS_SHAPE(form), copse__launch_group(l), &rows, &cols);
    struct sizes s = sizes_of(l, rows, cols);
    if (is_axis)
        s = (struct sizes){ 1, l->spec[0] ? 3 : 16, 16 * (uint32_t)l->want, 1 };
    if (COPSE_BLOCKS_IN_QUADS(form))
        s.k = divide_up(s.k, 4) * 4;
    if (part == 0 || is_axis)
        part = is_axis ? 16 : divide_up(s.k, 16) * 16;
    const struct copse_params_blocks_tile p = { s.m, s.n, s.k, part, divide_up(s.k, part) };
    const size_t numbers = (size_t)s.n * s.k, offsets = l->spec[3] ? groups_of(numbers) : 1;
    COPSE_LAUNCH_PLAN(l, p, p.parts * s.groups, (size_t)s.m * s.k, words_of(l, numbers),
                      groups_of(numbers), offsets, (size_t)p.parts * s.m * s.n);
}

static void plan_tile(struct copse_launch *l)
{
    plan_tile_of(l, 0);
}

static void plan_tile_parts(struct copse_launch *l)
{
    plan_tile_of(l, 16);
}

/* A row of x. With few groups each lane has two chains. */
static void plan_one(struct copse_launch *l)
{
    const uint32_t lanes = 1u << l->spec[0], is_few = l->regime == COPSE_REGIME_FEW,
                   chain = 64 * lanes * (32 / (uint32_t)l->spec[1]);
    const struct sizes s = { 1, (uint32_t)copse__launch_extent(l, copse__launch_group(l) / lanes),
                             is_few ? chain + 48 : 48, l->want };
    const struct copse_params_blocks_one p = { s.m, s.n, s.k };
    PLAN(l, p, s);
}

static void plan_one_wide(struct copse_launch *l)
{
    const struct sizes s = { 1, 4 * (uint32_t)l->want - 1,
                             l->regime == COPSE_REGIME_FEW ? 4096 + 48 : 48, l->want };
    const struct copse_params_blocks_one_wide p = { s.m, s.n, s.k };
    PLAN(l, p, s);
}

/* ---- rows ---- */

/* Three rows of 16 numbers, or as many as are written. */
static void plan_rows(struct copse_launch *l)
{
    enum { ROWS = 3, COLUMNS = 16 };
    const uint32_t width = (uint32_t)words_of(l, COLUMNS);
    struct copse_params_blocks_rows p = { .count = (uint32_t)copse__launch_extent(
                                              l, copse__launch_group(l)),
                                          .width = width,
                                          .rows = ROWS };
    const uint32_t rows = l->spec[0] ? ROWS : divide_up(p.count, width);
    copse__divisor(width, &p.m, &p.h);
    l->range = ROWS;
    COPSE_LAUNCH_PLAN(l, p, l->want, (size_t)rows * width, rows, rows, divide_up(p.count, width),
                      (size_t)p.count * (32 / (uint32_t)l->spec[1]));
}

/* ---- the forms ---- */

/* PoCL 3.1 does not compile groups of one invocation of matmul_blocks; blocks_one has 32 lanes. */
#define LEAST_SHARED 4
#define LANES        32
#define PRODUCT(kernel_, least, label, plan_, c, ...)                                      \
    {                                                                                      \
        .kernel = COPSE_KERNEL_##kernel_, .name = label,                                   \
        .contents = { VALUES, ARRANGED, VALUES, VALUES, c }, .plan = plan_,                \
        .arrange = arrange_product, .cap = 0x1p30f, .is_rare = true, .least_group = least, \
        .spec = {                                                                          \
            __VA_ARGS__                                                                    \
        }                                                                                  \
    }
/* Large numbers are so large that sums of them lose the others, which takes few roundings. */
#define IN_TILES(label, plan_, regime, reason, ...)                                            \
    {                                                                                          \
        .kernel = COPSE_KERNEL_blocks_tile, .name = label,                                     \
        .contents = { VALUES, ARRANGED, VALUES, VALUES, RESULT }, .plan = plan_,               \
        .arrange = arrange_product, .cap = 0x1p50f, .is_rare = true,                           \
        .least_group = COPSE_TILE_LEAST_GROUP, .no_regimes = COPSE_BIT(COPSE_REGIME_##regime), \
        .why = reason, .spec = {                                                               \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }
#define TILE(label, ...) \
    IN_TILES(label, plan_tile, AXIS, "the forms with parts have as many groups", __VA_ARGS__)
#define PARTS(label, ...) \
    IN_TILES(label, plan_tile_parts, ONE, "two parts have two groups", __VA_ARGS__)
#define QUADS(shape) COPSE_BLOCKS_FORM(COPSE_TILE_##shape, 1)
#define ODD(shape)   COPSE_BLOCKS_FORM(COPSE_TILE_##shape, 0)
#define ROWS_OF(label, ...)                                                         \
    {                                                                               \
        .kernel = COPSE_KERNEL_blocks_rows, .name = label,                          \
        .contents = { ARRANGED, VALUES, VALUES, INDEX, RESULT }, .plan = plan_rows, \
        .arrange = arrange_rows, .cap = 0x1p100f, .is_single = true, .spec = {      \
            __VA_ARGS__                                                             \
        }                                                                           \
    }

static const struct copse_launch_form forms[] = {
    PRODUCT(matmul_blocks, LEAST_SHARED, "4 bits", plan_shared, RESULT, 1, 4, LOG_GROUP),
    PRODUCT(matmul_blocks, LEAST_SHARED, "8 bits, offsets", plan_shared, RESULT, 1, 8, LOG_GROUP,
            1),
    PRODUCT(matmul_blocks, LEAST_SHARED, "not transposed, 8 bits", plan_shared, RESULT, 0, 8,
            LOG_GROUP),
    PRODUCT(matmul_blocks, LEAST_SHARED, "not transposed, 4 bits, offsets", plan_shared, RESULT, 0,
            4, LOG_GROUP, 1),
    PRODUCT(matmul_blocks, LEAST_SHARED, "second part", plan_part, VALUES, 1, 4, LOG_GROUP),
    PRODUCT(blocks_wide, 0, "4 bits", plan_wide, RESULT, 1, 4, LOG_GROUP),
    PRODUCT(blocks_wide, 0, "8 bits, offsets", plan_wide, RESULT, 1, 8, LOG_GROUP, 1),
    PRODUCT(blocks_wide, 0, "not transposed, 8 bits", plan_wide, RESULT, 0, 8, LOG_GROUP),
    PRODUCT(blocks_wide, 0, "not transposed, 4 bits, offsets", plan_wide, RESULT, 0, 4, LOG_GROUP,
            1),
    PRODUCT(blocks_one, LANES, "4 bits, 32 lanes", plan_one, RESULT, 5, 4, LOG_GROUP),
    PRODUCT(blocks_one, LANES, "8 bits, offsets, 32 lanes", plan_one, RESULT, 5, 8, LOG_GROUP, 1),
    PRODUCT(blocks_one, 0, "8 bits, one lane", plan_one, RESULT, 0, 8, LOG_GROUP),
    PRODUCT(blocks_one, 0, "4 bits, offsets, one lane", plan_one, RESULT, 0, 4, LOG_GROUP, 1),
    PRODUCT(blocks_one_wide, 0, "4 bits", plan_one_wide, RESULT, 0, 4, LOG_GROUP),
    PRODUCT(blocks_one_wide, 0, "8 bits", plan_one_wide, RESULT, 0, 8, LOG_GROUP),
    PRODUCT(blocks_one_wide, 0, "4 bits, offsets", plan_one_wide, RESULT, 0, 4, LOG_GROUP, 1),
    PRODUCT(blocks_one_wide, 0, "8 bits, offsets", plan_one_wide, RESULT, 0, 8, LOG_GROUP, 1),
    TILE("large, 4 bits", 1, 4, LOG_GROUP, 0, QUADS(LARGE)),
    TILE("large, 8 bits", 1, 8, LOG_GROUP, 0, QUADS(LARGE)),
    TILE("large, not transposed, 4 bits, offsets", 0, 4, LOG_GROUP, 1, QUADS(LARGE)),
    TILE("large, not transposed, 8 bits, odd rows", 0, 8, LOG_GROUP, 0, ODD(LARGE)),
    TILE("small, 8 bits, offsets", 1, 8, LOG_GROUP, 1, QUADS(SMALL)),
    TILE("small, not transposed, 4 bits, odd rows", 0, 4, LOG_GROUP, 0, ODD(SMALL)),
    TILE("flat, 4 bits, offsets", 1, 4, LOG_GROUP, 1, QUADS(FLAT)),
    TILE("flat, not transposed, 8 bits", 0, 8, LOG_GROUP, 0, QUADS(FLAT)),
    TILE("thin, 4 bits", 1, 4, LOG_GROUP, 0, QUADS(THIN)),
    TILE("thin, not transposed, 8 bits, offsets, odd rows", 0, 8, LOG_GROUP, 1, ODD(THIN)),
    PARTS("parts, 4 bits, offsets", 1, 4, LOG_GROUP, 1, QUADS(SMALL)),
    PARTS("parts, not transposed, 4 bits", 0, 4, LOG_GROUP, 0, QUADS(SMALL)),
    ROWS_OF("4 bits", 0, 4, LOG_GROUP),
    ROWS_OF("8 bits, offsets", 0, 8, LOG_GROUP, 1),
    ROWS_OF("by index, 8 bits", 1, 8, LOG_GROUP),
    ROWS_OF("by index, 4 bits, offsets", 1, 4, LOG_GROUP, 1),
};

/* ---- the lines that an invocation, or a group, walks ---- */

#define COMBINED \
    "products: modes run and grad have the combinations of bits, offsets and transposition"
#define PRODUCTS "sums of products: no case here; mode stress has chains of 70,001"

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(matmul_blocks, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(blocks_wide, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(blocks_one, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(blocks_one_wide, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(blocks_tile, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(blocks_rows, COPSE_WALKS_NONE,
                  .no_flags = "the bits of a number and its group depend on no other flag"),
};

const struct copse_launch_list copse_launch_blocks = { forms, COPSE_COUNT(forms), lines,
                                                       COPSE_COUNT(lines) };
