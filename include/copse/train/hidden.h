/* SPDX-License-Identifier: MIT */
/** @file The parts of layers that end with a dense layer, for losses that compute its outputs
 * themselves (copse_dense_cross_entropy).
 */
#ifndef COPSE_PUBLIC_TRAIN_HIDDEN_H
#define COPSE_PUBLIC_TRAIN_HIDDEN_H

#include "copse/nn.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Apply built layers without the last one, where they are in a row and the last one is a dense
 * layer without activation: copse_layer_apply gives copse_dense(hidden, weight, bias). Other layers
 * are not applied, and *hidden is NULL. After a failure all three are failed tensors.
 * @param weight, bias  The variables of the last layer; *bias is NULL if it has none.
 * Errors as copse_layer_apply.
 */
COPSE_API void copse_layer_apply_hidden(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                        copse_tensor *x, copse_tensor **hidden,
                                        copse_tensor **weight, copse_tensor **bias);

#if defined(__cplusplus)
}
#endif
#endif
