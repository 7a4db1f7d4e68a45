/* SPDX-License-Identifier: MIT */
/* Layers that change the size of images and sequences: resize, adaptive pooling, pixel shuffle. */
#include "copse/ops/resize.h"
#include "core/graph/graph.h"
#include "core/nn/spatial.h"

#define MOST 16384u /* elements along an axis, as of copse_resize */

static copse_status check_axis(copse_layer *l, const char *what, uint64_t size)
{
    if (size >= 1 && size <= MOST)
        return COPSE_OK;
    return copse_layer_fail(l, COPSE_ERR_SHAPE,
                            "an axis of the %s has %llu elements; 1 to %u are possible", what,
                            (unsigned long long)size, MOST);
}

/* The axes of `shape` become `number` elements each, or as many times as large. */
static copse_status set_axes(copse_layer *l, struct copse_setting_value number, bool is_factor,
                             copse_shape *shape)
{
    uint32_t to[2];
    copse__layer_sides(number, to);
    COPSE_TRY(copse__layer_spatial(l, number, shape));
    for (uint32_t i = 0; i + 1 < shape->rank; i++) {
        const uint64_t size = (uint64_t)(is_factor ? shape->dims[i] : 1) * to[i];
        COPSE_TRY(check_axis(l, "input", shape->dims[i]));
        COPSE_TRY(check_axis(l, "output", size));
        shape->dims[i] = (uint32_t)size;
    }
    return COPSE_OK;
}

/* To the size of the output that set_axes inferred. */
static copse_tensor *resize_layers_resize(const copse_layer *l, copse_graph *g,
                                          struct copse_setting_value number, copse_tensor *x,
                                          copse_resize_kind kind)
{
    x = copse__layer_with_channels(g, number, x);
    return copse_resize(g, x, l->out.shape.dims, kind);
}

/* ---- resize ---- */

enum { KIND, SIZE, FACTOR };

static const char *const kinds[] = {
    [COPSE_RESIZE_NEAREST] = "nearest", [COPSE_RESIZE_LINEAR] = "linear", NULL
};

/* The one of size and factor that is given. */
static struct copse_setting_value number_of(const copse_layer *l)
{
    return l->value[SIZE].count ? l->value[SIZE] : l->value[FACTOR];
}

static copse_status infer_resize(copse_layer *l, struct copse_flow *f)
{
    const bool has_size = l->value[SIZE].count != 0, has_factor = l->value[FACTOR].count != 0;
    if (has_size == has_factor)
        return copse_layer_fail(l, COPSE_ERR_ARGUMENT,
                                has_size ? "size and factor are both given; write one of them"
                                         : "size=... or factor=... is missing");
    return set_axes(l, number_of(l), has_factor, &f->shape);
}

static copse_tensor *apply_resize(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                  copse_tensor *x)
{
    (void)in;
    return resize_layers_resize(l, g, number_of(l), x, (copse_resize_kind)l->value[KIND].count);
}

const struct copse_layer_kind copse__layer_resize = {
    .name = "resize",
    .setting = {
        [KIND] = { .name = "KIND", .form = COPSE_SETTING_CHOICE, .is_word = true, .names = kinds },
        [SIZE] = { .name = "size", .form = COPSE_SETTING_SIDES },
        [FACTOR] = { .name = "factor", .form = COPSE_SETTING_SIDES },
    },
    .takes = COPSE_F32,
    .infer = infer_resize,
    .apply = apply_resize,
};

/* ---- adaptive pooling ---- */

enum { POOL_SIZE };

static copse_status infer_adaptive(copse_layer *l, struct copse_flow *f)
{
    return set_axes(l, l->value[POOL_SIZE], false, &f->shape);
}

static copse_tensor *apply_adaptive(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                    copse_tensor *x)
{
    (void)in;
    return resize_layers_resize(l, g, l->value[POOL_SIZE], x, COPSE_RESIZE_AREA);
}

const struct copse_layer_kind copse__layer_adaptive_pool = {
    .name = "adaptive_pool",
    .setting = { [POOL_SIZE] = { .name = "SIZE",
                                 .form = COPSE_SETTING_SIDES,
                                 .is_word = true,
                                 .is_required = true } },
    .takes = COPSE_F32,
    .infer = infer_adaptive,
    .apply = apply_adaptive,
};

/* ---- pixel shuffle ---- */

enum { SHUFFLE_FACTOR };

static copse_status infer_shuffle(copse_layer *l, struct copse_flow *f)
{
    const uint64_t factor = l->value[SHUFFLE_FACTOR].count;
    uint32_t *dims = f->shape.dims;
    char text[96];
    if (f->shape.rank != 3 || copse__elements(f->shape) == 0)
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "the input %s is no image [height, width, channels] with elements",
                                copse__shape_text(f->shape, text));
    if (dims[2] % (factor * factor))
        return copse_layer_fail(l, COPSE_ERR_SHAPE,
                                "%u channels are not a multiple of %llu, the square of the factor",
                                (unsigned)dims[2], (unsigned long long)(factor * factor));
    for (uint32_t i = 0; i < 2; i++) {
        if (dims[i] * factor > INT32_MAX)
            return copse_layer_fail(
                l, COPSE_ERR_SHAPE,
                "an axis of the output has %llu elements; at most %d are possible",
                (unsigned long long)(dims[i] * factor), INT32_MAX);
        dims[i] *= (uint32_t)factor;
    }
    dims[2] /= (uint32_t)(factor * factor);
    return COPSE_OK;
}

static copse_tensor *apply_shuffle(const copse_layer *l, copse_graph *g, const copse_batch *in,
                                   copse_tensor *x)
{
    (void)in;
    return copse_pixel_shuffle(g, x, l->value[SHUFFLE_FACTOR].count);
}

const struct copse_layer_kind copse__layer_pixel_shuffle = {
    .name = "pixel_shuffle",
    .setting = { [SHUFFLE_FACTOR] = { .name = "FACTOR",
                                      .form = COPSE_SETTING_COUNT,
                                      .is_word = true,
                                      .is_required = true } },
    .takes = COPSE_F32,
    .infer = infer_shuffle,
    .apply = apply_shuffle,
};
