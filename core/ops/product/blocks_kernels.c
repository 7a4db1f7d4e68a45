/* SPDX-License-Identifier: MIT */
/* References and self-tests of the kernels that read matrices of blocks. */
#include <math.h>

#include "core/device/kernel/sum_bound.h"
#include "core/ops/product/blocks.h"
#include "core/ops/product/matmul_tile.h"
#include "core/ops/self_tests.h"

/* Constants of all these kernels; the first one differs. blocks_tile has FORM, too. */
enum {
    BITS = 1,
    LOG_GROUP = 2,
    HAS_OFFSETS = 3,
    FORM = 4,
    ARE_MAGNITUDES = 5 /* of references only */
};

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

/* ---- references ---- */

static uint32_t bits_of(const int32_t *spec)
{
    return spec[BITS] == 4 ? 4 : 8;
}

/* Element i of a matrix: `args` are words, scales and offsets. */
static double block_at(const int32_t *spec, const struct copse_host_arg *args, size_t i)
{
    const uint32_t bits = bits_of(spec);
    const size_t per_word = 32u / bits, group = i >> spec[LOG_GROUP];
    const uint32_t word = (uint32_t)copse__load_i(&args[0], i / per_word), mask = (1u << bits) - 1u;
    const int lowest = spec[HAS_OFFSETS] ? 0 : 1 << (bits - 1);
    const int number = (int)(word >> bits * (i % per_word) & mask) - lowest;
    float x = (float)number * (float)copse__load(&args[1], group);
    if (spec[HAS_OFFSETS])
        x += (float)copse__load(&args[2], group);
    return (double)x;
}

/* C[m, n] = A op(B), terms k_begin to k_end; `adds`: to the content of C. */
struct sums {
    size_t m, n, k, k_begin, k_end;
    bool b_transposed, adds;
};

enum { ROWS = 16 };

/* The sums of column j in up to ROWS rows from `i0` on: an element of B serves all of them. */
static void sum_rows(const struct sums *p, const int32_t *spec, const struct copse_host_arg *args,
                     size_t i0, size_t rows, size_t j, double *sums)
{
    for (size_t r = 0; r < rows; r++) {
        const double before = p->adds ? copse__load(&args[4], (i0 + r) * p->n + j) : 0;
        sums[r] = spec[ARE_MAGNITUDES] ? fabs(before) : before;
    }
    for (size_t l = p->k_begin; l < p->k_end; l++) {
        const double w = block_at(spec, args + 1, p->b_transposed ? j * p->k + l : l * p->n + j);
        for (size_t r = 0; r < rows; r++) {
            const double term = copse__load(&args[0], (i0 + r) * p->k + l) * w;
            sums[r] += spec[ARE_MAGNITUDES] ? fabs(term) : term;
        }
    }
}

/* `first` is the place of C. */
static void sum_all(const struct sums *p, const int32_t *spec, const struct copse_host_arg *args,
                    size_t first)
{
    double sums[ROWS];
    for (size_t i = 0; i < p->m; i += ROWS)
        for (size_t j = 0; j < p->n; j++) {
            const size_t rows = COPSE_MIN((size_t)ROWS, p->m - i);
            sum_rows(p, spec, args, i, rows, j, sums);
            for (size_t r = 0; r < rows; r++)
                copse__store(&args[4], first + (i + r) * p->n + j, sums[r]);
        }
}

static double sum_at(const struct sums *p, const int32_t *spec, const struct copse_host_arg *args,
                     size_t place)
{
    double sum;
    sum_rows(p, spec, args, place / p->n, 1, place % p->n, &sum);
    return sum;
}

static struct sums shared_sums(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_blocks *p = params;
    return (struct sums){ p->m, p->n, p->k, p->k_begin, p->k_end, spec[0] != 0, p->k_begin > 0 };
}

static struct sums wide_sums(const void *params, const int32_t *spec)
{
    const struct copse_params_blocks_wide *p = params;
    return (struct sums){ p->m, p->n, p->k, 0, p->k, spec[0] != 0, false };
}

/* blocks_one_wide and blocks_one have the same parameters. */
_Static_assert(sizeof(struct copse_params_blocks_one) ==
                   sizeof(struct copse_params_blocks_one_wide),
               "parameters");

static struct sums one_sums(const void *params, const int32_t *spec)
{
    const struct copse_params_blocks_one *p = params;
    (void)spec;
    return (struct sums){ p->m, p->n, p->k, 0, p->k, true, false };
}

#define REFERENCES(name)                                                                  \
    static void name##_host(const void *params, const int32_t *spec,                      \
                            const struct copse_host_arg *args)                            \
    {                                                                                     \
        const struct sums p = name##_sums(params, spec);                                  \
        sum_all(&p, spec, args, 0);                                                       \
    }                                                                                     \
    static double name##_at(const void *params, const int32_t *spec,                      \
                            const struct copse_host_arg *args, size_t place)              \
    {                                                                                     \
        const struct sums p = name##_sums(params, spec);                                  \
        return sum_at(&p, spec, args, place);                                             \
    }                                                                                     \
    static struct copse_elements name##_elements(const void *params, const int32_t *spec) \
    {                                                                                     \
        const struct sums p = name##_sums(params, spec);                                  \
        return (struct copse_elements){ (uint64_t)p.m * p.n, p.k_end - p.k_begin };       \
    }                                                                                     \
    static struct copse_sum name##_sum(const void *params, const int32_t *spec)           \
    {                                                                                     \
        static const int32_t bare[COPSE_MAX_SPECS] = { 0 };                               \
        const struct sums p = name##_sums(params, spec);                                  \
        return copse__sum_of(name##_roundings(p.k_end - p.k_begin), p.adds, bare);        \
    }

/* Chains, parts of 32 of them, launches of 8,192 terms, as matmul. */
static uint64_t shared_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, 32, 8192);
}

static uint64_t wide_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, terms, terms);
}

/* At most 64 lanes of four chains, or 16 chains, are added in a tree. */
static uint64_t one_roundings(uint64_t terms)
{
    return terms > 0 ? wide_roundings(terms) + 8 : 0;
}

REFERENCES(shared)
REFERENCES(wide)
REFERENCES(one)

/* A piece of k has a C of its own. */
static struct sums piece_sums(const void *params, const int32_t *spec, size_t piece)
{
    const struct copse_params_blocks_tile *p = params;
    const size_t begin = piece * p->part;
    return (struct sums){ p->m,         p->n, p->k, begin, COPSE_MIN(begin + p->part, (size_t)p->k),
                          spec[0] != 0, false };
}

static void tile_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_blocks_tile *p = params;
    for (size_t piece = 0; piece < p->parts; piece++) {
        const struct sums s = piece_sums(params, spec, piece);
        sum_all(&s, spec, args, piece * p->m * p->n);
    }
}

static double tile_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                      size_t place)
{
    const struct copse_params_blocks_tile *p = params;
    const size_t count = (size_t)p->m * p->n;
    const struct sums s = piece_sums(params, spec, place / count);
    return sum_at(&s, spec, args, place % count);
}

static struct copse_elements tile_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_blocks_tile *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->parts * p->m * p->n, p->part };
}

/* As matmul_tile, whose parts it has. */
static uint64_t tile_roundings(uint64_t terms)
{
    return copse__tile_roundings(terms, copse__tile_split);
}

static struct copse_sum tile_sum(const void *params, const int32_t *spec)
{
    static const int32_t bare[COPSE_MAX_SPECS] = { 0 };
    const struct copse_params_blocks_tile *p = params;
    (void)spec;
    return copse__sum_of(copse__tile_part_roundings(COPSE_MIN(p->part, p->k)), false, bare);
}

static double blocks_rows_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t i)
{
    const struct copse_params_blocks_rows *p = params;
    const size_t width = (size_t)p->width * (32u / bits_of(spec));
    if (!spec[0])
        return block_at(spec, args, i);
    const uint32_t row = (uint32_t)copse__load_i(&args[3], i / width);
    return row < p->rows ? block_at(spec, args, row * width + i % width) : (double)NAN;
}

static struct copse_elements blocks_rows_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_blocks_rows *p = params;
    return (struct copse_elements){ (uint64_t)p->count * (32u / bits_of(spec)), 2 };
}

static void blocks_rows_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const uint64_t count = blocks_rows_elements(params, spec).count;
    for (size_t i = 0; i < count; i++)
        copse__store(&args[4], i, blocks_rows_at(params, spec, args, i));
}

/* ---- self-tests: whole numbers in all words ---- */

static void fill_words(struct copse_self_test *t, uint32_t buffer)
{
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++)
        t->words[buffer][i] = 2654435769u * (i + 1u);
}

/* Words and groups of so many numbers. */
#define WORDS_OF(k, n)  ((n)*bits_of((k)->spec) / 32u)
#define GROUPS_OF(k, n) ((n) >> (k)->spec[LOG_GROUP])

#define M 9u
#define N 32u
#define K 32u

static void shared_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t terms = COPSE_MAX(K, 1u << k->spec[LOG_GROUP]), n = k->spec[0] ? 17 : terms,
                   depth = k->spec[0] ? terms : 17;
    const struct copse_params_matmul_blocks p = { .m = M,
                                                  .n = n,
                                                  .k = depth,
                                                  .k_end = depth,
                                                  .batch = 1,
                                                  .a_each = 1,
                                                  .a_count = 1,
                                                  .b_each = 1,
                                                  .b_count = 1 };
    COPSE_SELF_TEST(t, p, (uint64_t)divide_up(M, 4 * k->group_y) * divide_up(n, 4 * k->group_x),
                    M * depth, WORDS_OF(k, n * depth), GROUPS_OF(k, n * depth),
                    GROUPS_OF(k, n * depth), M * n);
    fill_words(t, 1);
}

static void wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t terms = COPSE_MAX(K, 1u << k->spec[LOG_GROUP]), n = k->spec[0] ? 17 : terms,
                   depth = k->spec[0] ? terms : 17;
    const struct copse_params_blocks_wide p = { M, n, depth, 6 };
    COPSE_SELF_TEST(t, p, 2 * (uint64_t)divide_up(n, 64), M * depth, WORDS_OF(k, n * depth),
                    GROUPS_OF(k, n * depth), GROUPS_OF(k, n * depth), M * n);
    fill_words(t, 1);
}

/* Parts of 16 terms, and of a few; no multiple of any tile. */
static void tile_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t terms = COPSE_MAX(K, 1u << k->spec[LOG_GROUP]),
                   odd = COPSE_BLOCKS_IN_QUADS(k->spec[FORM]) ? 20 : 17, m = terms > 64 ? 3 : M,
                   n = k->spec[0] ? 7 : terms, depth = k->spec[0] ? terms : odd;
    uint32_t rows, cols;
    copse__tile_size(COPSE_BLOCKS_SHAPE(k->spec[FORM]), k->group_x * k->group_y, &rows, &cols);
    const struct copse_params_blocks_tile p = { m, n, depth, 16, divide_up(depth, 16) };
    COPSE_SELF_TEST(t, p, (uint64_t)p.parts * divide_up(m, rows) * divide_up(n, cols), m * depth,
                    WORDS_OF(k, n * depth), GROUPS_OF(k, n * depth), GROUPS_OF(k, n * depth),
                    p.parts * m * n);
    fill_words(t, 1);
}

static void one_test_of(const struct copse_kernel *k, struct copse_self_test *t, uint64_t groups)
{
    const uint32_t terms = COPSE_MAX(2 * K, 1u << k->spec[LOG_GROUP]), n = 7;
    const struct copse_params_blocks_one p = { 2, n, terms };
    COPSE_SELF_TEST(t, p, groups, 2 * terms, WORDS_OF(k, n * terms), GROUPS_OF(k, n * terms),
                    GROUPS_OF(k, n * terms), 2 * n);
    fill_words(t, 1);
}

static void one_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    one_test_of(k, t, copse__test_groups(k, (uint64_t)14 << k->spec[0]));
}

static void blocks_one_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    one_test_of(k, t, 4);
}

static void blocks_rows_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t columns = COPSE_MAX(N, 1u << k->spec[LOG_GROUP]), rows = 3, places = 5,
                   written = k->spec[0] ? places : rows;
    struct copse_params_blocks_rows p = { .count = written * WORDS_OF(k, columns),
                                          .width = WORDS_OF(k, columns),
                                          .rows = rows };
    copse__divisor(p.width, &p.m, &p.h);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), rows * p.width,
                    GROUPS_OF(k, rows * columns), GROUPS_OF(k, rows * columns), places,
                    written * columns);
    fill_words(t, 0);
    t->words[3][1] = (uint32_t)-1;
}

/* ---- laws ---- */

static void of_magnitudes(int32_t *spec)
{
    spec[ARE_MAGNITUDES] = 1;
}

/* All products of a group with a subnormal scale may be rounded to multiples of 2^-149. */
#define FLOOR 0x1p-116

#define LAW_OF_SUMS(kernel_, name, test)                      \
    const struct copse_law copse_law_##kernel_ = {            \
        .host = name##_host,                                  \
        .at = name##_at,                                      \
        .elements = name##_elements,                          \
        .limit = { .ulp = 0.5, .floor = FLOOR, .ratio = 16 }, \
        .magnitudes = of_magnitudes,                          \
        .has_signs = true,                                    \
        .roundings = name##_roundings,                        \
        .sum = name##_sum,                                    \
        .self_test = test,                                    \
    }
LAW_OF_SUMS(matmul_blocks, shared, shared_test);
LAW_OF_SUMS(blocks_wide, wide, wide_test);
LAW_OF_SUMS(blocks_one, one, one_test);
LAW_OF_SUMS(blocks_one_wide, one, blocks_one_wide_test);
LAW_OF_SUMS(blocks_tile, tile, tile_test);

const struct copse_law copse_law_blocks_rows = {
    .host = blocks_rows_host,
    .at = blocks_rows_at,
    .elements = blocks_rows_elements,
    .self_test = blocks_rows_test,
};
