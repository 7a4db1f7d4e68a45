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

static copse_status apply(const copse_layer *l, copse_graph *g, const copse_batch *in,
                          copse_tensor *x, copse_tensor **y)
{
    char where[COPSE_LAYER_NAME];
    if (l->casts)
        COPSE_TRY(copse_cast(g, x, l->kind->takes, &x));
    const copse_status s = l->kind->apply(l, g, in, x, y);
    return l->inner.count > 0 ? s : copse_note(s, "in %s", copse__layer_where(l, where));
}

copse_status copse__layers_apply(const copse_layer *l, size_t count, copse_graph *g,
                                 const copse_batch *in, copse_tensor *x, copse_tensor **y)
{
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(apply(l->inner.at[i], g, in, x, &x));
    *y = x;
    return COPSE_OK;
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
                     copse__type_name(copse_tensor_type(x)), copse__shape_text(shape, mine),
                     copse__type_name(l->type), copse__shape_text(l->in.shape, theirs));
}

copse_status copse_layer_apply(const copse_layer *l, copse_graph *g, const copse_batch *in,
                               copse_tensor *x, copse_tensor **y)
{
    COPSE_TRY(copse_need("layer apply", y));
    *y = NULL;
    COPSE_TRY(copse_need("layer apply", l, g, x));
    COPSE_TRY(copse__layer_check_input(l, x));
    return apply(l, g, in, x, y);
}
