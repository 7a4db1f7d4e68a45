/* SPDX-License-Identifier: MIT */
/* Products of 16 bits on matrix units: tiles, launches, and the law of matmul_cooperative. Parts of k
   are as in matmul_tile, and matmul_join adds them. */
#include <math.h>

#include "copse/device/choice.h"
#include "core/base/half.h"
#include "core/device/kernel/sum_bound.h"
#include "core/ops/ops.h"
#include "core/ops/product/matmul_tile.h"
#include "core/ops/product/product_end.h"
#include "core/ops/self_tests.h"

/* ---- launches ---- */

#define UNKNOWN_UNITS 32u /* compute units, where the driver does not say */

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

static uint64_t cooperative_groups(const struct copse_product *p, uint32_t parts, int32_t form)
{
    const uint32_t tile = copse__cooperative_tile(form);
    return (uint64_t)parts * p->batch * divide_up(p->m, tile) * divide_up(p->n, tile);
}

/* A group of a large tile does the work of four small ones and loads half as much for it. So small
   tiles are for products that large ones do not spread over the compute units. */
static int32_t cooperative_size(const struct copse_limits *limits, const struct copse_product *p,
                                uint32_t parts)
{
    const uint32_t units = limits->compute_units ? limits->compute_units : UNKNOWN_UNITS;
    const uint64_t large = divide_up(cooperative_groups(p, parts, COPSE_COOPERATIVE_LARGE), units),
                   small = divide_up(cooperative_groups(p, parts, 0), units);
    return limits->max_group_size >= 256 && 2 * large <= small ? COPSE_COOPERATIVE_LARGE : 0;
}

bool copse__cooperative_fits(const struct copse_limits *limits, const void *work)
{
    const struct copse_product *p = work;
    const uint8_t needs = p->type == COPSE_F16    ? COPSE_MATRIX_F16
                          : p->type == COPSE_BF16 ? COPSE_MATRIX_BF16
                                                  : 0;
    return (limits->matrix_units & needs) != 0 && p->k > 0 && copse__parts_fit(limits, p);
}

bool copse__cooperative_leads(const copse_device *dev, const void *work)
{
    (void)work;
    return (dev->limits->matrix_units & COPSE_MATRIX_PREFERRED) != 0;
}

copse_status copse__lower_cooperative(struct copse_lowering *l, const void *work)
{
    const struct copse_product *p = work;
    const struct copse_tile_choice choice =
        copse__tile_choice_of(copse__limits(l), p, copse__tile_split);
    const uint32_t parts = choice.parts;
    const bool is_whole = parts == 1, a_is_even = (p->a_transposed ? p->m : p->k) % 8 == 0,
               b_is_even = (p->b_transposed ? p->k : p->n) % 8 == 0;
    const int32_t form = a_is_even * COPSE_COOPERATIVE_IN_EIGHTS +
                         b_is_even * 2 * COPSE_COOPERATIVE_IN_EIGHTS +
                         cooperative_size(copse__limits(l), p, parts);
    const int32_t spec[COPSE_MAX_SPECS] = {
        is_whole && p->bias,   is_whole ? copse__end_of(p) : COPSE_LINEAR,
        p->a_transposed,       p->b_transposed,
        p->type == COPSE_BF16, form
    };
    const struct copse_params_matmul_cooperative params = {
        p->m,          p->n,         p->k,          p->batch,    p->of_a.each,
        p->of_a.count, p->of_b.each, p->of_b.count, choice.part, parts
    };
    const uint64_t groups = cooperative_groups(p, parts, form);
    const struct copse_operand bias = copse__bias_of(p);
    struct copse_operand to = p->c, kept, none;
    COPSE_TRY(copse__kept_of(l, p, &kept));
    if (is_whole)
        return COPSE_LAUNCH(l, matmul_cooperative, spec, params, groups, p->a, p->b, bias, kept,
                            to);
    COPSE_TRY(copse__scratch(l, (uint64_t)parts * p->batch * p->m * p->n, &to));
    COPSE_TRY(copse__scratch(l, 1, &none));
    COPSE_TRY(
        COPSE_LAUNCH(l, matmul_cooperative, spec, params, groups, p->a, p->b, bias, none, to));
    return copse__join_parts(l, p, parts, to, kept);
}

/* ---- reference ---- */

#define OF_MAGNITUDES 64 /* in FORM, for the reference only: of the operands, which are words */

static double cooperative_number(const struct copse_host_arg *x, size_t i, const int32_t *spec)
{
    const uint16_t h = (uint16_t)((uint32_t)copse__load_i(x, i / 2) >> (16 * (i % 2)));
    const double y = (double)(spec[4] ? copse__bf16_to_f32(h) : copse__f16_to_f32(h));
    return spec[5] & OF_MAGNITUDES ? fabs(y) : y;
}

static double matmul_cooperative_at(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_matmul_cooperative *p = params;
    const size_t m = p->m, n = p->n, k = p->k, count = (size_t)p->parts * p->batch * m * n,
                 at = place % count, row = at / n, j = at % n, i = row % m, index = row / m,
                 item = index % p->batch, begin = index / p->batch * p->part,
                 end = COPSE_MIN(begin + p->part, k);
    const size_t a = item / p->a_each % p->a_count * m * k,
                 b = item / p->b_each % p->b_count * k * n;
    double sum = spec[0] ? copse__load(&args[2], j) : 0;
    for (size_t l = begin; l < end; l++)
        sum += cooperative_number(&args[0], a + (spec[2] ? l * m + i : i * k + l), spec) *
               cooperative_number(&args[1], b + (spec[3] ? j * k + l : l * n + j), spec);
    return copse__end_at(spec, sum, &args[2], count, place);
}

static struct copse_elements matmul_cooperative_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_cooperative *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->parts * p->batch * p->m * p->n, p->part };
}

static void matmul_cooperative_host(const void *params, const int32_t *spec,
                                    const struct copse_host_arg *args)
{
    const int32_t bare[COPSE_MAX_SPECS] = { spec[0], COPSE_LINEAR, spec[2],
                                            spec[3], spec[4],      spec[5] };
    const uint64_t count = matmul_cooperative_elements(params, spec).count;
    for (size_t i = 0; i < count; i++)
        copse__end_store(spec, matmul_cooperative_at(params, bare, args, i), &args[2], i);
}

static void matmul_cooperative_magnitudes(int32_t *spec)
{
    copse__end_magnitudes(spec);
    spec[5] |= OF_MAGNITUDES;
}

/* ---- self-test ---- */

/* Two products with one B, in two parts; no multiple of any tile, and more than a strip. Whole
   eights where they are specified. */
static void matmul_cooperative_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    enum { M = 8, N = 40, K = 40, ODD = 1, EIGHTS = 3 };
    const uint32_t odd = k->spec[5] & EIGHTS ? 0 : ODD, has_parts = !k->spec[0] && !k->spec[1],
                   tile = copse__cooperative_tile(k->spec[5]);
    const struct copse_params_matmul_cooperative p = { .m = M + odd,
                                                       .n = N + odd,
                                                       .k = K + odd,
                                                       .batch = 2,
                                                       .a_each = 1,
                                                       .a_count = 2,
                                                       .b_each = 2,
                                                       .b_count = 1,
                                                       .part = has_parts ? 32 : 48,
                                                       .parts = 1 + has_parts };
    const uint32_t count = p.parts * 2 * p.m * p.n;
    COPSE_SELF_TEST(t, p, p.parts * 2 * divide_up(p.m, tile) * divide_up(p.n, tile), p.m * p.k,
                    (p.k * p.n + 1) / 2, copse__end_has_z(k->spec) ? count : p.n,
                    copse__end_keeps(k->spec) ? count : 1, count);
    copse__matmul_soften(t, 2, k->spec[1]);
    copse__matmul_halves(t, 0, 16, k->spec[4] != 0);
    copse__matmul_halves(t, 1, 1, k->spec[4] != 0);
}

/* ---- the bound ---- */

#define STRIP 32u   /* terms of a chain of the matrix units */
#define CHUNK 4096u /* terms whose sums stay in registers */

/* A matrix unit need not round to nearest. It may align the K terms of an operation, and the chain c
   to which it adds them, to the largest of these, M, cut each off there, add exactly, and cut the
   result off. Products of 16 bits are exact in f32. Let S be the magnitudes so far, and 2^e <= M the
   highest binary place of M.
   - A cut addend loses less than 2 u 2^e, and M loses nothing. So the addends of an operation lose
     less than K 2 u S; with c = 0, (K - 1) 2 u S.
   - The result loses something only if it reaches 2^(e+1): less than 2 u S. Then 2^e <= S / 2, and
     the addends lose half as much: together (K + 2) u S, with c = 0 (K + 1) u S.
   So an operation loses at most K 2 u S if K >= 2. One of a single term may lose 3 u S; it is the last
   of its chain, whose first one, of K >= 3 terms, stays 2 u S below. A chain of n terms, in operations
   of any K, loses at most n 2 u S: 2 n roundings. Units that add one by one, cut off or rounded, stay
   below that. The chains of a chunk are added in f32; so are the sums of the chunks. */
static uint64_t cooperative_part_roundings(uint64_t terms)
{
    if (terms == 0)
        return 0;
    return 2 * COPSE_MIN(terms, STRIP) + divide_up(COPSE_MIN(terms, CHUNK), STRIP) - 1 +
           divide_up(terms, CHUNK) - 1;
}

static uint64_t matmul_cooperative_roundings(uint64_t terms)
{
    return copse__parts_roundings(terms, copse__tile_split, cooperative_part_roundings);
}

static struct copse_sum matmul_cooperative_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_matmul_cooperative *p = params;
    return copse__sum_of(cooperative_part_roundings(COPSE_MIN(p->part, p->k)), false, spec);
}

const struct copse_law copse_law_matmul_cooperative = {
    .host = matmul_cooperative_host,
    .at = matmul_cooperative_at,
    .results = copse__end_results,
    .elements = matmul_cooperative_elements,
    .limit = { .ulp = 0.5, .ratio = 32 },
    .limit_of = copse__end_limit,
    .magnitudes = matmul_cooperative_magnitudes,
    .roundings = matmul_cooperative_roundings,
    .sum = matmul_cooperative_sum,
    .self_test = matmul_cooperative_test,
};
