/* SPDX-License-Identifier: MIT */
/* See matmul_tile.h: the tables, the launches, and the laws of the kernels. */
#include "core/ops/product/matmul_tile.h"

#include "core/device/kernel/launch_split.h"
#include "core/device/kernel/sum_bound.h"
#include "core/ops/ops.h"
#include "core/ops/product/product_end.h"
#include "core/ops/self_tests.h"

/* ---- the tables ---- */

#define GROUP         256u /* invocations for which tiles are counted, on every device */
#define ENOUGH        64u  /* large tiles for which parts are counted by them */
#define UNKNOWN_UNITS 32u  /* compute units, where the driver does not say */
#define BUSY          128u /* groups that a product is divided into */

/* 3.2 rounds of loops per term; some drivers leave a loop after 65535 */
const struct copse_tile_split copse__tile_split = { COPSE_SUM_CHAIN, 16384, 16 };

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

void copse__tile_size(enum copse_tile_shape shape, uint32_t group, uint32_t *rows, uint32_t *cols)
{
    const uint32_t each = shape == COPSE_TILE_LARGE ? 8 : 4;
    const uint32_t lanes = shape == COPSE_TILE_FLAT ? 32 : shape == COPSE_TILE_THIN ? 8 : 16;
    *rows = each * (group / lanes);
    *cols = each * lanes;
}

uint64_t copse__tile_count(const struct copse_product *p, enum copse_tile_shape shape,
                           uint32_t group)
{
    uint32_t rows, cols;
    copse__tile_size(shape, group, &rows, &cols);
    return divide_up(p->m, rows) * divide_up(p->n, cols) * p->batch;
}

/* Sigmoid and tanh are long texts for each of 64 elements, so large tiles have none. */
static bool may_be_large(const struct copse_product *p)
{
    return p->activation <= COPSE_RELU;
}

/* The tiles by which parts are counted. */
static enum copse_tile_shape counted_shape(const struct copse_product *p)
{
    if (p->n <= 32)
        return COPSE_TILE_THIN;
    if (p->m <= 32)
        return COPSE_TILE_FLAT;
    return may_be_large(p) && copse__tile_count(p, COPSE_TILE_LARGE, GROUP) >= ENOUGH
               ? COPSE_TILE_LARGE
               : COPSE_TILE_SMALL;
}

/* The terms of each part: a multiple of 16, the longest strip, so that parts begin with whole
   quads. */
static uint32_t part_length(uint32_t k, uint64_t parts)
{
    return (uint32_t)divide_up(divide_up(k, parts), 16) * 16;
}

static uint32_t tile_part(const struct copse_product *p, struct copse_tile_split split)
{
    const uint64_t tiles = COPSE_MAX(copse__tile_count(p, counted_shape(p), GROUP), 1u),
                   by_tiles = BUSY / COPSE_MIN(tiles, BUSY),
                   by_terms = COPSE_MAX(p->k / split.least, 1u),
                   parts = COPSE_MIN(COPSE_MIN(by_tiles, by_terms), split.parts);
    return part_length(p->k, COPSE_MAX(parts, divide_up(p->k, split.most)));
}

static enum copse_tile_shape launched_shape(const struct copse_limits *limits,
                                            const struct copse_product *p, uint32_t parts)
{
    /* multiply-adds in percent of the instructions: docs/performance.md */
    static const uint32_t share[COPSE_TILE_SHAPES] = { 78, 64, 55, 55 };
    const uint32_t units = limits->compute_units ? limits->compute_units : UNKNOWN_UNITS;
    enum copse_tile_shape best = COPSE_TILE_SMALL;
    uint64_t least = UINT64_MAX;
    for (int i = !may_be_large(p); i < COPSE_TILE_SHAPES; i++) {
        uint32_t rows, cols;
        copse__tile_size((enum copse_tile_shape)i, GROUP, &rows, &cols);
        const uint64_t groups = parts * copse__tile_count(p, (enum copse_tile_shape)i, GROUP),
                       time = divide_up(groups, units) * (100 * rows * cols / share[i]);
        if (time < least) {
            least = time;
            best = (enum copse_tile_shape)i;
        }
    }
    return best;
}

struct copse_tile_choice copse__tile_choice_of(const struct copse_limits *limits,
                                               const struct copse_product *p,
                                               struct copse_tile_split split)
{
    const uint32_t part = tile_part(p, split), parts = (uint32_t)divide_up(p->k, part);
    return (struct copse_tile_choice){ launched_shape(limits, p, parts), part, parts };
}

struct copse_tile_choice copse__tile_choice(const struct copse_limits *limits,
                                            const struct copse_product *p)
{
    return copse__tile_choice_of(limits, p, copse__tile_split);
}

bool copse__parts_fit(const struct copse_limits *limits, const struct copse_product *p)
{
    const uint64_t parts = divide_up(p->k, tile_part(p, copse__tile_split));
    return parts == 1 ||
           parts * p->batch * p->m * p->n <= limits->max_binding_bytes / sizeof(float);
}

bool copse__tile_fits(const struct copse_limits *limits, const struct copse_product *p)
{
    return p->k > 0 && limits->max_group_size >= COPSE_TILE_LEAST_GROUP &&
           copse__parts_fit(limits, p);
}

/* ---- launches ---- */

/* Whether the rows of a matrix in memory are whole quads. */
static bool is_in_quads(uint32_t k, uint32_t size, bool is_along_k)
{
    return (is_along_k ? k : size) % 4 == 0;
}

copse_status copse__join_parts(struct copse_lowering *l, const struct copse_product *p,
                               uint32_t parts, struct copse_operand from, struct copse_operand kept)
{
    const int32_t ends[COPSE_MAX_SPECS] = { p->bias != NULL, copse__end_of(p) };
    const struct copse_params_matmul_join join = { p->batch * p->m * p->n, p->n, parts };
    return COPSE_LAUNCH(l, matmul_join, ends, join,
                        copse__groups_for(l, COPSE_KERNEL_matmul_join, join.count), from,
                        copse__bias_of(p), kept, p->c);
}

copse_status copse__lower_tile(struct copse_lowering *l, const struct copse_product *p)
{
    uint32_t x, y;
    copse__kernel_group(copse__limits(l), COPSE_KERNEL_matmul_tile, &x, &y);
    const struct copse_tile_choice choice = copse__tile_choice(copse__limits(l), p);
    const uint32_t parts = choice.parts;
    const bool is_whole = parts == 1;
    const struct copse_operand bias = copse__bias_of(p);
    const int32_t in_quads =
        is_in_quads(p->k, p->m, !p->a_transposed) + 2 * is_in_quads(p->k, p->n, p->b_transposed);
    const int32_t spec[COPSE_MAX_SPECS] = {
        is_whole && p->bias,   is_whole ? copse__end_of(p) : COPSE_LINEAR,
        p->a_transposed,       p->b_transposed,
        (int32_t)choice.shape, in_quads
    };
    const struct copse_params_matmul_tile params = { p->m,         p->n,          p->k,
                                                     p->batch,     p->of_a.each,  p->of_a.count,
                                                     p->of_b.each, p->of_b.count, choice.part,
                                                     parts };
    const uint64_t groups = parts * copse__tile_count(p, choice.shape, x * y);
    struct copse_operand to = p->c, kept, none;
    COPSE_TRY(copse__kept_of(l, p, &kept));
    if (is_whole)
        return COPSE_LAUNCH(l, matmul_tile, spec, params, groups, p->a, p->b, bias, kept, to);
    COPSE_TRY(copse__scratch(l, (uint64_t)parts * p->batch * p->m * p->n, &to));
    COPSE_TRY(copse__scratch(l, 1, &none));
    COPSE_TRY(COPSE_LAUNCH(l, matmul_tile, spec, params, groups, p->a, p->b, bias, none, to));
    return copse__join_parts(l, p, parts, to, kept);
}

/* ---- references ---- */

static double matmul_tile_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_matmul_tile *p = params;
    const size_t m = p->m, n = p->n, k = p->k, count = (size_t)p->parts * p->batch * m * n,
                 at = place % count, row = at / n, j = at % n, i = row % m, index = row / m,
                 item = index % p->batch, piece = index / p->batch;
    const size_t a = item / p->a_each % p->a_count * m * k,
                 b = item / p->b_each % p->b_count * k * n;
    const size_t begin = piece * p->part, end = COPSE_MIN(begin + p->part, k);
    double sum = spec[0] ? copse__load(&args[2], j) : 0;
    for (size_t l = begin; l < end; l++)
        sum += copse__load(&args[0], a + (spec[2] ? l * m + i : i * k + l)) *
               copse__load(&args[1], b + (spec[3] ? j * k + l : l * n + j));
    return copse__end_at(spec, sum, &args[2], count, place);
}

static struct copse_elements matmul_tile_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_tile *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->parts * p->batch * p->m * p->n, p->part };
}

static void matmul_tile_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const int32_t bare[COPSE_MAX_SPECS] = { spec[0], COPSE_LINEAR, spec[2],
                                            spec[3], spec[4],      spec[5] };
    const uint64_t count = matmul_tile_elements(params, spec).count;
    for (size_t i = 0; i < count; i++)
        copse__end_store(spec, matmul_tile_at(params, bare, args, i), &args[2], i);
}

static double matmul_join_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_matmul_join *p = params;
    const size_t i = place % p->count;
    double sum = spec[0] ? copse__load(&args[1], i % p->n) : 0;
    for (size_t q = 0; q < p->parts; q++)
        sum += copse__load(&args[0], q * p->count + i);
    return copse__end_at(spec, sum, &args[1], p->count, place);
}

static struct copse_elements matmul_join_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_join *p = params;
    (void)spec;
    return (struct copse_elements){ p->count, p->parts };
}

static void matmul_join_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_matmul_join *p = params;
    for (size_t i = 0; i < p->count; i++)
        copse__end_store(
            spec, matmul_join_at(params, (const int32_t[COPSE_MAX_SPECS]){ spec[0] }, args, i),
            &args[1], i);
}

/* ---- self-tests ---- */

/* Two products with one B, in two parts; no multiple of any tile. Whole quads where they are
   specified. */
static void matmul_tile_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    enum { M = 8, N = 36, K = 20, ODD = 1 };
    const uint32_t odd = k->spec[5] ? 0 : ODD, has_parts = !k->spec[0] && !k->spec[1];
    uint32_t rows, cols;
    copse__tile_size((enum copse_tile_shape)k->spec[4], k->group_x * k->group_y, &rows, &cols);
    const struct copse_params_matmul_tile p = { .m = M + odd,
                                                .n = N + odd,
                                                .k = K + odd,
                                                .batch = 2,
                                                .a_each = 1,
                                                .a_count = 2,
                                                .b_each = 2,
                                                .b_count = 1,
                                                .part = has_parts ? 16 : 32,
                                                .parts = 1 + has_parts };
    const uint32_t count = p.parts * 2 * p.m * p.n;
    COPSE_SELF_TEST(t, p, p.parts * 2 * divide_up(p.m, rows) * divide_up(p.n, cols), 2 * p.m * p.k,
                    p.k * p.n, copse__end_has_z(k->spec) ? count : p.n,
                    copse__end_keeps(k->spec) ? count : 1, count);
    copse__matmul_soften(t, 0, k->spec[1]);
}

static void matmul_join_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_join p = { 91, 7, 6 };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), 6 * 91,
                    copse__end_has_z(k->spec) ? 91 : 7, copse__end_keeps(k->spec) ? 91 : 1, 91);
    copse__matmul_soften(t, 0, k->spec[1]);
    copse__matmul_soften(t, 1, k->spec[1]);
}

/* ---- laws ---- */

/* The sums of chains are added one by one. */
uint64_t copse__tile_part_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, terms, terms);
}

uint64_t copse__parts_roundings(uint64_t terms, struct copse_tile_split split,
                                uint64_t (*part_of)(uint64_t terms))
{
    const uint64_t least = divide_up(terms, split.most);
    const uint64_t last = COPSE_MAX(COPSE_MIN(terms / split.least, split.parts), least);
    uint64_t worst = 0;
    for (uint64_t parts = COPSE_MAX(least, 1u); terms > 0 && (parts <= last || parts == 1);
         parts++) {
        const uint64_t part = part_length((uint32_t)terms, parts);
        const uint64_t n = part_of(COPSE_MIN(part, terms)) + divide_up(terms, part) - 1;
        worst = COPSE_MAX(worst, n);
    }
    return worst;
}

uint64_t copse__tile_roundings(uint64_t terms, struct copse_tile_split split)
{
    return copse__parts_roundings(terms, split, copse__tile_part_roundings);
}

static uint64_t matmul_tile_roundings(uint64_t terms)
{
    return copse__tile_roundings(terms, copse__tile_split);
}

static struct copse_sum matmul_tile_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_tile *p = params;
    return copse__sum_of(copse__tile_part_roundings(COPSE_MIN(p->part, p->k)), false, spec);
}

static struct copse_sum matmul_join_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_join *p = params;
    return copse__sum_of(p->parts - 1, false, spec);
}

const struct copse_law copse_law_matmul_tile = {
    .host = matmul_tile_host,
    .at = matmul_tile_at,
    .results = copse__end_results,
    .elements = matmul_tile_elements,
    .limit = { .ulp = 0.5, .ratio = 16 },
    .limit_of = copse__end_limit,
    .magnitudes = copse__end_magnitudes,
    .roundings = matmul_tile_roundings,
    .sum = matmul_tile_sum,
    .self_test = matmul_tile_test,
};
const struct copse_law copse_law_matmul_join = {
    .host = matmul_join_host,
    .at = matmul_join_at,
    .results = copse__end_results,
    .elements = matmul_join_elements,
    .limit = { .ulp = 0.5, .ratio = 16 },
    .limit_of = copse__end_limit,
    .magnitudes = copse__end_magnitudes,
    .sum = matmul_join_sum,
    .self_test = matmul_join_test,
};
