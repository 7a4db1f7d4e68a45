/* SPDX-License-Identifier: MIT */
/** @file
 * Convolutions of images and of sequences. The rules of copse/ops.h hold here too.
 *
 * Images are [n, height, width, channels] and have two spatial axes; sequences are [n, width,
 * channels] and have one. "Convolution" is the term of neural networks: the kernel is not flipped.
 */
#ifndef COPSE_PUBLIC_OPS_CONV_H
#define COPSE_PUBLIC_OPS_CONV_H

#include "copse/matmul.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How a convolution is padded with zeros. */
typedef enum copse_padding {
    COPSE_PADDING_EXPLICIT, /**< by `before` and `after` */
    /** so that y has ceil(size / stride) positions; of an odd number of zeros the larger half is
       at the end */
    COPSE_PADDING_SAME,
} copse_padding;

/** Settings of a convolution. Arrays have an entry for each spatial axis, the outermost first; the
    second entry is unused for sequences. */
struct copse_conv_params {
    uint32_t stride[2];    /**< [0 = 1]; at most 65,535, as the following numbers */
    uint32_t dilation[2];  /**< distance of taps [0 = 1] */
    copse_padding padding; /**< [COPSE_PADDING_EXPLICIT] */
    /** zeros before the first and after the last element; 0 with COPSE_PADDING_SAME */
    uint32_t before[2], after[2];
    /** output channels of a group read the channels of that group [0 = 1] */
    uint32_t groups;
    copse_activation activation; /**< [COPSE_LINEAR] */
    /** copse_conv_transposed only: positions that y gets at the end; less than the stride or the
       dilation */
    uint32_t extra[2];
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Convolution: activation(x * w + bias).
 *
 * @param x       f32 [n, h, w, c] or [n, w, c].
 * @param w       f32 [taps, taps, c / groups, o] or [taps, c / groups, o]; 1 to 8,192 taps.
 * @param bias    f32 [o], or NULL for none.
 * @param params  NULL = stride 1, no padding, no dilation, one group, no activation.
 * @param y       [n, h', w', o] or [n, w', o], h' = (before + h + after - (taps - 1) dilation - 1)
 *                / stride + 1, rounded down. COPSE_ERR_SHAPE if the padded image is smaller than
 *                the kernel.
 *
 * With groups = c the convolution is depthwise. Zeros of the padding are not multiplied: NaN in `w`
 * gives NaN only where a tap is inside of x. With k terms, taps times channels of a group, the
 * error is at most n u / (1 - n u) sum |x| |w| with u = 2^-24 and n = min(k, 256) + k / 64, and 1
 * for a bias; see copse_matmul.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_conv(copse_graph *g, copse_tensor *x, copse_tensor *w,
                                                 copse_tensor *bias,
                                                 const struct copse_conv_params *params);

/**
 * Transposed convolution: the gradient of copse_conv with respect to its x, as a function of dy;
 * also called deconvolution.
 *
 * @param x  f32 [n, h, w, c] or [n, w, c].
 * @param w  f32 [taps, taps, c / groups, o] or [taps, c / groups, o].
 * @param y  [n, h', w', o] or [n, w', o], h' = (h - 1) stride + (taps - 1) dilation + 1 + extra -
 *           before - after; with COPSE_PADDING_SAME h' = h stride.
 *
 * Otherwise as copse_conv.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_conv_transposed(copse_graph *g, copse_tensor *x,
                                                            copse_tensor *w, copse_tensor *bias,
                                                            const struct copse_conv_params *params);

#if defined(__cplusplus)
}
#endif
#endif
