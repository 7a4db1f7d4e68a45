/* SPDX-License-Identifier: MIT */
/* Layers with windows on images and sequences: convolution, transposed convolution, pooling. */
#include <math.h>

#include "copse/ops.h"
#include "copse/ops/conv.h"
#include "copse/ops/pool.h"
#include "core/graph/graph.h"
#include "core/nn/spatial.h"

/* ---- windows ---- */

#define MOST_PLACES (1u << 30) /* elements along an axis, as of copse_conv */

struct window {
    uint32_t sides[2], stride[2], dilation[2];
    bool is_padded;
};

static copse_status conv_layers_slide(copse_layer *l, const struct window *w, copse_shape *shape)
{
    for (uint32_t i = 0; i + 1 < shape->rank; i++) {
        const uint64_t span = (uint64_t)(w->sides[i] - 1) * w->dilation[i] + 1,
                       size = shape->dims[i];
        if (size == 0 || (!w->is_padded && span > size))
            return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                    "the window spans %llu elements, the input has %llu",
                                    (unsigned long long)span, (unsigned long long)size);
        shape->dims[i] = (uint32_t)((w->is_padded ? size - 1 : size - span) / w->stride[i] + 1);
    }
    return COPSE_OK;
}

/* ---- convolution ---- */

enum { UNITS, WINDOW, ACTIVATION, STRIDE, DILATION, GROUPS, PADDING, BIAS, INIT, SCALE };

static struct window conv_window(const copse_layer *l)
{
    struct window w = { .is_padded = l->value[PADDING].count != 0 };
    copse__layer_sides(l->value[WINDOW], w.sides);
    copse__layer_sides(l->value[STRIDE], w.stride);
    copse__layer_sides(l->value[DILATION], w.dilation);
    return w;
}

/* `places` changes the spatial axes. */
static copse_status infer_with(copse_layer *l, struct copse_flow *f,
                               copse_status (*places)(copse_layer *, const struct window *,
                                                      copse_shape *))
{
    const struct window w = conv_window(l);
    const uint32_t groups = l->value[GROUPS].count,
                   units = l->value[UNITS].count ? l->value[UNITS].count : f->outputs;
    COPSE_TRY(copse__layer_spatial(l, l->value[WINDOW], &f->shape));
    uint32_t *channels = &f->shape.dims[f->shape.rank - 1];
    if (units == 0)
        return copse_layer_fail(l, COPSE_ERR_ARGUMENT,
                                "`out` is the number of outputs, and copse_layer_build got none");
    if (*channels == 0 || *channels % groups || units % groups)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "%u groups do not divide %u input and %u output channels", groups,
                                *channels, units);
    COPSE_TRY(places(l, &w, &f->shape));
    *channels = units;
    return COPSE_OK;
}

static copse_status infer_conv(copse_layer *l, struct copse_flow *f)
{
    return infer_with(l, f, conv_layers_slide);
}

/* `gain` is a factor of the initial values of the weight, of its window and shape. */
static copse_status make_with(copse_layer *l, const struct copse_layer_maker *m,
                              double (*gain)(const struct window *,
                                             const struct copse_variable_params *))
{
    const copse_activation a = (copse_activation)l->value[ACTIVATION].count;
    const uint32_t units = l->out.shape.dims[l->out.shape.rank - 1];
    const struct window w = conv_window(l);
    copse_shape in = l->in.shape;
    COPSE_TRY(copse__layer_spatial(l, l->value[WINDOW], &in));
    const uint32_t channels = in.dims[in.rank - 1] / l->value[GROUPS].count;
    struct copse_variable_params weight = {
        .shape = in.rank == 3 ? COPSE_SHAPE(w.sides[0], w.sides[1], channels, units)
                              : COPSE_SHAPE(w.sides[0], channels, units)
    };
    const struct copse_variable_params bias = { .shape = COPSE_SHAPE(units) };
    copse__setting_initialize(l->value[INIT], copse__layer_initializer(a), l->value[SCALE].number,
                              &weight);
    if (gain)
        weight.scale =
            (float)((weight.scale == 0.0f ? 1.0 : (double)weight.scale) * gain(&w, &weight));
    COPSE_TRY(copse__layer_variable(l, m, 0, "weight", &weight));
    return l->value[BIAS].count ? copse__layer_variable(l, m, 1, "bias", &bias) : COPSE_OK;
}

static copse_status make_conv(copse_layer *l, const struct copse_layer_maker *m)
{
    return make_with(l, m, NULL);
}

typedef copse_tensor *conv_op(copse_graph *, copse_tensor *, copse_tensor *, copse_tensor *,
                              const struct copse_conv_params *);

static copse_tensor *apply_op(const copse_layer *l, copse_graph *g, copse_tensor *x, conv_op *op)
{
    const struct window w = conv_window(l);
    const struct copse_conv_params p = {
        .stride = { w.stride[0], w.stride[1] },
        .dilation = { w.dilation[0], w.dilation[1] },
        .padding = w.is_padded ? COPSE_PADDING_SAME : COPSE_PADDING_EXPLICIT,
        .groups = l->value[GROUPS].count,
        .activation = (copse_activation)l->value[ACTIVATION].count,
    };
    x = copse__layer_with_channels(g, l->value[WINDOW], x);
    return op(g, x, copse__layer_tensor(l, 0), copse__layer_tensor(l, 1), &p);
}

static copse_tensor *apply_conv(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                copse_tensor *x)
{
    (void)in;
    return apply_op(l, g, x, copse_conv);
}

/* ---- transposed convolution ---- */

/* As copse_conv_transposed: each element of the input becomes a window of the output. */
static copse_status conv_layers_spread(copse_layer *l, const struct window *w, copse_shape *shape)
{
    for (uint32_t i = 0; i + 1 < shape->rank; i++) {
        const uint64_t span = (uint64_t)(w->sides[i] - 1) * w->dilation[i] + 1,
                       size = shape->dims[i];
        if (size == 0)
            return copse_layer_fail(l, COPSE_ERR_SHAPE, "an axis of the input is empty");
        const uint64_t places =
            w->is_padded ? size * w->stride[i] : (size - 1) * w->stride[i] + span;
        if (places > MOST_PLACES)
            return copse_layer_fail(
                l, COPSE_ERR_SHAPE,
                "an axis of the output has %llu elements; at most %u are possible",
                (unsigned long long)places, MOST_PLACES);
        shape->dims[i] = (uint32_t)places;
    }
    return COPSE_OK;
}

/* An output element reads taps / stride input elements along an axis, not all taps: fan_in is
   smaller than that of the shape by these strides. */
static double gain_transposed(const struct window *w, const struct copse_variable_params *weight)
{
    const copse_shape s = weight->shape;
    const double in = s.dims[s.rank - 2], out = s.dims[s.rank - 1];
    double strides = 1;
    for (uint32_t i = 0; i + 2 < s.rank; i++)
        strides *= COPSE_MIN(w->stride[i], w->sides[i]);
    return weight->initializer == COPSE_INIT_HE_NORMAL ? sqrt(strides)
           : weight->initializer == COPSE_INIT_GLOROT_UNIFORM
               ? sqrt((in + out) / (in / strides + out))
               : 1.0;
}

static copse_status infer_transposed(copse_layer *l, struct copse_flow *f)
{
    return infer_with(l, f, conv_layers_spread);
}

static copse_status make_transposed(copse_layer *l, const struct copse_layer_maker *m)
{
    return make_with(l, m, gain_transposed);
}

static copse_tensor *apply_transposed(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                      copse_tensor *x)
{
    (void)in;
    return apply_op(l, g, x, copse_conv_transposed);
}

#define CONV(label, suffix) \
    {                       \
        .name = label, \
        .setting = { \
            [UNITS] = { .name = "UNITS", .form = COPSE_SETTING_UNITS, .is_word = true, .is_required = true }, \
            [WINDOW] = { .name = "WINDOW", .form = COPSE_SETTING_SIDES, .is_word = true, .is_required = true }, \
            [ACTIVATION] = { .name = "ACTIVATION", .form = COPSE_SETTING_CHOICE, .is_word = true, \
                             .names = copse__activation_names }, \
            [STRIDE] = { .name = "stride", .form = COPSE_SETTING_SIDES, .normal = { .count = 1 } }, \
            [DILATION] = { .name = "dilation", .form = COPSE_SETTING_SIDES, .normal = { .count = 1 } }, \
            [GROUPS] = { .name = "groups", .form = COPSE_SETTING_COUNT, .normal = { .count = 1 } }, \
            [PADDING] = { .name = "padding", .form = COPSE_SETTING_FLAG, .normal = { .count = 1 } }, \
            [BIAS] = { .name = "bias", .form = COPSE_SETTING_FLAG, .normal = { .count = 1 } }, \
            [INIT] = { .name = "init", .form = COPSE_SETTING_INITIALIZER }, \
            [SCALE] = { .name = "scale", .form = COPSE_SETTING_NUMBER, .low = 1e-30, .high = 1e30 }, \
        }, \
        .takes = COPSE_F32, \
        .infer = infer_##suffix, \
        .make = make_##suffix, \
        .apply = apply_##suffix,    \
    }
const struct copse_layer_kind copse__layer_conv = CONV("conv", conv),
                              copse__layer_conv_transposed = CONV("conv_transposed", transposed);

/* ---- pooling ---- */

enum { POOL_WINDOW, POOL_STRIDE, POOL_PADDING };

static struct window pool_window(const copse_layer *l)
{
    struct window w = { .dilation = { 1, 1 }, .is_padded = l->value[POOL_PADDING].count != 0 };
    copse__layer_sides(l->value[POOL_WINDOW], w.sides);
    copse__layer_sides(l->value[POOL_STRIDE].count ? l->value[POOL_STRIDE] : l->value[POOL_WINDOW],
                       w.stride);
    return w;
}

static copse_status infer_pool(copse_layer *l, struct copse_flow *f)
{
    const struct window w = pool_window(l);
    COPSE_TRY(copse__layer_spatial(l, l->value[POOL_WINDOW], &f->shape));
    return conv_layers_slide(l, &w, &f->shape);
}

static copse_tensor *apply_pool(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                copse_tensor *x)
{
    const struct window w = pool_window(l);
    const struct copse_pool_params p = { .window = { w.sides[0], w.sides[1] },
                                         .stride = { w.stride[0], w.stride[1] },
                                         .padding = w.is_padded ? COPSE_PADDING_SAME
                                                                : COPSE_PADDING_EXPLICIT };
    (void)in;
    x = copse__layer_with_channels(g, l->value[POOL_WINDOW], x);
    return l->kind == &copse__layer_max_pool ? copse_max_pool(g, x, &p)
                                             : copse_average_pool(g, x, &p);
}

#define POOL(label)                                                                                          \
    {                                                                                                        \
        .name = label,                                                                                     \
        .setting = {                                                                                       \
            [POOL_WINDOW] = { .name = "WINDOW", .form = COPSE_SETTING_SIDES, .is_word = true, .is_required = true }, \
            [POOL_STRIDE] = { .name = "stride", .form = COPSE_SETTING_SIDES },                             \
            [POOL_PADDING] = { .name = "padding", .form = COPSE_SETTING_FLAG },                            \
        },                                                                                                 \
        .takes = COPSE_F32,                                                                                \
        .infer = infer_pool,                                                                               \
        .apply = apply_pool, \
    }
const struct copse_layer_kind copse__layer_max_pool = POOL("max_pool"),
                              copse__layer_average_pool = POOL("average_pool");

/* ---- the mean over all places ---- */

static copse_status infer_global(copse_layer *l, struct copse_flow *f)
{
    char text[96];
    const uint32_t rank = f->shape.rank;
    if (rank < 2 || copse__elements(f->shape) == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input %s has no channels of several places",
                                copse__shape_text(f->shape, text));
    f->shape = COPSE_SHAPE(f->shape.dims[rank - 1]);
    return COPSE_OK;
}

static copse_tensor *apply_global(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                  copse_tensor *x)
{
    static const uint32_t axes[COPSE_MAX_RANK] = { 1, 2, 3, 4, 5 };
    (void)l, (void)in;
    return copse_mean(g, x, axes, copse_tensor_shape(x).rank - 2, false);
}

const struct copse_layer_kind copse__layer_global_pool = {
    .name = "global_pool",
    .takes = COPSE_F32,
    .infer = infer_global,
    .apply = apply_global,
};
