/* SPDX-License-Identifier: MIT */
/** @file Images and sequences of another size, in the form of copse/ops/conv.h. The rules of
 * copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_RESIZE_H
#define COPSE_PUBLIC_OPS_RESIZE_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What an element of the result is computed from. Along an axis of `in` elements that becomes
    `out`: */
typedef enum copse_resize_kind {
    COPSE_RESIZE_NEAREST, /**< element i in / out, rounded down; torch "nearest" */
    /** the two elements around place (i + 1/2) in / out - 1/2, weighted by their distance; at the
       ends the outermost; torch "bilinear" with align_corners=False, ONNX half_pixel */
    COPSE_RESIZE_LINEAR,
    /** the mean of elements i in / out, rounded down, to below (i + 1) in / out, rounded up;
       torch "area", adaptive average pooling */
    COPSE_RESIZE_AREA,
} copse_resize_kind;

/**
 * Resize each channel. Two axes are resized one after the other, the inner one first.
 *
 * @param x     f32 [n, h, w, c] or [n, w, c].
 * @param size  Elements along each spatial axis of the result, the outermost first: 1 to 16,384, as
 *              those of x. The second is unused for sequences.
 * @param y     [n, size[0], size[1], c] or [n, size[0], c]. An element with weight 0 adds nothing,
 *              also where it is NaN.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_resize(copse_graph *g, copse_tensor *x,
                                                   const uint32_t size[2], copse_resize_kind kind);

/**
 * Channels become places: y[n, h r + i, w r + j, c] = x[n, h, w, c r r + i r + j], as
 * torch.nn.PixelShuffle does (Shi et al., 2016).
 *
 * @param x  f32 or i32 [n, h, w, c r r].
 * @param r  1 or more.
 * @param y  [n, h r, w r, c].
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_pixel_shuffle(copse_graph *g, copse_tensor *x,
                                                          uint32_t r);
/** The inverse: places become channels. @param x  f32 or i32 [n, h r, w r, c]. @param y  [n, h, w, c r r]. */
COPSE_API COPSE_CHECKED copse_tensor *copse_pixel_unshuffle(copse_graph *g, copse_tensor *x,
                                                            uint32_t r);

#if defined(__cplusplus)
}
#endif
#endif
