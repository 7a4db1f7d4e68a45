/* SPDX-License-Identifier: MIT */
/* Applying built layers in a graph. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/graph/type.h"
#include "core/nn/layer.h"

copse_tensor *copse__layer_tensor(const copse_layer *l, uint32_t i)
{
    return copse_variable_tensor(l->variable[i]);
}

static copse_tensor *apply_layer(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                 copse_tensor *x)
{
    char where[COPSE_LAYER_NAME];
    if (l->casts)
        x = copse_cast(g, x, l->kind->takes);
    if (copse__is_failed(x))
        return x;
    copse_tensor *y = l->kind->apply(l, g, in, x);
    return l->inner.count > 0 ? y : copse__noted(g, y, "in %s", copse__layer_where(l, where));
}

copse_tensor *copse__layers_apply(const copse_layer *l, size_t count, copse_graph *g,
                                  const copse_batch *in, copse_tensor *x)
{
    for (size_t i = 0; i < count; i++)
        x = apply_layer(l->inner.at[i], g, in, x);
    return x;
}

copse_status copse__layer_check_input(const copse_layer *l, const copse_tensor *x)
{
    const copse_shape shape = copse_tensor_shape(x);
    char mine[96], theirs[96];
    if (!l->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "layer apply: the layers are not built: see copse_layer_build");
    bool is_same = shape.rank == l->in.shape.rank + 1 && copse_tensor_type(x) == l->type;
    for (uint32_t i = 1; is_same && i < shape.rank; i++)
        is_same = shape.dims[i] == l->in.shape.dims[i - 1];
    return is_same
               ? COPSE_OK
               : copse_fail(
                     COPSE_ERR_SHAPE,
                     "layer apply: the input is %s%s, the layers were built for examples of %s%s",
                     copse_type_name(copse_tensor_type(x)), copse__shape_text(shape, mine),
                     copse_type_name(l->type), copse__shape_text(l->in.shape, theirs));
}

copse_tensor *copse_layer_apply(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                copse_tensor *x)
{
    COPSE_LATCH(g, copse_need("layer apply", l, g, x));
    COPSE_LATCH(g, copse_graph_status(g));
    COPSE_LATCH(g, copse__layer_check_input(l, x));
    return apply_layer(l, g, in, x);
}
