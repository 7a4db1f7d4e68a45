/* SPDX-License-Identifier: MIT */
/* Layers without variables: flatten and dropout. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

static copse_status infer_flatten(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    const uint64_t n = copse__elements(f->shape);
    if (n == 0 || n > INT32_MAX)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input %s has not 1 to 2^31-1 elements for each example",
                                copse__shape_text(f->shape, text));
    f->shape = COPSE_SHAPE((uint32_t)n);
    return COPSE_OK;
}

static copse_tensor *apply_flatten(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                   copse_tensor *x)
{
    (void)in;
    return copse_reshape(g, x, COPSE_SHAPE(copse_tensor_shape(x).dims[0], l->out.shape.dims[0]));
}

const struct copse_layer_kind copse__layer_flatten = {
    .name = "flatten",
    .takes_all = true,
    .infer = infer_flatten,
    .apply = apply_flatten,
};

copse_status copse_nn_flatten(copse_context *ctx, copse_layer **out)
{
    return copse__layer_create(ctx, &copse__layer_flatten, NULL, 0, out);
}

/* ---- dropout ---- */

static copse_status infer_same(copse_layer *l, struct copse_flow *f)
{
    (void)l, (void)f;
    return COPSE_OK;
}

static copse_tensor *apply_dropout(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                   copse_tensor *x)
{
    return copse_dropout(g, x, l->value[COPSE_DROPOUT_RATE].number, in && in->is_training);
}

const struct copse_layer_kind copse__layer_dropout = {
    .name = "dropout",
    .setting = { [COPSE_DROPOUT_RATE] = { .name = "RATE",
                                          .form = COPSE_SETTING_NUMBER,
                                          .is_word = true,
                                          .is_required = true,
                                          .high = 1.0 } },
    .takes = COPSE_F32,
    .infer = infer_same,
    .apply = apply_dropout,
};

copse_status copse_nn_dropout(copse_context *ctx, float rate, copse_layer **out)
{
    return copse__layer_create(ctx, &copse__layer_dropout,
                               &(struct copse_setting_value){ .number = rate }, 1, out);
}
