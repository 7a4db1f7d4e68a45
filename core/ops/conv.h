/* SPDX-License-Identifier: MIT */
/* Convolutions as launches. */
#ifndef COPSE_CORE_OPS_CONV_H
#define COPSE_CORE_OPS_CONV_H

#include "copse/ops/conv.h"
#include "core/graph/op.h"

/* Along a spatial axis a tap reads x at the element with element * gap = position * stride + tap * step + first; nothing
   where there is no such element. `first` is at least -2^30, and all values of that sum are below 2^31. */
struct copse_conv_axis {
    uint32_t in, out, taps, stride, gap;
    int32_t step, first;
};

/* y[batch, h.out, w.out, out_channels] from x[batch, h.in, w.in, in_channels] and
   weights[h.taps, w.taps, in_channels / groups, out_channels]. */
struct copse_conv_geometry {
    uint32_t batch, in_channels, out_channels, groups;
    struct copse_conv_axis h, w;
};

struct copse_conv {
    struct copse_conv_geometry of;
    copse_activation activation; /* up to COPSE_TANH */
    const copse_tensor *x, *weights, *bias, *y; /* bias: NULL = none */
};

/* The gradient of the weights from x and dy. */
struct copse_conv_weight {
    struct copse_conv_geometry of;
    const copse_tensor *x, *dy, *dw;
};

static inline bool copse__conv_has_gaps(const struct copse_conv_geometry *of)
{
    return of->h.gap != 1 || of->w.gap != 1;
}

/* Add the gradient of the weights, as a tensor of `shape` (conv_weight_variants.c). */
copse_status copse__conv_weight(copse_graph *g, const struct copse_conv_geometry *of, copse_shape shape, copse_tensor *x,
                                copse_tensor *dy, copse_tensor **dw);

#endif
