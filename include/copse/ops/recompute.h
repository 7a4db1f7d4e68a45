/* SPDX-License-Identifier: MIT */
/** @file
 * Recomputation: what a training step does not keep in memory, but computes again (docs/memory.md).
 *
 * A training step keeps the results of the forward pass that its gradients read. In a marked
 * segment it keeps only what ops outside of the segment read: the backward pass computes the other
 * results again, from what enters the segment. The launches and the bits are the same; it is one
 * more forward pass of the segment, about a third of its time.
 *
 * Thread rule: as all functions of a graph. Gradients of trainers and tower optimizers recompute;
 * copse_gradients alone does not.
 */
#ifndef COPSE_PUBLIC_OPS_RECOMPUTE_H
#define COPSE_PUBLIC_OPS_RECOMPUTE_H

#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Begin a segment: ops that are added from now on belong to it. COPSE_ERR_ARGUMENT within a
    segment. */
COPSE_API void copse_recompute_begin(copse_graph *g);

/** End it. COPSE_ERR_ARGUMENT outside of a segment. */
COPSE_API void copse_recompute_end(copse_graph *g);

#if defined(__cplusplus)
}
#endif
#endif
