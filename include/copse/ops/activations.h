/* SPDX-License-Identifier: MIT */
/** @file
 * Activations with operands. The rules of copse/ops.h hold here too; copse/ops/functions.h has those without.
 */
#ifndef COPSE_PUBLIC_OPS_ACTIVATIONS_H
#define COPSE_PUBLIC_OPS_ACTIVATIONS_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** x where x > 0, else slope x (He et al., 2015). The derivative at 0 is `slope`.
    @param slope  f32, which broadcasts to x by NumPy's rule. */
COPSE_API COPSE_CHECKED copse_status copse_prelu(copse_graph *g, copse_tensor *x, copse_tensor *slope,
                                                 copse_tensor **out);

#if defined(__cplusplus)
}
#endif
#endif
