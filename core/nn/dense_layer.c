/* SPDX-License-Identifier: MIT */
/* Dense layers, and perceptrons made of them. */
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { BIAS = COPSE_DENSE_ACTIVATION + 1, INIT, SCALE };

static copse_status dense_layer_infer(copse_layer *l, struct copse_flow *f)
{
    uint32_t *units = &l->value[COPSE_DENSE_UNITS].count;
    if (f->shape.rank == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input is one number for each example, [], and has no axis to "
                                "multiply; put flatten in front");
    if (*units == 0 && f->outputs == 0)
        return copse_layer_fail(l, COPSE_ERR_ARGUMENT,
                                "`out` is the number of outputs, and copse_layer_build got none");
    if (f->shape.dims[f->shape.rank - 1] == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "the last axis of the input is empty");
    f->shape.dims[f->shape.rank - 1] = *units ? *units : f->outputs;
    return COPSE_OK;
}

static copse_status dense_layer_make(copse_layer *l, const struct copse_layer_maker *m)
{
    const copse_shape in = l->in.shape, out = l->out.shape;
    const uint32_t units = out.dims[out.rank - 1];
    struct copse_variable_params weight = { .shape = COPSE_SHAPE(in.dims[in.rank - 1], units) };
    const struct copse_variable_params bias = { .shape = COPSE_SHAPE(units) };
    copse__setting_initialize(
        l->value[INIT],
        copse__layer_initializer((copse_activation)l->value[COPSE_DENSE_ACTIVATION].count),
        l->value[SCALE].number, &weight);
    COPSE_TRY(copse__layer_variable(l, m, 0, "weight", &weight));
    return l->value[BIAS].count ? copse__layer_variable(l, m, 1, "bias", &bias) : COPSE_OK;
}

static copse_tensor *dense_layer_apply(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                       copse_tensor *x)
{
    (void)in;
    return copse_dense(g, x, copse__layer_tensor(l, 0), copse__layer_tensor(l, 1),
                       (copse_activation)l->value[COPSE_DENSE_ACTIVATION].count);
}

const struct copse_layer_kind copse__layer_dense = {
    .name = "dense",
    .setting = {
        [COPSE_DENSE_UNITS] = { .name = "UNITS", .form = COPSE_SETTING_UNITS, .is_word = true, .is_required = true },
        [COPSE_DENSE_ACTIVATION] = { .name = "ACTIVATION", .form = COPSE_SETTING_CHOICE, .is_word = true,
                                     .names = copse__activation_names },
        [BIAS] = { .name = "bias", .form = COPSE_SETTING_FLAG, .normal = { .count = 1 } },
        [INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER },
        [SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 },
    },
    .takes = COPSE_F32,
    .infer = dense_layer_infer,
    .make = dense_layer_make,
    .apply = dense_layer_apply,
};

copse_status copse_nn_dense(copse_context *ctx, uint32_t units, copse_activation activation,
                            copse_layer **out)
{
    const struct copse_setting_value values[] = { { .count = units },
                                                  { .count = (uint32_t)activation } };
    return copse__layer_create(ctx, &copse__layer_dense, values, 2, out);
}

/* ---- activations alone ---- */

static copse_status infer_same(copse_layer *l, struct copse_flow *f)
{
    (void)l, (void)f;
    return COPSE_OK;
}

static copse_tensor *apply_function(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                    copse_tensor *x)
{
    (void)in;
    return l->kind->function(g, x);
}

#define ACTIVATION(label, fn)                                                            \
    {                                                                                    \
        .name = label, .takes = COPSE_F32, .infer = infer_same, .apply = apply_function, \
        .function = fn                                                                   \
    }
const struct copse_layer_kind copse__layer_activations[] = {
    [COPSE_RELU - 1] = ACTIVATION("relu", copse_relu),
    [COPSE_SIGMOID - 1] = ACTIVATION("sigmoid", copse_sigmoid),
    [COPSE_TANH - 1] = ACTIVATION("tanh", copse_tanh),
    [COPSE_GELU - 1] = ACTIVATION("gelu", copse_gelu),
    [COPSE_SILU - 1] = ACTIVATION("silu", copse_silu),
};

copse_status copse_nn_activation(copse_context *ctx, copse_activation activation, copse_layer **out)
{
    COPSE_TRY(copse_need("activation", out));
    *out = NULL;
    if ((int)activation <= COPSE_LINEAR || activation > COPSE_SILU)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "activation: %d is no activation that changes a value", (int)activation);
    return copse__layer_create(ctx, &copse__layer_activations[activation - 1], NULL, 0, out);
}

/* ---- perceptrons ---- */

const struct copse_layer_kind copse__layer_mlp = {
    .name = "mlp:WIDTH,WIDTH,...",
    .setting = {
        [COPSE_MLP_ACTIVATION] = { .name = "ACTIVATION", .form = COPSE_SETTING_CHOICE, .is_word = true,
                                   .names = copse__activation_names, .normal = { .count = COPSE_RELU } },
        [COPSE_MLP_DROPOUT] = { .name = "dropout", .form = COPSE_SETTING_NUMBER, .high = 1.0 },
    },
};

static copse_status append_dense(copse_layer *l, uint32_t units, copse_activation a)
{
    copse_layer *dense;
    COPSE_TRY(copse_nn_dense(l->ctx, units, a, &dense));
    return copse__layer_append(l, dense);
}

copse_status copse_nn_mlp(copse_context *ctx, const uint32_t *widths, size_t count,
                          copse_activation activation, copse_layer **out)
{
    copse_layer *l, *flatten;
    copse_status s;
    COPSE_TRY(copse_need("mlp", out));
    *out = NULL;
    COPSE_TRY(copse_need("mlp", ctx));
    if (count > 0)
        COPSE_TRY(copse_need("mlp", widths));
    if (count > COPSE_LAYER_MOST - 2)
        return copse_fail(COPSE_ERR_ARGUMENT, "mlp: %zu hidden layers are too many", count);
    COPSE_TRY(copse__layer_new(ctx, &copse__layer_row, &l));
    COPSE_TRY_OR(failed, s, copse__layer_new(ctx, &copse__layer_flatten, &flatten));
    COPSE_TRY_OR(failed, s, copse__layer_append(l, flatten));
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY_OR(failed, s,
                     widths[i] > 0 ? COPSE_OK
                                   : copse_fail(COPSE_ERR_ARGUMENT, "mlp: a width is 0"));
        COPSE_TRY_OR(failed, s, append_dense(l, widths[i], activation));
    }
    COPSE_TRY_OR(failed, s, append_dense(l, 0, COPSE_LINEAR));
    *out = l;
    return COPSE_OK;
failed:
    copse_layer_release(&l);
    return s;
}
