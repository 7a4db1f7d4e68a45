/* SPDX-License-Identifier: MIT */
/* Layers of images [height, width, channels] and of sequences [width, channels]. */
#include "core/nn/spatial.h"
#include "copse/ops.h"
#include "core/graph/graph.h"

static bool has_two(struct copse_setting_value sides)
{
    return sides.count >> 16 != 0;
}

void copse__layer_sides(struct copse_setting_value v, uint32_t sides[2])
{
    sides[1] = v.count & 0xffff;
    sides[0] = has_two(v) ? v.count >> 16 : sides[1];
}

copse_status copse__layer_spatial(copse_layer *l, struct copse_setting_value sides,
                                  copse_shape *shape)
{
    char text[96];
    if (shape->rank == 2 && has_two(sides))
        shape->dims[shape->rank++] = 1;
    if (shape->rank == 3 || (shape->rank == 2 && !has_two(sides)))
        return COPSE_OK;
    return copse_layer_fail(l, COPSE_ERR_SHAPE,
                            "the input %s is no image [height, width, channels] and no sequence "
                            "[width, channels]",
                            copse__shape_text(*shape, text));
}

copse_tensor *copse__layer_with_channels(copse_graph *g, struct copse_setting_value sides,
                                         copse_tensor *x)
{
    copse_shape s = copse_tensor_shape(x);
    if (s.rank != 3 || !has_two(sides))
        return x;
    s.dims[s.rank++] = 1;
    return copse_reshape(g, x, s);
}
