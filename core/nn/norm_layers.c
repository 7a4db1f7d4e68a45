/* SPDX-License-Identifier: MIT */
/* Norms of each example by itself: layer norm and RMS norm of the last axis, group and instance
   norm of channels. */
#include "copse/ops/norm.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { EPSILON };
enum { SCALE, OFFSET };

static copse_status norm_layers_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    if (f->shape.rank == 0 || f->shape.dims[f->shape.rank - 1] == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input %s has no last axis with elements to normalise",
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

static copse_tensor *apply_layer_norm(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                      copse_tensor *x)
{
    (void)in;
    return copse_layer_norm(g, x, copse__layer_tensor(l, SCALE), copse__layer_tensor(l, OFFSET),
                            l->value[EPSILON].number);
}

const struct copse_layer_kind copse__layer_layer_norm = {
    .name = "layer_norm",
    .setting = { [EPSILON] = { .name = "epsilon",
                               .form = COPSE_SETTING_NUMBER,
                               .low = 1.18e-38,
                               .high = 1e30,
                               .normal = { .number = 1e-5f } } },
    .takes = COPSE_F32,
    .infer = norm_layers_infer,
    .make = make_both,
    .apply = apply_layer_norm,
};

copse_status copse_nn_layer_norm(copse_context *ctx, copse_layer **out)
{
    return copse__layer_create(ctx, &copse__layer_layer_norm, NULL, 0, out);
}

static copse_tensor *apply_rms_norm(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                    copse_tensor *x)
{
    (void)in;
    return copse_rms_norm(g, x, copse__layer_tensor(l, SCALE), l->value[EPSILON].number);
}

const struct copse_layer_kind copse__layer_rms_norm = {
    .name = "rms_norm",
    .setting = { [EPSILON] = { .name = "epsilon",
                               .form = COPSE_SETTING_NUMBER,
                               .low = 1.18e-38,
                               .high = 1e30,
                               .normal = { .number = 1e-5f } } },
    .takes = COPSE_F32,
    .infer = norm_layers_infer,
    .make = make_scale,
    .apply = apply_rms_norm,
};

copse_status copse_nn_rms_norm(copse_context *ctx, copse_layer **out)
{
    return copse__layer_create(ctx, &copse__layer_rms_norm, NULL, 0, out);
}

/* ---- norms of channels ---- */

enum { GROUPS, GROUP_EPSILON };

static copse_status infer_group_norm(copse_layer *l, struct copse_flow *f)
{
    const uint32_t groups = l->value[GROUPS].count;
    COPSE_TRY(norm_layers_infer(l, f));
    if (f->shape.dims[f->shape.rank - 1] % groups)
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "%u groups do not divide %u channels",
                                (unsigned)groups, (unsigned)f->shape.dims[f->shape.rank - 1]);
    return COPSE_OK;
}

static copse_tensor *apply_group_norm(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                      copse_tensor *x)
{
    (void)in;
    return copse_group_norm(g, x, l->value[GROUPS].count, copse__layer_tensor(l, SCALE),
                            copse__layer_tensor(l, OFFSET), l->value[GROUP_EPSILON].number);
}

const struct copse_layer_kind copse__layer_group_norm = {
    .name = "group_norm",
    .setting = {
        [GROUPS] = { .name = "groups", .form = COPSE_SETTING_COUNT, .is_word = true, .is_required = true },
        [GROUP_EPSILON] = { .name = "epsilon", .form = COPSE_SETTING_NUMBER, .low = 1.18e-38, .high = 1e30,
                            .normal = { .number = 1e-5f } },
    },
    .takes = COPSE_F32,
    .infer = infer_group_norm,
    .make = make_both,
    .apply = apply_group_norm,
};

static copse_tensor *apply_instance_norm(const copse_layer *l, copse_graph *g,
                                         const copse_batch *in, copse_tensor *x)
{
    (void)in;
    return copse_instance_norm(g, x, copse__layer_tensor(l, SCALE), copse__layer_tensor(l, OFFSET),
                               l->value[EPSILON].number);
}

const struct copse_layer_kind copse__layer_instance_norm = {
    .name = "instance_norm",
    .setting = { [EPSILON] = { .name = "epsilon",
                               .form = COPSE_SETTING_NUMBER,
                               .low = 1.18e-38,
                               .high = 1e30,
                               .normal = { .number = 1e-5f } } },
    .takes = COPSE_F32,
    .infer = norm_layers_infer,
    .make = make_both,
    .apply = apply_instance_norm,
};
