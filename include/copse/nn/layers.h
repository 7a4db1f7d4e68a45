/* SPDX-License-Identifier: MIT */
/** @file Calls that make layers, each of which a word of a description makes, too (copse_nn_parse).
 */
#ifndef COPSE_PUBLIC_NN_LAYERS_H
#define COPSE_PUBLIC_NN_LAYERS_H

#include "copse/matmul.h"
#include "copse/nn.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Dense layer, copse_dense: [.., k] to [.., units]. @param units  0: the `outputs` of copse_layer_build. */
COPSE_API COPSE_CHECKED copse_status copse_nn_dense(copse_context *ctx, uint32_t units,
                                                    copse_activation activation, copse_layer **out);
/** Rows of a table [rows, width] by index, copse_gather: i32 [..] to [.., width]. `rows` 0:
    `in`. */
COPSE_API COPSE_CHECKED copse_status copse_nn_embedding(copse_context *ctx, uint32_t rows,
                                                        uint32_t width, copse_layer **out);
/** An activation alone; not COPSE_LINEAR. */
COPSE_API COPSE_CHECKED copse_status copse_nn_activation(copse_context *ctx,
                                                         copse_activation activation,
                                                         copse_layer **out);
/** Dropout while training, copse_dropout. @param rate  0 <= rate < 1. */
COPSE_API COPSE_CHECKED copse_status copse_nn_dropout(copse_context *ctx, float rate,
                                                      copse_layer **out);
/** Layer norm and RMS norm over the last axis. */
COPSE_API COPSE_CHECKED copse_status copse_nn_layer_norm(copse_context *ctx, copse_layer **out);
COPSE_API COPSE_CHECKED copse_status copse_nn_rms_norm(copse_context *ctx, copse_layer **out);
/** Batch norm of the last axis over the global batch; evaluations use moving averages. */
COPSE_API COPSE_CHECKED copse_status copse_nn_batch_norm(copse_context *ctx, copse_layer **out);
/** Each example becomes one axis. */
COPSE_API COPSE_CHECKED copse_status copse_nn_flatten(copse_context *ctx, copse_layer **out);
/** x + inner(x). @param inner  Copied. */
COPSE_API COPSE_CHECKED copse_status copse_nn_residual(const copse_layer *inner, copse_layer **out);
/** Layers in a row, at least one. @param layers  Copied. */
COPSE_API COPSE_CHECKED copse_status copse_nn_sequential(copse_layer *const *layers, size_t count,
                                                         copse_layer **out);
/** Perceptron: flatten, hidden dense layers, dense out. @param widths  [count], or NULL. */
COPSE_API COPSE_CHECKED copse_status copse_nn_mlp(copse_context *ctx, const uint32_t *widths,
                                                  size_t count, copse_activation activation,
                                                  copse_layer **out);

#if defined(__cplusplus)
}
#endif
#endif
