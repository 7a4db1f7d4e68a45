/* SPDX-License-Identifier: MIT */
/* Recurrent layers over the positions of an example. */
#include "copse/ops.h"
#include "copse/ops/recurrent.h"
#include "core/graph/graph.h"
#include "core/nn/layer.h"

enum { UNITS, LAST, BIAS, INIT, SCALE };
enum { WEIGHT, RECURRENT, INPUT_BIAS, RECURRENT_BIAS };

#define MOST_STEPS 16384u

static copse_status recurrent_layers_infer(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    copse__shape_text(f->shape, text);
    if (f->shape.rank != 2 || copse__elements(f->shape) == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input is %s; it takes positions and width [t, w]", text);
    if (f->shape.dims[0] > MOST_STEPS)
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "%u positions: at most %u",
                                (unsigned)f->shape.dims[0], MOST_STEPS);
    if (l->value[UNITS].count > INT32_MAX / 4)
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "%u units are too many",
                                (unsigned)l->value[UNITS].count);
    f->shape = l->value[LAST].count ? COPSE_SHAPE(l->value[UNITS].count)
                                    : COPSE_SHAPE(f->shape.dims[0], l->value[UNITS].count);
    return COPSE_OK;
}

static copse_status make_weight(copse_layer *l, const struct copse_layer_maker *m, uint32_t i,
                                const char *name, uint32_t rows, uint32_t columns,
                                copse_initializer automatic)
{
    struct copse_variable_params p = { .shape = COPSE_SHAPE(rows, columns) };
    copse__setting_initialize(l->value[INIT], automatic, l->value[SCALE].number, &p);
    return copse__layer_variable(l, m, i, name, &p);
}

static copse_status recurrent_layers_make(copse_layer *l, const struct copse_layer_maker *m,
                                          uint32_t gates)
{
    const uint32_t units = l->value[UNITS].count;
    COPSE_TRY(make_weight(l, m, WEIGHT, "weight", l->in.shape.dims[1], gates * units,
                          COPSE_INIT_GLOROT_UNIFORM));
    return make_weight(l, m, RECURRENT, "recurrent", units, gates * units, COPSE_INIT_ORTHOGONAL);
}

/* Zeros; `values`: others. */
static copse_status make_bias(copse_layer *l, const struct copse_layer_maker *m, uint32_t i,
                              const char *name, uint32_t gates, const float *values)
{
    const struct copse_variable_params p = { .shape = COPSE_SHAPE(gates * l->value[UNITS].count),
                                             .values = values };
    return l->value[BIAS].count ? copse__layer_variable(l, m, i, name, &p) : COPSE_OK;
}

/* A GRU has a bias within its reset gate. */
static copse_status make_gru(copse_layer *l, const struct copse_layer_maker *m)
{
    COPSE_TRY(recurrent_layers_make(l, m, 3));
    COPSE_TRY(make_bias(l, m, INPUT_BIAS, "bias", 3, NULL));
    return make_bias(l, m, RECURRENT_BIAS, "recurrent_bias", 3, NULL);
}

/* The forget gate is open at the start: its bias is 1 (Jozefowicz, Zaremba and Sutskever, 2015). */
static copse_status make_lstm(copse_layer *l, const struct copse_layer_maker *m)
{
    const uint32_t units = l->value[UNITS].count;
    float *values = NULL;
    COPSE_TRY(recurrent_layers_make(l, m, 4));
    if (l->value[BIAS].count && !m->is_trial) {
        values = copse__alloc(&l->ctx->base.mem, 4 * (size_t)units, sizeof *values);
        COPSE_TRY(copse_need_memory(values, "lstm"));
        for (uint32_t i = units; i < 2 * units; i++)
            values[i] = 1.0f;
    }
    const copse_status s = make_bias(l, m, INPUT_BIAS, "bias", 4, values);
    copse__free(&l->ctx->base.mem, values);
    return s;
}

static copse_status make_rnn(copse_layer *l, const struct copse_layer_maker *m)
{
    COPSE_TRY(recurrent_layers_make(l, m, 1));
    return make_bias(l, m, INPUT_BIAS, "bias", 1, NULL);
}

static struct copse_recurrent_params params_of(const copse_layer *l)
{
    return (struct copse_recurrent_params){ .bias = copse__layer_tensor(l, INPUT_BIAS),
                                            .recurrent_bias =
                                                copse__layer_tensor(l, RECURRENT_BIAS) };
}

/* Every state, or the last one. */
#define APPLY(layer, ...)                                                                          \
    static copse_tensor *apply_##layer(const copse_layer *l, copse_graph *g,                       \
                                       const copse_batch *in, copse_tensor *x)                     \
    {                                                                                              \
        const struct copse_recurrent_params params = params_of(l);                                 \
        copse_tensor *last;                                                                        \
        copse_tensor *all =                                                                        \
            copse_##layer(g, x, copse__layer_tensor(l, WEIGHT), copse__layer_tensor(l, RECURRENT), \
                          &params, __VA_ARGS__);                                                   \
        (void)in;                                                                                  \
        return l->value[LAST].count ? last : all;                                                  \
    }
APPLY(gru, &last)
APPLY(lstm, &last, NULL)
APPLY(rnn, &last)

#define KIND(layer) \
    const struct copse_layer_kind copse__layer_##layer = {                                                                 \
        .name = #layer,                                                                                                    \
        .setting = {                                                                                                       \
            [UNITS] = { .name = "UNITS", .form = COPSE_SETTING_COUNT, .is_word = true, .is_required = true },              \
            [LAST] = { .name = "last", .form = COPSE_SETTING_FLAG },                                                       \
            [BIAS] = { .name = "bias", .form = COPSE_SETTING_FLAG, .normal = { .count = 1 } },                             \
            [INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER },                                                \
            [SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 },                       \
        },                                                                                                                 \
        .takes = COPSE_F32,                                                                                                \
        .infer = recurrent_layers_infer,                                                                                   \
        .make = make_##layer,                                                                                              \
        .apply = apply_##layer,                                                                                            \
    }
KIND(gru);
KIND(lstm);
KIND(rnn);
