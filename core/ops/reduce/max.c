/* SPDX-License-Identifier: MIT */
/* Maximum over axes. Equal largest elements share the derivative equally. */
#include "core/ops/ops.h"

static void max_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy, copse_tensor **dx)
{
    const struct copse_reduce_attr *a = y->attr;
    copse_tensor *largest = copse__repeat_back(g, y, (copse_tensor *)y);
    copse_tensor *is_largest = copse_equal(g, y->in[0], largest);
    copse_tensor *ties = copse__sum_middle(g, is_largest, a->outer, a->count, a->inner, y->shape);
    copse_tensor *share = copse_div(g, dy, ties);
    share = copse__repeat_back(g, y, share);
    dx[0] = copse_mul(g, is_largest, share);
}

static const struct copse_op op_max = {
    .name = "max",
    .attr_size = sizeof(struct copse_reduce_attr),
    .infer = copse__reduce_infer,
    .gradient = max_gradient,
    .lower = copse__reduce_lower,
};

copse_tensor *copse_max(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t axis_count,
                        bool keep_dims)
{
    return copse__reduce(g, &op_max, COPSE_AXIS_MAX, x, axes, axis_count, keep_dims);
}
