/* SPDX-License-Identifier: MIT */
/* Adds a tensor to the values at its location: gradients of several micro-batches. */
#include "core/ops/ops.h"

#define PER 32 /* elements per invocation */

static copse_status add_in_place_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    *shape = y->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status add_in_place_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_params_accumulate p = { .n = (uint32_t)copse__elements(y->shape) };
    const int32_t spec[COPSE_MAX_SPECS] = { PER, copse__limits(l)->has_wide_vectors };
    const uint64_t runs = ((uint64_t)p.n + PER - 1) / PER;
    return COPSE_LAUNCH(l, accumulate, spec, p, copse__groups_for(l, COPSE_KERNEL_accumulate, runs),
                        copse__of(y->in[0]), copse__of(y));
}

static const struct copse_op op_add_in_place = {
    .name = "add_in_place",
    .infer = add_in_place_infer,
    .lower = add_in_place_lower,
};

copse_tensor *copse__add_in_place(copse_graph *g, copse_tensor *x)
{
    return COPSE_NODE(g, &op_add_in_place, NULL, x);
}
