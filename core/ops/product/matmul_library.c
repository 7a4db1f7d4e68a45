/* SPDX-License-Identifier: MIT */
/* Matrix products by a vendor's library. */
#include "core/ops/product/precision.h"
#include "core/ops/product/product_end.h"

copse_status copse__library_lower(struct copse_lowering *l, const void *work)
{
    struct copse_product wide = *(const struct copse_product *)work;
    const struct copse_product *p = &wide;
    COPSE_TRY(copse__widen(l, &wide.a));
    COPSE_TRY(copse__widen(l, &wide.b));
    const bool ends = p->bias || p->activation != COPSE_LINEAR;
    struct copse_operand c = p->c;
    if (ends)
        COPSE_TRY(copse__scratch(l, (uint64_t)p->m * p->n, &c));
    COPSE_TRY(
        copse__launch_gemm(l, p->m, p->n, p->k, p->a_transposed, p->b_transposed, p->a, p->b, c));
    if (!ends)
        return COPSE_OK;
    const int32_t spec[COPSE_MAX_SPECS] = { p->bias != NULL, (int32_t)p->activation };
    const struct copse_params_bias_activation params = { p->m * p->n, p->n };
    return COPSE_LAUNCH(l, bias_activation, spec, params,
                        copse__groups_for(l, COPSE_KERNEL_bias_activation, params.count), c,
                        copse__bias_of(p), p->c);
}

bool copse__library_fits(const struct copse_limits *limits, const void *work)
{
    const struct copse_product *p = work;
    (void)limits;
    return p->k > 0 && p->batch == 1;
}
