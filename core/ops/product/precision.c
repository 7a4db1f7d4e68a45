/* SPDX-License-Identifier: MIT */
/* Products of f16 and bf16 operands: the precision of a graph, and what products do with such
   operands. */
#include "copse/ops/precision.h"

#include "core/graph/type.h"
#include "core/ops/product/precision.h"

void copse_set_precision(copse_graph *g, copse_type type)
{
    COPSE_LATCH_VOID(g, copse_need("precision", g));
    if (!copse__type_is_known(type) || !copse__type_is_smooth(type))
        COPSE_LATCH_VOID(g, copse_fail(COPSE_ERR_ARGUMENT,
                                       "precision: f32, f16 or bf16, not element type %d (%s)",
                                       (int)type, copse_type_name(type)));
    g->precision = type;
}

void copse__product_operands(copse_graph *g, copse_tensor **a, copse_tensor **b)
{
    if (!copse__type_is_half(g->precision) || (*a)->type == COPSE_I32 || (*b)->type == COPSE_I32)
        return;
    if ((*a)->type == COPSE_F32)
        *a = copse__cast_once(g, *a, g->precision);
    if ((*b)->type == COPSE_F32)
        *b = copse__cast_once(g, *b, g->precision);
}

copse_tensor *copse__narrow_slope(copse_graph *g, const copse_tensor *y, copse_tensor *dy)
{
    const copse_type type = y->in[0]->type;
    return copse__type_is_half(type) && y->in[1]->type == type ? copse__cast_once(g, dy, type) : dy;
}

copse_status copse__widen(struct copse_lowering *l, struct copse_operand *x)
{
    const copse_tensor *t = x->tensor;
    if (x->kind != COPSE_OPERAND_TENSOR || !copse__type_is_half(t->type) ||
        copse__elements(t->shape) == 0)
        return COPSE_OK;
    const struct copse_params_from_half p = { (uint32_t)copse__elements(t->shape) };
    const int32_t spec[COPSE_MAX_SPECS] = { t->type == COPSE_BF16 };
    const struct copse_operand from = *x;
    COPSE_TRY(copse__scratch(l, p.n, x));
    return COPSE_LAUNCH(l, from_half, spec, p, copse__groups_for(l, COPSE_KERNEL_from_half, p.n),
                        from, *x);
}
