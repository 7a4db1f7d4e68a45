/* SPDX-License-Identifier: MIT */
/* Layers that contain layers: in a row, and residual. */
#include "core/graph/graph.h"
#include "core/nn/layer.h"
#include "copse/ops.h"

const struct copse_layer_kind copse__layer_row = {
    .takes_all = true,
    .infer = copse__layers_infer,
    .apply = copse__layers_apply,
};

static copse_status infer_residual(copse_layer *l, struct copse_flow *f)
{
    char before[96], after[96];
    const copse_shape shape = f->shape;
    COPSE_TRY(copse__layers_infer(l, f));
    if (f->type != COPSE_F32 || !copse__shape_equal(f->shape, shape))
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "its layers turn the input %s into %s; a sum needs equal shapes",
                                copse__shape_text(shape, before), copse__shape_text(f->shape, after));
    return COPSE_OK;
}

static copse_status apply_residual(const copse_layer *l, copse_graph *g, const copse_batch *in, copse_tensor *x,
                                   copse_tensor **y)
{
    copse_tensor *inner;
    COPSE_TRY(copse__layers_apply(l, g, in, x, &inner));
    return copse_add(g, x, inner, y);
}

const struct copse_layer_kind copse__layer_residual = {
    .name = "residual",
    .has_inner = true,
    .takes = COPSE_F32,
    .infer = infer_residual,
    .apply = apply_residual,
};

/* Copies of layers as the inner ones of a new one. */
static copse_status contain(const struct copse_layer_kind *kind, const copse_layer *const *layers, size_t count,
                            copse_layer **out)
{
    copse_layer *l, *inner;
    copse_status s;
    COPSE_TRY(copse__layer_new(layers[0]->ctx, kind, &l));
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY_OR(failed, s, copse__layer_copy(layers[i], &inner));
        COPSE_TRY_OR(failed, s, copse__layer_append(l, inner));
    }
    COPSE_TRY_OR(failed, s, copse__layer_check(l));
    *out = l;
    return COPSE_OK;
failed:
    copse_layer_release(&l);
    return s;
}

copse_status copse_nn_residual(const copse_layer *inner, copse_layer **out)
{
    COPSE_TRY(copse_need("residual", out));
    *out = NULL;
    COPSE_TRY(copse_need("residual", inner));
    return contain(&copse__layer_residual, &inner, 1, out);
}

copse_status copse_nn_sequential(copse_layer *const *layers, size_t count, copse_layer **out)
{
    COPSE_TRY(copse_need("sequential", out));
    *out = NULL;
    COPSE_TRY(copse_need("sequential", layers));
    if (count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "sequential: there is no layer");
    for (size_t i = 0; i < count; i++) {
        if (!layers[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "sequential: layers[%zu] is NULL", i);
        if (layers[i]->ctx != layers[0]->ctx)
            return copse_fail(COPSE_ERR_ARGUMENT, "sequential: layers[%zu] is of another context", i);
    }
    return contain(&copse__layer_row, (const copse_layer *const *)layers, count, out);
}
