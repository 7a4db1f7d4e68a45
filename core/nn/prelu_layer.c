/* SPDX-License-Identifier: MIT */
/* PReLU: a learned slope for each channel (He et al., 2015). */
#include "copse/ops/functions.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { SLOPE };

static copse_status prelu_layer_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    if (f->shape.rank == 0 || f->shape.dims[f->shape.rank - 1] == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "the input %s has no last axis with channels",
                                copse__shape_text(f->shape, text));
    return COPSE_OK;
}

static copse_status prelu_layer_make(copse_layer *l, const struct copse_layer_maker *m)
{
    const copse_shape in = l->in.shape;
    const float slope = l->value[SLOPE].number;
    const struct copse_variable_params p = { .shape = COPSE_SHAPE(in.dims[in.rank - 1]),
                                             .scale = slope,
                                             .initializer = slope == 0.0f ? COPSE_INIT_ZEROS
                                                                          : COPSE_INIT_ONES };
    return copse__layer_variable(l, m, 0, "slope", &p);
}

static copse_tensor *prelu_layer_apply(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                       copse_tensor *x)
{
    (void)in;
    return copse_prelu(g, x, copse__layer_tensor(l, 0));
}

const struct copse_layer_kind copse__layer_prelu = {
    .name = "prelu",
    .setting = { [SLOPE] = { .name = "slope",
                             .form = COPSE_SETTING_NUMBER,
                             .low = -1e30,
                             .high = 1e30,
                             .normal = { .number = 0.25f } } },
    .takes = COPSE_F32,
    .infer = prelu_layer_infer,
    .make = prelu_layer_make,
    .apply = prelu_layer_apply,
};
