/* SPDX-License-Identifier: MIT */
/* Group norm and instance norm. */
#include "copse/ops/norm.h"

#include <float.h>
#include <math.h>

#include "core/graph/type.h"
#include "core/ops/norm/channel_norm.h"
#include "core/ops/ops.h"

static copse_status check_shapes(const char *op, const struct copse_channel_norm *n)
{
    const copse_shape x = n->x->shape;
    const uint32_t channels = x.rank > 0 ? x.dims[x.rank - 1] : 0;
    const bool are_channels = n->scale->shape.rank == 1 && n->scale->shape.dims[0] == channels &&
                              n->offset->shape.rank == 1 && n->offset->shape.dims[0] == channels;
    if (x.rank >= 2 && are_channels && n->x->type == COPSE_F32 && n->scale->type == COPSE_F32 &&
        n->offset->type == COPSE_F32)
        return COPSE_OK;
    return copse_fail(
        COPSE_ERR_SHAPE,
        "%s: operands %s%s, %s%s and %s%s: expected f32 x [n, .., channels], scale and offset "
        "[channels]",
        op, copse_type_name(n->x->type), COPSE_SHAPE_TEXT(x), copse_type_name(n->scale->type),
        COPSE_SHAPE_TEXT(n->scale->shape), copse_type_name(n->offset->type),
        COPSE_SHAPE_TEXT(n->offset->shape));
}

static copse_status check_sizes(const char *op, const struct copse_channel_norm *n, uint32_t places,
                                uint32_t channels)
{
    if (n->groups == 0 || channels % n->groups)
        return copse_fail(COPSE_ERR_ARGUMENT, "%s: %u groups do not divide %u channels", op,
                          (unsigned)n->groups, (unsigned)channels);
    if (!copse__channel_norm_fits(places, channels / n->groups))
        return copse_fail(
            COPSE_ERR_SHAPE, "%s: x %s: %u places and groups of %u channels are too many", op,
            COPSE_SHAPE_TEXT(n->x->shape), (unsigned)places, (unsigned)(channels / n->groups));
    if (!(n->epsilon >= FLT_MIN && isfinite(n->epsilon)))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "%s: epsilon %g is not a finite number of at least %g", op,
                          (double)n->epsilon, (double)FLT_MIN);
    return COPSE_OK;
}

/* `groups` NULL: each channel is one. */
static copse_tensor *group_norm_add(const char *op, copse_graph *g, struct copse_channel_norm *n,
                                    const uint32_t *groups)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS(op, g, n->x, n->scale, n->offset));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &n->x, &n->scale, &n->offset));
    COPSE_LATCH(g, check_shapes(op, n));
    const copse_shape shape = n->x->shape;
    const uint32_t channels = shape.dims[shape.rank - 1];
    uint32_t places = 1;
    for (uint32_t i = 1; i + 1 < shape.rank; i++)
        places *= shape.dims[i];
    n->groups = groups ? *groups : COPSE_MAX(channels, 1u);
    COPSE_LATCH(g, check_sizes(op, n, places, channels));
    n->batches = shape.dims[0];
    return copse__channel_norm(g, n, NULL, NULL);
}

copse_tensor *copse_group_norm(copse_graph *g, copse_tensor *x, uint32_t groups,
                               copse_tensor *scale, copse_tensor *offset, float epsilon)
{
    struct copse_channel_norm n = { .x = x, .scale = scale, .offset = offset, .epsilon = epsilon };
    return group_norm_add("group_norm", g, &n, &groups);
}

copse_tensor *copse_instance_norm(copse_graph *g, copse_tensor *x, copse_tensor *scale,
                                  copse_tensor *offset, float epsilon)
{
    struct copse_channel_norm n = { .x = x, .scale = scale, .offset = offset, .epsilon = epsilon };
    return group_norm_add("instance_norm", g, &n, NULL);
}
