/* SPDX-License-Identifier: MIT */
/** @file
 * Gated units. The rules of copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_GATED_H
#define COPSE_PUBLIC_OPS_GATED_H

#include "copse/matmul.h"
#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Gated linear unit (Dauphin et al., 2017): y = f(gate) value. With f = silu it is SwiGLU, with
 * gelu GEGLU, with relu ReGLU (Shazeer, 2020), with sigmoid GLU. One kernel computes it, and one
 * both derivatives. Products of dy and value must not overflow.
 *
 * @param gate        f32 [..], the shape of value; or [.., 2 n] of gates and then values, if value
 *                    is NULL.
 * @param value       f32, or NULL.
 * @param activation  f; COPSE_LINEAR: none.
 * @param y           f32 [..]; or [.., n].
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_glu(copse_graph *g, copse_tensor *gate,
                                                copse_tensor *value, copse_activation activation);

#if defined(__cplusplus)
}
#endif
#endif
