/* SPDX-License-Identifier: MIT */
/* The derivative of pooling's gradient, which is linear in dy: the mean of the slope over each
   window, or the slope at its largest element. */
#include "core/ops/conv/pool.h"
#include "core/ops/ops.h"

static bool has_overlap(const struct copse_window *w)
{
    return w->dilation > 1 || w->stride < w->taps;
}

/* Windows that do not overlap: the gradient of dy = 1 is 1 at the largest elements, and a mean whose
   divisor is the size of a window adds one element and zeros. */
static copse_tensor *at_largest(copse_graph *g, const struct copse_pool_grad_attr *a,
                                copse_tensor *x, copse_shape windows, copse_tensor *slope)
{
    struct copse_pool_attr mean = a->of;
    mean.kind = COPSE_POOL_MEAN;
    mean.counts_padding = true;
    copse_tensor *one = copse_fill(g, COPSE_F32, windows, 1), *zero = copse_scalar(g, 0);
    copse_tensor *is_largest = copse__pool_gradient(g, &a->of, x, one);
    slope = copse_where(g, is_largest, slope, zero);
    slope = copse__pool_mean(g, &mean, slope);
    return copse_multiply_by(g, slope, (float)(mean.h.taps * mean.w.taps));
}

static void pool_second(copse_graph *g, const copse_tensor *dx, copse_tensor *slope,
                        copse_tensor **out)
{
    const struct copse_pool_grad_attr *a = dx->attr;
    if (a->of.kind == COPSE_POOL_MEAN)
        out[0] = copse__pool_mean(g, &a->of, slope);
    else if (!has_overlap(&a->of.h) && !has_overlap(&a->of.w))
        out[0] = at_largest(g, a, dx->in[1], dx->in[0]->shape, slope);
    else
        (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                            "gradient: the derivative of max_pool has no derivative where windows "
                            "overlap: use strides that are at least the windows, or "
                            "copse_average_pool");
}

const struct copse_second copse_second_pool = { &copse_op_pool_gradient, pool_second };
