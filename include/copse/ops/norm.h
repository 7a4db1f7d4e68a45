/* SPDX-License-Identifier: MIT */
/** @file Norms of images and sequences [n, .., channels], each example by itself. The rules of
 * copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_NORM_H
#define COPSE_PUBLIC_OPS_NORM_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Group norm (Wu and He, 2018): (x - mean) / sqrt(variance + epsilon) scale + offset, with mean and
 * variance (divided by the count) over all places and channels / groups adjacent channels of an
 * example. Statistics with a NaN or an infinity are NaN. Differences from the mean must be below
 * 1e18.
 *
 * @param x              f32 [n, .., channels], rank 2 or more. At most 32,768 channels of a group,
 *                       and 60,000 places for each of min(256, 32,768 / channels of a group).
 * @param groups         Divides the channels: 1 or more.
 * @param scale, offset  f32 [channels].
 * @param epsilon        Finite, at least 1.18e-38.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_group_norm(copse_graph *g, copse_tensor *x,
                                                       uint32_t groups, copse_tensor *scale,
                                                       copse_tensor *offset, float epsilon);
/** Instance norm (Ulyanov, Vedaldi and Lempitsky, 2016): group norm with a group for each
    channel. */
COPSE_API COPSE_CHECKED copse_tensor *copse_instance_norm(copse_graph *g, copse_tensor *x,
                                                          copse_tensor *scale, copse_tensor *offset,
                                                          float epsilon);

#if defined(__cplusplus)
}
#endif
#endif
