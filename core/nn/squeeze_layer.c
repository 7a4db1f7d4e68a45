/* SPDX-License-Identifier: MIT */
/* Squeeze and excitation (Hu et al., 2018): the means of all channels decide how much of each
   channel goes on. */
#include "copse/matmul.h"
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { UNITS, ACTIVATION, INIT, SCALE };
enum { SQUEEZE, SQUEEZE_BIAS, EXCITE, EXCITE_BIAS };

static copse_status squeeze_layer_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    if (f->shape.rank < 2 || copse__elements(f->shape) == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input %s has no channels of several places",
                                copse__shape_text(f->shape, text));
    return COPSE_OK;
}

static copse_status squeeze_layer_make(copse_layer *l, const struct copse_layer_maker *m)
{
    const copse_shape in = l->in.shape;
    const uint32_t channels = in.dims[in.rank - 1], units = l->value[UNITS].count;
    const copse_activation a = (copse_activation)l->value[ACTIVATION].count;
    struct copse_variable_params squeeze = { .shape = COPSE_SHAPE(channels, units) };
    struct copse_variable_params excite = { .shape = COPSE_SHAPE(units, channels) };
    const struct copse_variable_params squeeze_bias = { .shape = COPSE_SHAPE(units) };
    const struct copse_variable_params excite_bias = { .shape = COPSE_SHAPE(channels) };
    copse__setting_initialize(l->value[INIT], copse__layer_initializer(a), l->value[SCALE].number,
                              &squeeze);
    copse__setting_initialize(l->value[INIT], copse__layer_initializer(COPSE_SIGMOID),
                              l->value[SCALE].number, &excite);
    COPSE_TRY(copse__layer_variable(l, m, SQUEEZE, "squeeze", &squeeze));
    COPSE_TRY(copse__layer_variable(l, m, SQUEEZE_BIAS, "squeeze_bias", &squeeze_bias));
    COPSE_TRY(copse__layer_variable(l, m, EXCITE, "excite", &excite));
    return copse__layer_variable(l, m, EXCITE_BIAS, "excite_bias", &excite_bias);
}

static copse_tensor *squeeze_layer_apply(const copse_layer *l, copse_graph *g,
                                         const copse_batch *in, copse_tensor *x)
{
    static const uint32_t places[COPSE_MAX_RANK] = { 1, 2, 3, 4, 5 };
    const copse_shape shape = copse_tensor_shape(x);
    copse_shape of_channels = shape; /* [examples, 1, .., channels] */
    (void)in;
    for (uint32_t i = 1; i + 1 < shape.rank; i++)
        of_channels.dims[i] = 1;
    copse_tensor *s = copse_mean(g, x, places, shape.rank - 2, false);
    s = copse_dense(g, s, copse__layer_tensor(l, SQUEEZE), copse__layer_tensor(l, SQUEEZE_BIAS),
                    (copse_activation)l->value[ACTIVATION].count);
    s = copse_dense(g, s, copse__layer_tensor(l, EXCITE), copse__layer_tensor(l, EXCITE_BIAS),
                    COPSE_SIGMOID);
    return copse_mul(g, x, copse_reshape(g, s, of_channels));
}

const struct copse_layer_kind copse__layer_squeeze = {
    .name = "squeeze_excite",
    .setting = {
        [UNITS] = { .name = "UNITS", .form = COPSE_SETTING_COUNT, .is_word = true, .is_required = true },
        [ACTIVATION] = { .name = "ACTIVATION", .form = COPSE_SETTING_CHOICE, .is_word = true, .names = copse__activation_names,
                         .normal = { .count = COPSE_RELU } },
        [INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER },
        [SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 },
    },
    .takes = COPSE_F32,
    .infer = squeeze_layer_infer,
    .make = squeeze_layer_make,
    .apply = squeeze_layer_apply,
};
