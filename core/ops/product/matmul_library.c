/* SPDX-License-Identifier: MIT */
/* Matrix products by a vendor's library. It may add all terms of a command in one chain, so a command
   has COPSE_SUM_CHAIN terms at most, and the next one adds to the result: the bound of the library's
   own kernels holds here, too.

   Operands of 16 bits become f32 first. CLBlast has products of f16, whose sums are f16: with 11 bits
   a sum of 2,048 equal terms stops growing. The law of f16 products asks for sums of f32, so they are
   not used. */
#include "core/device/kernel/sum_bound.h"
#include "core/ops/product/precision.h"
#include "core/ops/product/product_end.h"

/* Multiplications from which the library is preferred on discrete GPUs. Below, its products cost more
   launches than they save time: it has neither bias nor activation. An estimate; no GPU has been
   measured. */
#define LIBRARY_LEADS (512.0 * 512 * 512)
#define STRIP         32u /* terms; parts are multiples of them */
#define MOST_PADDING  255u
#define MOST_TERMS    65536u /* with more, the parts need a wider bound than copse/matmul.h states */

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

/* Equal parts, but for the last one. */
static uint32_t library_part(uint32_t k)
{
    const uint64_t even = divide_up(k, divide_up(k, COPSE_SUM_CHAIN));
    return (uint32_t)COPSE_MIN(divide_up(even, STRIP) * STRIP, k);
}

static copse_status library_parts(struct copse_lowering *l, const struct copse_product *p,
                                  struct copse_operand c)
{
    struct copse_gemm g = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .k_end = library_part(p->k),
        .a_transposed = p->a_transposed,
        .b_transposed = p->b_transposed,
        .a_is_shared = p->of_a.count == 1,
        .b_is_shared = p->of_b.count == 1,
    };
    struct copse_operand args[COPSE_GEMM_BINDINGS];
    args[COPSE_GEMM_A] = p->a;
    args[COPSE_GEMM_B] = p->b;
    args[COPSE_GEMM_C] = c;
    COPSE_TRY(copse__gemm_scratch(l, &g, &args[COPSE_GEMM_SCRATCH]));
    const uint32_t part = g.k_end;
    for (; g.k_begin < p->k; g.k_begin = g.k_end) {
        g.k_end = COPSE_MIN(p->k - g.k_begin, part) + g.k_begin;
        COPSE_TRY(copse__launch_gemm(l, &g, args));
    }
    return COPSE_OK;
}

copse_status copse__library_lower(struct copse_lowering *l, const void *work)
{
    struct copse_product wide = *(const struct copse_product *)work;
    const struct copse_product *p = &wide;
    COPSE_TRY(copse__widen(l, &wide.a));
    COPSE_TRY(copse__widen(l, &wide.b));
    const bool ends = p->bias || p->activation != COPSE_LINEAR;
    struct copse_operand c = p->c;
    if (ends)
        COPSE_TRY(copse__scratch(l, (uint64_t)p->batch * p->m * p->n, &c));
    COPSE_TRY(library_parts(l, p, c));
    if (!ends)
        return COPSE_OK;
    const int32_t spec[COPSE_MAX_SPECS] = { p->bias != NULL, (int32_t)p->activation };
    const struct copse_params_bias_activation params = { p->batch * p->m * p->n, p->n };
    return COPSE_LAUNCH(l, bias_activation, spec, params,
                        copse__groups_for(l, COPSE_KERNEL_bias_activation, params.count), c,
                        copse__bias_of(p), p->c);
}

/* One matrix for each product, or one for all. */
static bool is_regular(const struct copse_product *p, const struct copse_product_items *x)
{
    return x->count <= 1 || (x->each == 1 && x->count == p->batch);
}

/* The matrices as the library pads them. */
static bool has_room(const struct copse_limits *limits, const struct copse_product *p)
{
    const uint64_t m = (uint64_t)p->m + MOST_PADDING, n = (uint64_t)p->n + MOST_PADDING;
    return m <= UINT32_MAX && n <= UINT32_MAX &&
           m * n + (m + n) * (COPSE_SUM_CHAIN + MOST_PADDING) <= limits->max_binding_bytes / 4;
}

bool copse__library_fits(const struct copse_limits *limits, const void *work)
{
    const struct copse_product *p = work;
    return p->k > 0 && p->k <= MOST_TERMS && is_regular(p, &p->of_a) && is_regular(p, &p->of_b) &&
           has_room(limits, p);
}

bool copse__library_leads(const copse_device *dev, const void *work)
{
    const struct copse_product *p = work;
    return copse__library_product_leads(dev) &&
           (double)p->batch * p->m * p->n * p->k >= LIBRARY_LEADS;
}
