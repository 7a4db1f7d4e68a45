/* SPDX-License-Identifier: MIT */
/** @file
 * Cumulative sums, and the largest elements of rows. The rules of copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_SCAN_H
#define COPSE_PUBLIC_OPS_SCAN_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Sums of the elements up to each one along an axis, as torch.cumsum and ONNX CumSum. The order of
 * the additions depends on the axis alone; the error of each sum is at most 8 2^-24 times the sum
 * of its terms' magnitudes. The derivative is the cumulative sum in the other direction.
 *
 * @param x             f32.
 * @param axis          Below x's rank; at most 2^30 elements along it.
 * @param is_exclusive  Each sum leaves out the element itself, so the first is 0.
 * @param is_reversed   Sums run from the last element to the first.
 * @param y             The shape of x.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_cumsum(copse_graph *g, copse_tensor *x, uint32_t axis,
                                                   bool is_exclusive, bool is_reversed);

/**
 * The k largest elements along the last axis, from the largest, as torch.topk and ONNX TopK. NaN
 * counts as larger than any number; of equal elements those with lower indices come first, as do
 * those of several NaN. With k = m it sorts.
 *
 * @param x        f32 [..., m].
 * @param k        1 to m.
 * @param values   f32 [..., k]. The derivative goes to the elements that were taken; that of others
 *                 is 0.
 * @param indices  i32 [..., k], of `values` along the axis.
 */
COPSE_API copse_tensor *copse_top_k(copse_graph *g, copse_tensor *x, uint32_t k,
                                    copse_tensor **indices);

#if defined(__cplusplus)
}
#endif
#endif
