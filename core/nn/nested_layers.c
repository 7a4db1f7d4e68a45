/* SPDX-License-Identifier: MIT */
/* Layers that contain layers: in a row, and residual. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

static copse_status infer_row(copse_layer *l, struct copse_flow *f)
{
    return copse__layers_infer(l, l->inner.count, f);
}

static copse_tensor *apply_row(const copse_layer *l, copse_graph *g, const copse_batch *in,
                               copse_tensor *x)
{
    return copse__layers_apply(l, l->inner.count, g, in, x);
}

const struct copse_layer_kind copse__layer_row = {
    .takes_all = true,
    .infer = infer_row,
    .apply = apply_row,
};

/* ---- residual ---- */

/* Its last inner layer, if that is a shortcut; or NULL: the shortcut is the input itself. */
static copse_layer *shortcut_of(const copse_layer *l)
{
    copse_layer *last = l->inner.at[l->inner.count - 1];
    return last->kind == &copse__layer_shortcut ? last : NULL;
}

/* Inner layers without the shortcut. */
static size_t count_of(const copse_layer *l)
{
    return l->inner.count - (shortcut_of(l) != NULL);
}

static copse_status infer_residual(copse_layer *l, struct copse_flow *f)
{
    char first[96], second[96];
    copse_layer *shortcut = shortcut_of(l);
    struct copse_flow side = *f;
    if (count_of(l) == 0)
        return copse_layer_fail(l, COPSE_ERR_ARGUMENT, "it has a shortcut and no other layer");
    COPSE_TRY(copse__layers_infer(l, count_of(l), f));
    if (shortcut) {
        shortcut->in = side;
        COPSE_TRY(infer_row(shortcut, &side));
        shortcut->out = side;
    }
    if (f->type == COPSE_F32 && side.type == COPSE_F32 && copse__shape_equal(f->shape, side.shape))
        return COPSE_OK;
    copse__shape_text(side.shape, first);
    copse__shape_text(f->shape, second);
    if (shortcut)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "its shortcut gives %s and its layers %s; a sum needs equal shapes",
                                first, second);
    return copse_layer_fail(l, COPSE_ERR_SHAPE,
                            "its layers turn the input %s into %s; a sum needs equal shapes", first,
                            second);
}

static copse_tensor *apply_residual(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                    copse_tensor *x)
{
    copse_tensor *inner, *side = x;
    inner = copse__layers_apply(l, count_of(l), g, in, x);
    if (shortcut_of(l))
        side = apply_row(shortcut_of(l), g, in, x);
    return copse_add(g, side, inner);
}

const struct copse_layer_kind copse__layer_residual = {
    .name = "residual",
    .has_inner = true,
    .takes = COPSE_F32,
    .infer = infer_residual,
    .apply = apply_residual,
};

static copse_status refuse_shortcut(copse_layer *l, struct copse_flow *f)
{
    (void)f;
    return copse_layer_fail(l, COPSE_ERR_ARGUMENT,
                            "a shortcut is the last layer in the braces of residual");
}

/* What residual adds to the result of its layers, in place of its input. */
const struct copse_layer_kind copse__layer_shortcut = {
    .name = "shortcut",
    .has_inner = true,
    .takes_all = true,
    .infer = refuse_shortcut,
    .apply = apply_row,
};

/* ---- layers from layers ---- */

/* Copies of layers as the inner ones of a new one. */
static copse_status nested_layers_contain(const struct copse_layer_kind *kind,
                                          const copse_layer *const *layers, size_t count,
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
    return nested_layers_contain(&copse__layer_residual, &inner, 1, out);
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
            return copse_fail(COPSE_ERR_ARGUMENT, "sequential: layers[%zu] is of another context",
                              i);
    }
    return nested_layers_contain(&copse__layer_row, (const copse_layer *const *)layers, count, out);
}
