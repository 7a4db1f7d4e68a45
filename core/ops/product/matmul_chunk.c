/* SPDX-License-Identifier: MIT */
/* The variant `chunk` of matmul: which rows an invocation has, the launch, and the law of the
   kernel. */
#include "core/device/kernel/sum_bound.h"
#include "core/ops/product/product_end.h"
#include "core/ops/self_tests.h"

/* A tile in registers, and the terms of a sum: 256 chains. */
#define TILE_ROWS 6u
#define TILE_COLS 64u
#define MAX_K     65536u
/* A chunk is copied in the time of so many tiles. */
#define COPY_TILES 2u

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

/* ---- the launch ---- */

/* Rows of C of an invocation: with more of them a chunk is copied less often; with fewer of them
   there are more invocations, which share out better among the processors. */
static uint32_t chunk_rows(const struct copse_limits *limits, const struct copse_product *p)
{
    const uint64_t tiles = divide_up(p->m, TILE_ROWS), units = COPSE_MAX(limits->compute_units, 1u);
    uint64_t least = UINT64_MAX, best = tiles;
    for (uint64_t slabs = 1; slabs <= COPSE_MIN(tiles, 2 * units); slabs++) {
        const uint64_t each = divide_up(tiles, slabs);
        const uint64_t invocations = p->batch * divide_up(p->n, TILE_COLS) * divide_up(tiles, each);
        const uint64_t time = divide_up(invocations, units) * (each + COPY_TILES);
        if (time < least) {
            least = time;
            best = each;
        }
    }
    return (uint32_t)best * TILE_ROWS;
}

bool copse__chunk_fits(const struct copse_limits *limits, const void *work)
{
    const struct copse_product *p = work;
    (void)limits;
    return p->k > 0 && p->k <= MAX_K;
}

copse_status copse__lower_chunk(struct copse_lowering *l, const struct copse_product *p)
{
    const int32_t spec[COPSE_MAX_SPECS] = { p->bias != NULL, (int32_t)p->activation,
                                            p->a_transposed, p->b_transposed };
    const uint32_t rows = chunk_rows(copse__limits(l), p);
    const uint64_t groups = p->batch * divide_up(p->m, rows) * divide_up(p->n, TILE_COLS);
    const struct copse_params_matmul_chunk params = { p->m,         p->n,          p->k,
                                                      p->batch,     p->of_a.each,  p->of_a.count,
                                                      p->of_b.each, p->of_b.count, rows };
    return COPSE_LAUNCH(l, matmul_chunk, spec, params, groups, p->a, p->b, copse__bias_of(p), p->c);
}

/* ---- the law: a product of matmul in one launch ---- */

static struct copse_params_matmul matmul_chunk_product(const void *params)
{
    const struct copse_params_matmul_chunk *p = params;
    return (struct copse_params_matmul){ p->m,     p->n,      p->k,       0,         p->k,
                                         p->batch, p->a_each, p->a_count, p->b_each, p->b_count };
}

static void matmul_chunk_host(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args)
{
    const struct copse_params_matmul p = matmul_chunk_product(params);
    copse_law_matmul.host(&p, spec, args);
}

static double matmul_chunk_at(const void *params, const int32_t *spec,
                              const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_matmul p = matmul_chunk_product(params);
    return copse_law_matmul.at(&p, spec, args, place);
}

static struct copse_elements matmul_chunk_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul p = matmul_chunk_product(params);
    return copse_law_matmul.elements(&p, spec);
}

static void matmul_chunk_magnitudes(int32_t *spec)
{
    copse_law_matmul.magnitudes(spec);
}

/* Chains are added to the result, one after the other. */
static uint64_t matmul_chunk_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, terms, terms);
}

static struct copse_sum matmul_chunk_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_chunk *p = params;
    return copse__sum_of(matmul_chunk_roundings(p->k), false, spec);
}

/* A product that is no multiple of a tile; both items read one B. */
static void matmul_chunk_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_matmul_chunk p = {
        .m = 9,
        .n = 70,
        .k = 12,
        .batch = 2,
        .a_each = 1,
        .a_count = 2,
        .b_each = 2,
        .b_count = 1,
        .rows = TILE_ROWS,
    };
    COPSE_SELF_TEST(t, p, 2 * divide_up(p.m, TILE_ROWS) * divide_up(p.n, TILE_COLS), 2 * p.m * p.k,
                    p.k * p.n, p.n, 2 * p.m * p.n);
    copse__matmul_soften(t, 0, k->spec[1]);
}

const struct copse_law copse_law_matmul_chunk = {
    .host = matmul_chunk_host,
    .at = matmul_chunk_at,
    .elements = matmul_chunk_elements,
    .limit = { .ulp = 0.5, .ratio = 16 },
    .magnitudes = matmul_chunk_magnitudes,
    .roundings = matmul_chunk_roundings,
    .sum = matmul_chunk_sum,
    .self_test = matmul_chunk_test,
};
