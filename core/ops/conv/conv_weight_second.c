/* SPDX-License-Identifier: MIT */
/* The derivative of a convolution's gradient of the weights, a bilinear sum of x and dy. */
#include "core/graph/graph.h"
#include "core/ops/conv/conv.h"
#include "core/ops/product/precision.h"

static void conv_weight_second(copse_graph *g, const copse_tensor *dw, copse_tensor *slope,
                               copse_tensor **out)
{
    const struct copse_conv_attr *a = dw->attr;
    copse_tensor *x = dw->in[0], *dy = dw->in[1];
    slope = copse__narrow_slope(g, dw, slope);
    if (x->needs_gradient)
        out[0] = copse__conv_input(g, &a->of, x, slope, dy);
    if (dy->needs_gradient)
        out[1] = copse__conv_by(g, &a->of, dy->shape, x, slope, false);
}

const struct copse_second copse_second_conv_weight = { &copse_op_conv_weight, conv_weight_second };
