/* SPDX-License-Identifier: MIT */
/** @file Layers of a network, from text (docs/layers.md) or calls (nn/layers.h). copse_layer_build
 * makes variables; copse_layer_apply is called in a loss function.
 */
#ifndef COPSE_PUBLIC_NN_H
#define COPSE_PUBLIC_NN_H

#include "copse/batch.h"
#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** A layer, or several; at most 10,000, nested at most 64 deep. */
typedef struct copse_layer copse_layer;

/**
 * Make layers from a description.
 * @param text  "dense 64 relu; residual { layer_norm; dense 64 gelu }; dense out"
 * @retval COPSE_ERR_ARGUMENT  The text is wrong; the error text names line and layer.
 */
COPSE_API COPSE_CHECKED copse_status copse_nn_parse(copse_context *ctx, const char *text,
                                                    copse_layer **out);

COPSE_API copse_layer *copse_layer_retain(copse_layer *l);
COPSE_API void copse_layer_release(copse_layer **l);

/** What layers are built for. */
struct copse_build_params {
    copse_type type;   /**< of the input                               [COPSE_F32] */
    copse_shape shape; /**< of one example, rank below COPSE_MAX_RANK  [COPSE_SCALAR] */
    uint32_t outputs;  /**< units of `dense out`: classes or targets   [0 = none] */
    uint32_t tokens;   /**< of `embedding in 32` */
    const char *scope; /**< variables are "scope/dense1.weight"        [NULL: "dense1.weight"] */
    uint64_t seed;     /**< of the initial values; mixed with names */
    uint64_t reserved[4];
};

/**
 * Make the variables of layers, named by kind and number of the kind in the whole tree:
 * "dense1.weight", "dense2.weight". Layers are built once, not in a loss function or a replica, and
 * retain the strategy.
 * @param params  NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT  The layers are built, a name is taken, or `outputs` is missing.
 * @retval COPSE_ERR_SHAPE     A layer does not fit its input; the text names line, layer and
 *                             shapes.
 * These make no variable. Otherwise as copse_variable_create.
 */
COPSE_API COPSE_CHECKED copse_status copse_layer_build(copse_layer *l, copse_strategy *st,
                                                       const struct copse_build_params *params);

/**
 * In a loss function: the output of built layers.
 * @param in  Of the loss function. NULL: as for an evaluation.
 * @param x   [n, shape...] of the type that was built for.
 * @param y   f32 [n, ...].
 * @retval COPSE_ERR_ARGUMENT  The layers are not built.
 * @retval COPSE_ERR_SHAPE     `x` has another shape or type.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_layer_apply(const copse_layer *l, copse_graph *g,
                                                        const copse_batch *in, copse_tensor *x);

/** Shape of the output for one example. COPSE_ERR_ARGUMENT: not built. */
COPSE_API COPSE_CHECKED copse_status copse_layer_output(const copse_layer *l, copse_shape *out);
/** Elements of the trained variables; 0 before they are made. */
COPSE_API uint64_t copse_layer_parameters(const copse_layer *l);

/**
 * The description, for copse_nn_parse. Built layers have a number instead of `out`.
 * @param text    [room]; NULL where `room` is 0.
 * @param needed  Receives the bytes with the final NUL.
 * @retval COPSE_ERR_ARGUMENT  `room` is above 0 and too small.
 */
COPSE_API COPSE_CHECKED copse_status copse_layer_text(const copse_layer *l, char *text, size_t room,
                                                      size_t *needed);
/** A table of built layers: layer, output, parameters; as copse_layer_text. */
COPSE_API COPSE_CHECKED copse_status copse_layer_summary(const copse_layer *l, char *text,
                                                         size_t room, size_t *needed);

#if defined(__cplusplus)
}
#endif
#endif
