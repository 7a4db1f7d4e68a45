/* SPDX-License-Identifier: MIT */
/* The kinds of layers that a description can name. */
#include "core/nn/layer.h"

const struct copse_layer_kind *const copse__layer_kinds[] = {
    &copse__layer_dense,
    &copse__layer_conv,
    &copse__layer_conv_transposed,
    &copse__layer_max_pool,
    &copse__layer_average_pool,
    &copse__layer_global_pool,
    &copse__layer_adaptive_pool,
    &copse__layer_resize,
    &copse__layer_pixel_shuffle,
    &copse__layer_embedding,
    &copse__layer_positions,
    &copse__layer_attention,
    &copse__layer_glu,
    &copse__layer_gru,
    &copse__layer_lstm,
    &copse__layer_rnn,
    &copse__layer_flatten,
    &copse__layer_layer_norm,
    &copse__layer_rms_norm,
    &copse__layer_group_norm,
    &copse__layer_instance_norm,
    &copse__layer_batch_norm,
    &copse__layer_dropout,
    &copse__layer_activations[COPSE_RELU - 1],
    &copse__layer_activations[COPSE_SIGMOID - 1],
    &copse__layer_activations[COPSE_TANH - 1],
    &copse__layer_activations[COPSE_GELU - 1],
    &copse__layer_activations[COPSE_SILU - 1],
    &copse__layer_prelu,
    &copse__layer_residual,
    &copse__layer_shortcut,
    NULL,
};
_Static_assert(COPSE_COUNT(copse__layer_kinds) - 1 <= COPSE_LAYER_KINDS, "a number for each kind of layer (layer_build.c)");
