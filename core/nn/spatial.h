/* SPDX-License-Identifier: MIT */
/* Layers of images [height, width, channels] and of sequences [width, channels]. */
#ifndef COPSE_NN_SPATIAL_H
#define COPSE_NN_SPATIAL_H

#include "core/nn/layer.h"

/* The sides of a COPSE_SETTING_SIDES: of "3x5" 3 and 5, of "3" 3 and 3, the first alone for a
   sequence. */
void copse__layer_sides(struct copse_setting_value v, uint32_t sides[2]);
/* The input as an image or a sequence. `sides` with two numbers makes one channel of [height,
   width]. */
copse_status copse__layer_spatial(copse_layer *l, struct copse_setting_value sides,
                                  copse_shape *shape);
/* x with the axes that copse__layer_spatial sees. */
copse_tensor *copse__layer_with_channels(copse_graph *g, struct copse_setting_value sides,
                                         copse_tensor *x);

#endif
