/* SPDX-License-Identifier: MIT */
/** @file Pooling over windows of images and sequences, which have the form of copse/ops/conv.h. The
 * rules of copse/ops.h hold here too. Global pooling is copse_mean or copse_max over the spatial
 * axes.
 */
#ifndef COPSE_PUBLIC_OPS_POOL_H
#define COPSE_PUBLIC_OPS_POOL_H

#include "copse/ops/conv.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Windows of pooling. Arrays have an entry for each spatial axis, the outermost first; the second
    entry is unused for sequences. */
struct copse_pool_params {
    uint32_t window[2]; /**< elements along each axis: 1 to 256, together at most 8,192 */
    uint32_t stride[2]; /**< [0 = the window]; at most 65,535 */
    /** distance of the elements of a window [0 = 1]; at most 65,535 */
    uint32_t dilation[2];
    copse_padding padding; /**< [COPSE_PADDING_EXPLICIT] */
    /** places outside of x before its first and after its last element; less than the span of the
       window; 0 with COPSE_PADDING_SAME */
    uint32_t before[2], after[2];
    /** copse_average_pool divides by the size of the window, not by its elements inside of x
       [false] */
    bool counts_padding;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Largest element of each window; NaN where there is one.
 *
 * @param x       f32 [n, h, w, c] or [n, w, c].
 * @param params  Required: the window has no default.
 * @param y       [n, h', w', c] or [n, w', c], h' as for copse_conv. A window without elements of x
 *                gives -Inf.
 *
 * The derivative goes to the first of equal largest elements. COPSE_ERR_SHAPE if windows overlap so
 * much that the gradient of an element takes more than 60,000 comparisons.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_max_pool(copse_graph *g, copse_tensor *x,
                                                     const struct copse_pool_params *params);

/** Mean of the elements of each window, as copse_max_pool. A window without elements of x gives
    0. */
COPSE_API COPSE_CHECKED copse_tensor *copse_average_pool(copse_graph *g, copse_tensor *x,
                                                         const struct copse_pool_params *params);

#if defined(__cplusplus)
}
#endif
#endif
