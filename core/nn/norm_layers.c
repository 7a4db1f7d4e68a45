/* SPDX-License-Identifier: MIT */
/* Layer norm and RMS norm: each example's last axis is normalised by itself. */
#include "core/graph/graph.h"
#include "core/nn/layer.h"
#include "copse/ops.h"

enum { EPSILON };
enum { SCALE, OFFSET };

static copse_status infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    if (f->shape.rank == 0 || f->shape.dims[f->shape.rank - 1] == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "the input %s has no last axis with elements to normalise",
                                copse__shape_text(f->shape, text));
    return COPSE_OK;
}

static copse_status make_scale(copse_layer *l, const struct copse_layer_maker *m)
{
    const copse_shape in = l->in.shape;
    const struct copse_variable_params scale = { .shape = COPSE_SHAPE(in.dims[in.rank - 1]),
                                                 .initializer = COPSE_INIT_ONES };
    return copse__layer_variable(l, m, SCALE, "scale", &scale);
}

static copse_status make_both(copse_layer *l, const struct copse_layer_maker *m)
{
    const copse_shape in = l->in.shape;
    const struct copse_variable_params offset = { .shape = COPSE_SHAPE(in.dims[in.rank - 1]) };
    COPSE_TRY(make_scale(l, m));
    return copse__layer_variable(l, m, OFFSET, "offset", &offset);
}

static copse_status apply_layer_norm(const copse_layer *l, copse_graph *g, const copse_batch *in, copse_tensor *x,
                                     copse_tensor **y)
{
    (void)in;
    return copse_layer_norm(g, x, copse__layer_tensor(l, SCALE), copse__layer_tensor(l, OFFSET),
                            l->value[EPSILON].number, y);
}

const struct copse_layer_kind copse__layer_layer_norm = {
    .name = "layer_norm",
    .setting = { [EPSILON] = { .name = "epsilon", .form = COPSE_SETTING_NUMBER, .low = 1.18e-38, .high = 1e30,
                               .normal = { .number = 1e-5f } } },
    .takes = COPSE_F32,
    .infer = infer,
    .make = make_both,
    .apply = apply_layer_norm,
};

copse_status copse_nn_layer_norm(copse_context *ctx, copse_layer **out)
{
    return copse__layer_create(ctx, &copse__layer_layer_norm, NULL, 0, out);
}

static copse_status apply_rms_norm(const copse_layer *l, copse_graph *g, const copse_batch *in, copse_tensor *x,
                                   copse_tensor **y)
{
    (void)in;
    return copse_rms_norm(g, x, copse__layer_tensor(l, SCALE), l->value[EPSILON].number, y);
}

const struct copse_layer_kind copse__layer_rms_norm = {
    .name = "rms_norm",
    .setting = { [EPSILON] = { .name = "epsilon", .form = COPSE_SETTING_NUMBER, .low = 1.18e-38, .high = 1e30,
                               .normal = { .number = 1e-5f } } },
    .takes = COPSE_F32,
    .infer = infer,
    .make = make_scale,
    .apply = apply_rms_norm,
};

copse_status copse_nn_rms_norm(copse_context *ctx, copse_layer **out)
{
    return copse__layer_create(ctx, &copse__layer_rms_norm, NULL, 0, out);
}
