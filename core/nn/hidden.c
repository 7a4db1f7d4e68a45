/* SPDX-License-Identifier: MIT */
/* Applying built layers without the last one. */
#include "copse/train/hidden.h"

#include "core/graph/graph.h"
#include "core/nn/layer.h"

/* The last one of layers in a row, if it is a product and a bias alone. */
static const copse_layer *product_of(const copse_layer *l)
{
    const copse_layer *last =
        l->kind == &copse__layer_row && l->inner.count > 0 ? l->inner.at[l->inner.count - 1] : NULL;
    const bool is_product = last && last->kind == &copse__layer_dense && !last->casts &&
                            last->value[COPSE_DENSE_ACTIVATION].count == COPSE_LINEAR;
    return is_product ? last : NULL;
}

void copse_layer_apply_hidden(const copse_layer *l, copse_graph *g, const copse_batch *in,
                              copse_tensor *x, copse_tensor **hidden, copse_tensor **weight,
                              copse_tensor **bias)
{
    COPSE_LATCH_VOID(g, copse_need("layer apply", hidden, weight, bias));
    *hidden = *weight = *bias = copse__failed(g, COPSE_OK);
    COPSE_LATCH_VOID(g, copse_need("layer apply", l, g, x));
    COPSE_LATCH_VOID(g, copse_graph_status(g));
    COPSE_LATCH_VOID(g, copse__layer_check_input(l, x));
    const copse_layer *last = product_of(l);
    *hidden = last ? copse__layers_apply(l, l->inner.count - 1, g, in, x) : NULL;
    *weight = last ? copse__layer_tensor(last, 0) : NULL;
    *bias = last ? copse__layer_tensor(last, 1) : NULL;
}
