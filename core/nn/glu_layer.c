/* SPDX-License-Identifier: MIT */
/* Gated units: one product makes gates and values, whose product is the result. */
#include "copse/ops.h"
#include "copse/ops/gated.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { UNITS, ACTIVATION, BIAS, INIT, SCALE };

static copse_status glu_layer_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    const uint32_t units = l->value[UNITS].count;
    if (f->shape.rank == 0 || f->shape.dims[f->shape.rank - 1] == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input %s has no last axis with elements to multiply",
                                copse__shape_text(f->shape, text));
    if (units > INT32_MAX / 2)
        return copse_layer_fail(l, COPSE_ERR_ARGUMENT, "%u units are too many", (unsigned)units);
    f->shape.dims[f->shape.rank - 1] = units;
    return COPSE_OK;
}

static copse_status glu_layer_make(copse_layer *l, const struct copse_layer_maker *m)
{
    const copse_shape in = l->in.shape;
    const uint32_t both = 2 * l->value[UNITS].count;
    struct copse_variable_params weight = { .shape = COPSE_SHAPE(in.dims[in.rank - 1], both) };
    const struct copse_variable_params bias = { .shape = COPSE_SHAPE(both) };
    copse__setting_initialize(l->value[INIT], copse__layer_initializer(COPSE_LINEAR),
                              l->value[SCALE].number, &weight);
    COPSE_TRY(copse__layer_variable(l, m, 0, "weight", &weight));
    return l->value[BIAS].count ? copse__layer_variable(l, m, 1, "bias", &bias) : COPSE_OK;
}

static copse_tensor *glu_layer_apply(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                     copse_tensor *x)
{
    (void)in;
    copse_tensor *both =
        copse_dense(g, x, copse__layer_tensor(l, 0), copse__layer_tensor(l, 1), COPSE_LINEAR);
    return copse_glu(g, both, NULL, (copse_activation)l->value[ACTIVATION].count);
}

const struct copse_layer_kind copse__layer_glu = {
    .name = "glu",
    .setting = {
        [UNITS] = { .name = "UNITS", .form = COPSE_SETTING_COUNT, .is_word = true, .is_required = true },
        [ACTIVATION] = { .name = "ACTIVATION", .form = COPSE_SETTING_CHOICE, .is_word = true, .names = copse__activation_names,
                         .normal = { .count = COPSE_SIGMOID } },
        [BIAS] = { .name = "bias", .form = COPSE_SETTING_FLAG, .normal = { .count = 1 } },
        [INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER },
        [SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 },
    },
    .takes = COPSE_F32,
    .infer = glu_layer_infer,
    .make = glu_layer_make,
    .apply = glu_layer_apply,
};
