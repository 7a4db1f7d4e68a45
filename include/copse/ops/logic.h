/* SPDX-License-Identifier: MIT */
/** @file More comparisons, and logical functions. The rules of copse/ops.h hold here too. Results
 * are f32, 1 or 0, as those of copse_equal; operands are both f32 or both i32, with broadcasting;
 * the derivative is 0.
 */
#ifndef COPSE_PUBLIC_OPS_LOGIC_H
#define COPSE_PUBLIC_OPS_LOGIC_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** 1 where a differs from b, else 0. NaN differs from everything. */
COPSE_API COPSE_CHECKED copse_tensor *copse_not_equal(copse_graph *g, copse_tensor *a,
                                                      copse_tensor *b);
/** 1 where a > b, else 0. */
COPSE_API COPSE_CHECKED copse_tensor *copse_greater(copse_graph *g, copse_tensor *a,
                                                    copse_tensor *b);
/** 1 where a <= b, else 0. */
COPSE_API COPSE_CHECKED copse_tensor *copse_less_equal(copse_graph *g, copse_tensor *a,
                                                       copse_tensor *b);

/** 1 where a and b are both not zero, else 0. NaN is not zero; a device that flushes may treat a
    subnormal number as zero. */
COPSE_API COPSE_CHECKED copse_tensor *copse_logical_and(copse_graph *g, copse_tensor *a,
                                                        copse_tensor *b);
/** 1 where a or b is not zero, else 0; otherwise as copse_logical_and. */
COPSE_API COPSE_CHECKED copse_tensor *copse_logical_or(copse_graph *g, copse_tensor *a,
                                                       copse_tensor *b);
/** 1 where one of a and b is not zero and the other one is, else 0; otherwise as
    copse_logical_and. */
COPSE_API COPSE_CHECKED copse_tensor *copse_logical_xor(copse_graph *g, copse_tensor *a,
                                                        copse_tensor *b);
/** 1 where x is zero, else 0; otherwise as copse_logical_and. */
COPSE_API COPSE_CHECKED copse_tensor *copse_logical_not(copse_graph *g, copse_tensor *x);

#if defined(__cplusplus)
}
#endif
#endif
