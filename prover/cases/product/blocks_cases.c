/* SPDX-License-Identifier: MIT */
/* Cases of products with matrices of blocks, and of their rows. Words have all bit patterns; with
   whole scales, offsets and x the sums are exact. */
#include <math.h>

#include "copse/matmul.h"
#include "copse/ops/blocks.h"
#include "prover/cases/cases.h"

/* The kind of a matrix: in[1] to in[3] are words, scales, offsets. */
struct kind {
    uint32_t bits;
    bool has_offsets, transpose;
};

static struct copse_blocks matrix_of(const struct kind *k, copse_tensor *const *in)
{
    return (struct copse_blocks){ in[1], in[2], k->has_offsets ? in[3] : NULL, k->bits };
}

static copse_tensor *blocks_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct copse_blocks w = matrix_of(user, in);
    return copse_matmul_blocks(g, in[0], &w, ((const struct kind *)user)->transpose);
}

static copse_tensor *rows_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct copse_blocks w = matrix_of(user, in);
    return copse_gather_blocks(g, &w, in[0]);
}

/* |w|, whose elements depend on signs: all rows of the matrix. */
static copse_tensor *blocks_sizes(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct copse_blocks w = matrix_of(user, in);
    const uint32_t rows = copse_tensor_shape(in[1]).dims[0];
    int32_t *numbers = copse__alloc(&g->ctx->base.mem, rows, sizeof *numbers);
    COPSE_LATCH(g, copse_need_memory(numbers, "cases"));
    for (uint32_t i = 0; i < rows; i++)
        numbers[i] = (int32_t)i;
    copse_tensor *all = copse_constant(g, COPSE_I32, COPSE_SHAPE(rows), numbers);
    copse__free(&g->ctx->base.mem, numbers);
    return copse_abs(g, copse_gather_blocks(g, &w, all));
}

/* |x| |op(w)|; x may have one axis. */
static copse_tensor *sizes_product(copse_graph *g, copse_tensor *x, copse_tensor *sizes,
                                   bool transpose)
{
    const copse_shape all = copse_tensor_shape(x), w = copse_tensor_shape(sizes);
    if (all.rank == 1)
        x = copse_reshape(g, x, COPSE_SHAPE(1, all.dims[0]));
    copse_tensor *y = copse_matmul(g, copse_abs(g, x), sizes, false, transpose);
    return all.rank == 1 ? copse_reshape(g, y, COPSE_SHAPE(w.dims[!transpose])) : y;
}

static copse_tensor *blocks_magnitude(copse_graph *g, copse_tensor *const *in, const void *user)
{
    return sizes_product(g, in[0], blocks_sizes(g, in, user),
                         ((const struct kind *)user)->transpose);
}

/* Of the derivative of x; dy is after the inputs. */
static copse_tensor *blocks_slope_magnitude(copse_graph *g, copse_tensor *const *in,
                                            const void *user)
{
    const struct kind *k = user;
    return sizes_product(g, in[k->has_offsets ? 4 : 3], blocks_sizes(g, in, user), !k->transpose);
}

static const struct kind four = { 4, false, true }, eight = { 8, false, true },
                         four_offsets = { 4, true, true }, eight_offsets = { 8, true, true },
                         four_back = { 4, false, false }, eight_back = { 8, true, false };

static const struct copse_case_op ops[] = {
    { .name = "matmul_blocks",
      .accuracy = COPSE_ACCURACY_product,
      .call = blocks_build,
      .user = &four,
      .in = { F32_OF(2, 16), I32_OF(3, 2), F32_OF(3, 1) },
      .in_count = 3 },
    { .name = "gather_blocks",
      .accuracy = COPSE_ACCURACY_exact,
      .call = rows_build,
      .user = &four,
      .in = { I32_OF(2), I32_OF(3, 2), F32_OF(3, 1) },
      .in_count = 3 },
};

/* One row and 512 rows with a matrix of 2048 x 2048. */
#define SPEED(label, kind, bits, rows, ...)                                                    \
    {                                                                                          \
        .op = "matmul_blocks", .name = label, .build = blocks_build, .user = &kind,            \
        .in = { F32_OF(rows, SIDE), I32_OF(SIDE, SIDE * bits / 32), F32_OF(SIDE, SIDE / 32) }, \
        .in_count = 3, .family = "blocks", __VA_ARGS__                                         \
    }
static const struct copse_case speeds[] = {
    SPEED("one row, 4 bits, " OF_SQUARE, four, 4, 1, .bytes = (0.5 + 0.125) * SIDE * SIDE),
    SPEED("one row, 8 bits, " OF_SQUARE, eight, 8, 1, .bytes = (1 + 0.125) * SIDE * SIDE),
    SPEED("512 rows, 4 bits, " OF_SQUARE, four, 4, 512, .flops = 2.0 * 512 * SIDE * SIDE),
    SPEED("512 rows, 8 bits, " OF_SQUARE, eight, 8, 512, .flops = 2.0 * 512 * SIDE * SIDE),
};

static void blocks_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *x = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5, 32));
    copse_tensor *n = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(5));
    copse_tensor *six = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(1, 1, 1, 1, 1, 1));
    copse_tensor *words = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(3, 4));
    copse_tensor *scales = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 1));
    copse_tensor *three = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 3));
    copse_tensor *scalar = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    const struct copse_blocks w = { words, scales, NULL, 4 }, six_bits = { words, scales, NULL, 6 },
                              swapped = { scales, words, NULL, 4 },
                              uneven = { words, three, NULL, 4 },
                              no_scales = { words, NULL, NULL, 4 },
                              offsets = { words, scales, three, 4 },
                              others = { words, scales, r->other, 4 };
    REFUSES(r, ARGUMENT, "matmul_blocks: the matrix is NULL",
            copse_matmul_blocks(g, x, NULL, true));
    REFUSES(r, ARGUMENT, "matmul_blocks: operand 2 is NULL",
            copse_matmul_blocks(g, x, &no_scales, true));
    REFUSES(r, ARGUMENT, "matmul_blocks: numbers of 6 bits; 4 and 8 are known",
            copse_matmul_blocks(g, x, &six_bits, true));
    REFUSES(r, SHAPE, "expected i32 words", copse_matmul_blocks(g, x, &swapped, true));
    REFUSES(r, SHAPE, "expected f32 scales [3, 32 / group]",
            copse_matmul_blocks(g, x, &uneven, true));
    REFUSES(r, SHAPE, "expected offsets of the type and shape of the scales",
            copse_matmul_blocks(g, x, &offsets, true));
    REFUSES(r, ARGUMENT, "another graph", copse_matmul_blocks(g, x, &others, true));
    REFUSES(r, SHAPE, "expected an f32 x whose last axis has 3 elements",
            copse_matmul_blocks(g, x, &w, false));
    REFUSES(r, SHAPE, "whose last axis has 32 elements", copse_matmul_blocks(g, scalar, &w, true));
    REFUSES(r, SHAPE, "gather_blocks: operands f32[5, 32]", copse_gather_blocks(g, &w, x));
    REFUSES(r, SHAPE, "more than 6 axes", copse_gather_blocks(g, &w, six));
    REFUSES(r, ARGUMENT, "gather_blocks: the matrix is NULL", copse_gather_blocks(g, NULL, n));
}

#define FIXED(kind_, from, to, ...) \
    ({ .type = COPSE_F32,           \
       .shape = __VA_ARGS__,        \
       .fill = COPSE_FILL_##kind_,  \
       .low = from,                 \
       .high = to,                  \
       .is_constant = true })
#define WORDS(...) I32_UNIFORM(-2147483648.0, 2147483647.0, __VA_ARGS__)
#define SIGNED(label, kind, x, words, scales, ...)                                  \
    {                                                                               \
        .op = "matmul_blocks", .name = label, .build = blocks_build, .user = &kind, \
        THREE_INPUTS(x, words, scales), .family = "blocks", SLOPE, __VA_ARGS__      \
    }
#define OFFSETS(label, kind, x, words, scales, offsets, ...)                           \
    {                                                                                  \
        .op = "matmul_blocks", .name = label, .build = blocks_build, .user = &kind,    \
        FOUR_INPUTS(x, words, scales, offsets), .family = "blocks", SLOPE, __VA_ARGS__ \
    }
/* The derivative has slopes that are not whole. */
#define SLOPE                                                   \
    .backward = { .ratio = 16 }, .magnitude = blocks_magnitude, \
    .slope_magnitude = { blocks_slope_magnitude }
#define RATIO .forward = { .ratio = 16 }
#define EXACT .skips_differences = true
#define ROWS(label, kind, indices, words, scales, ...)                             \
    {                                                                              \
        .op = "gather_blocks", .name = label, .build = rows_build, .user = &kind,  \
        THREE_INPUTS(indices, words, scales), .has_no_gradient = true, __VA_ARGS__ \
    }

/* Two rows of 16 numbers of 4 bits: 0 to 15, and 15 to 0; the second row has the scale 1/2. */
static const double stated_words[] = { 0x76543210, (double)(int32_t)0xfedcba98,
                                       (double)0x89abcdef - 4294967296.0, 0x01234567 };
static const double stated_scales[] = { 1, 0.5 };
static const double stated_indices[] = { 1, 0, 2 };
#define N NAN
static const double stated_rows[] = { 3.5,  3,  2.5,  2,  1.5, 1,  0.5, 0,  -0.5, -1, -1.5, -2,
                                      -2.5, -3, -3.5, -4, -8,  -7, -6,  -5, -4,   -3, -2,   -1,
                                      0,    1,  2,    3,  4,   5,  6,   7,  N,    N,  N,    N,
                                      N,    N,  N,    N,  N,   N,  N,   N,  N,    N,  N,    N };
/* The same numbers, with 8 bits and offsets: bytes 0 to 15, and 255 down. */
static const double bytes[] = { 0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c };
static const double byte_scales[] = { 2 }, byte_offsets[] = { -3 };
static const double ones[] = { 1 };
static const double byte_sum[] = { 2.0 * 120 - 16 * 3 };
static const double nan_at_the_end[] = { 1, 2, 3, -1, 2, 1, 1, 1, 1, 2, 3, -1, 2, 1, 1, 1,
                                         1, 2, 3, -1, 2, 1, 1, 1, 1, 2, 3, -1, 2, 1, 1, 1,
                                         1, 2, 3, -1, 2, 1, 1, 1, 1, 2, 3, -1, 2, 1, 1, NAN };

static const struct copse_case cases[] = {
    SIGNED("4 bits, groups of 32", four, WHOLE(-3, 3, DIMS(7, 64)), WORDS(DIMS(17, 8)),
           FIXED(INTEGERS, -2, 2, DIMS(17, 2)), EXACT, QUICK),
    SIGNED("8 bits, groups of 16", eight, WHOLE(-3, 3, DIMS(7, 48)), WORDS(DIMS(17, 12)),
           FIXED(INTEGERS, -2, 2, DIMS(17, 3)), EXACT, QUICK),
    OFFSETS("4 bits with offsets", four_offsets, WHOLE(-3, 3, DIMS(7, 64)), WORDS(DIMS(17, 8)),
            FIXED(INTEGERS, -2, 2, DIMS(17, 2)), FIXED(INTEGERS, -9, 9, DIMS(17, 2)), EXACT, QUICK),
    OFFSETS("8 bits with offsets", eight_offsets, WHOLE(-3, 3, DIMS(7, 64)), WORDS(DIMS(17, 16)),
            FIXED(INTEGERS, -2, 2, DIMS(17, 2)), FIXED(INTEGERS, -9, 9, DIMS(17, 2)), EXACT,
            STANDARD),
    OFFSETS("stated: 8 bits with offsets", eight_offsets, VALUES(ones, DIMS(1, 16)),
            I32_VALUES(bytes, DIMS(1, 4)),
            ({ .type = COPSE_F32,
               .shape = DIMS(1, 1),
               .fill = COPSE_FILL_VALUES,
               .values = byte_scales,
               .value_count = 1,
               .is_constant = true }),
            ({ .type = COPSE_F32,
               .shape = DIMS(1, 1),
               .fill = COPSE_FILL_VALUES,
               .values = byte_offsets,
               .value_count = 1,
               .is_constant = true }),
            .want = byte_sum, EXACT, QUICK),
    SIGNED("not transposed, 4 bits", four_back, WHOLE(-3, 3, DIMS(7, 17)), WORDS(DIMS(17, 8)),
           FIXED(INTEGERS, -2, 2, DIMS(17, 2)), EXACT, QUICK),
    OFFSETS("not transposed, 8 bits with offsets", eight_back, WHOLE(-3, 3, DIMS(7, 17)),
            WORDS(DIMS(17, 12)), FIXED(INTEGERS, -2, 2, DIMS(17, 3)),
            FIXED(INTEGERS, -9, 9, DIMS(17, 3)), EXACT, STANDARD),
    SIGNED("one row", four, WHOLE(-3, 3, DIMS(1, 64)), WORDS(DIMS(131, 8)),
           FIXED(INTEGERS, -2, 2, DIMS(131, 2)), EXACT, STANDARD),
    SIGNED("x of one axis", eight, WHOLE(-3, 3, DIMS(64)), WORDS(DIMS(5, 16)),
           FIXED(INTEGERS, -2, 2, DIMS(5, 2)), EXACT, STANDARD),
    SIGNED("x of three axes, groups of 64", eight, WHOLE(-3, 3, DIMS(2, 3, 64)), WORDS(DIMS(5, 16)),
           FIXED(INTEGERS, -2, 2, DIMS(5, 1)), EXACT, STANDARD),
    SIGNED("groups of 256", four, WHOLE(-3, 3, DIMS(5, 512)), WORDS(DIMS(3, 64)),
           FIXED(INTEGERS, -2, 2, DIMS(3, 2)), EXACT, STANDARD),
    SIGNED("one number", four, WHOLE(-3, 3, DIMS(1, 16)), WORDS(DIMS(1, 2)),
           FIXED(INTEGERS, 1, 2, DIMS(1, 1)), EXACT, STANDARD),
    SIGNED("no rows of x", four, WHOLE(-3, 3, DIMS(0, 32)), WORDS(DIMS(3, 4)),
           FIXED(INTEGERS, -2, 2, DIMS(3, 1)), EXACT, .is_poor = true, STANDARD),
    SIGNED("no rows of the matrix", four, WHOLE(-3, 3, DIMS(4, 32)), WORDS(DIMS(0, 4)),
           FIXED(INTEGERS, -2, 2, DIMS(0, 1)), EXACT, .is_poor = true, STANDARD),
    SIGNED("nothing to add", four_back, WHOLE(-3, 3, DIMS(4, 0)), WORDS(DIMS(0, 4)),
           FIXED(INTEGERS, -2, 2, DIMS(0, 1)), EXACT, .is_poor = true, STANDARD),
    SIGNED("past every tile", four, WHOLE(-3, 3, DIMS(131, 272)), WORDS(DIMS(133, 34)),
           FIXED(INTEGERS, -2, 2, DIMS(133, 17)), EXACT, STANDARD),
    OFFSETS("not transposed, past every tile", eight_back, WHOLE(-3, 3, DIMS(131, 133)),
            WORDS(DIMS(133, 68)), FIXED(INTEGERS, -2, 2, DIMS(133, 17)),
            FIXED(INTEGERS, -9, 9, DIMS(133, 17)), EXACT, STANDARD),
    SIGNED("k 8192", four, WHOLE(-3, 3, DIMS(5, 8192)), WORDS(DIMS(40, 1024)),
           FIXED(INTEGERS, -2, 2, DIMS(40, 256)), EXACT, STANDARD),
    SIGNED("NaN stays in its row", four, VALUES(nan_at_the_end, DIMS(3, 16)), WORDS(DIMS(5, 2)),
           FIXED(POSITIVE, 0, 0, DIMS(5, 1)), RATIO, .has_no_gradient = true, STANDARD),
    SIGNED("normal numbers", four, FILL(NORMAL, DIMS(9, 96)), WORDS(DIMS(33, 12)),
           FIXED(NORMAL, 0, 0, DIMS(33, 3)), RATIO, STANDARD),
    OFFSETS("normal numbers, offsets", four_offsets, FILL(NORMAL, DIMS(9, 96)), WORDS(DIMS(33, 12)),
            FIXED(NORMAL, 0, 0, DIMS(33, 3)), FIXED(NORMAL, 0, 0, DIMS(33, 3)), RATIO, STANDARD),
    OFFSETS("one row of normal numbers, k 4800", eight_offsets, FILL(NORMAL, DIMS(1, 4800)),
            WORDS(DIMS(9, 1200)), FIXED(NORMAL, 0, 0, DIMS(9, 150)),
            FIXED(NORMAL, 0, 0, DIMS(9, 150)), RATIO, EXACT, STANDARD),
    SIGNED("positive terms, k 1056", eight, FILL(POSITIVE, DIMS(65, 1056)), WORDS(DIMS(35, 264)),
           FIXED(POSITIVE, 0, 0, DIMS(35, 33)), RATIO, EXACT, STANDARD),
    SIGNED("not transposed, positive terms", four_back, FILL(POSITIVE, DIMS(5, 1000)),
           WORDS(DIMS(1000, 4)), FIXED(POSITIVE, 0, 0, DIMS(1000, 1)), RATIO, EXACT, STANDARD),
    ROWS("stated: rows, one out of range", four, I32_VALUES(stated_indices, DIMS(3)),
         I32_VALUES(stated_words, DIMS(2, 2)), VALUES(stated_scales, DIMS(2, 1)),
         .want = stated_rows, QUICK),
    ROWS("rows of 8 bits", eight, I32_UNIFORM(0, 10, DIMS(4, 6)), WORDS(DIMS(11, 12)),
         FILL(NORMAL, DIMS(11, 3)), QUICK),
    ROWS("half of the indices out of range", four, I32_UNIFORM(-40, 39, DIMS(300)),
         WORDS(DIMS(40, 4)), FILL(NORMAL, DIMS(40, 1)), .is_poor = true, STANDARD),
    ROWS("one index", four, I32_UNIFORM(0, 8, NO_DIMS), WORDS(DIMS(9, 4)), FILL(NORMAL, DIMS(9, 1)),
         STANDARD),
    ROWS("no indices", four, I32_UNIFORM(0, 4, DIMS(0)), WORDS(DIMS(5, 4)),
         FILL(NORMAL, DIMS(5, 1)), .is_poor = true, STANDARD),
    ROWS("no rows", four, I32_UNIFORM(0, 4, DIMS(4)), WORDS(DIMS(0, 4)), FILL(NORMAL, DIMS(0, 1)),
         .is_poor = true, STANDARD),
    { .op = "gather_blocks",
      .name = "rows with offsets",
      .build = rows_build,
      .user = &four_offsets,
      FOUR_INPUTS(I32_UNIFORM(0, 99, DIMS(70)), WORDS(DIMS(100, 8)), FILL(NORMAL, DIMS(100, 2)),
                  FILL(NORMAL, DIMS(100, 2))),
      .has_no_gradient = true,
      STANDARD },
};

/* Sums of more than 65,535 terms, by each variant. */
static const struct copse_case stress[] = {
    SIGNED("k 70,016", eight, FILL(POSITIVE, DIMS(3, 70016)), WORDS(DIMS(5, 17504)),
           FIXED(POSITIVE, 0, 0, DIMS(5, 2188)), RATIO, FULL),
    SIGNED("not transposed, k 70,001", four_back, FILL(POSITIVE, DIMS(3, 70001)),
           WORDS(DIMS(70001, 2)), FIXED(POSITIVE, 0, 0, DIMS(70001, 1)), RATIO, FULL),
};

COPSE_CASE_TABLE(blocks, OPS, STRESS, SPEEDS, .refusals = blocks_refusals)
