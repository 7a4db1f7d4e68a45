/* SPDX-License-Identifier: MIT */
/* Convolutions as launches. */
#ifndef COPSE_CORE_OPS_CONV_H
#define COPSE_CORE_OPS_CONV_H

#include "copse/ops/conv.h"
#include "core/graph/op.h"
#include "core/graph/variant.h"

/* Along a spatial axis a tap reads x at the element with element * gap = position * stride + tap *
   step + first; nothing where there is no such element. `first` is at least -2^30, and all values
   of that sum are below 2^31. */
struct copse_conv_axis {
    uint32_t in, out, taps, stride, gap;
    int32_t step, first;
};

/* elements of a spatial axis, and what a window spans */
#define COPSE_MAX_AXIS   ((1u << 30) - 2 * COPSE_MAX_NUMBER)
#define COPSE_MAX_NUMBER 65535u /* strides, dilations and padding */

/* Windows along an axis. */
struct copse_window {
    /* at least 1; `before` and `after` only if not is_same */
    uint32_t taps, stride, dilation, before, after;
    bool is_same;
};

/* The geometry of y's windows on `size` elements; `first` is at most 0. COPSE_ERR_SHAPE in the name
   of y (conv_axis.c). */
copse_status copse__conv_axis(const copse_tensor *y, const struct copse_window *of, uint64_t size,
                              struct copse_conv_axis *axis);
/* COPSE_ERR_ARGUMENT if a number is larger than COPSE_MAX_NUMBER. */
copse_status copse__check_numbers(const char *op, const char *what, const uint32_t numbers[2]);

/* y[batch, h.out, w.out, out_channels] from x[batch, h.in, w.in, in_channels] and
   weights[h.taps, w.taps, in_channels / groups, out_channels]. */
struct copse_conv_geometry {
    uint32_t batch, in_channels, out_channels, groups;
    struct copse_conv_axis h, w;
};

struct copse_conv {
    struct copse_conv_geometry of;
    copse_activation activation;     /* up to COPSE_TANH */
    struct copse_operand x, weights; /* f32, or tensors of 16 bits until copse__widen */
    const copse_tensor *bias, *y;    /* bias: NULL = none */
    /* this is the gradient of a convolution, and the weights have the shape of that convolution:
       [taps, taps, out_channels / groups, in_channels] */
    bool is_turned;
};

/* The gradient of the weights from x and dy. */
struct copse_conv_weight {
    struct copse_conv_geometry of;
    struct copse_operand x, dy; /* f32, or tensors of 16 bits until copse__widen */
    const copse_tensor *dw;
};

static inline bool copse__conv_has_gaps(const struct copse_conv_geometry *of)
{
    return of->h.gap != 1 || of->w.gap != 1;
}

static inline uint32_t copse__conv_taps(const struct copse_conv_geometry *of)
{
    return of->h.taps * of->w.taps;
}

/* Of y. */
static inline uint32_t copse__conv_pixels(const struct copse_conv_geometry *of)
{
    return of->batch * of->h.out * of->w.out;
}

/* The element of an axis at a place, which counts the gaps between elements, too; false: there is
   none. For references. */
static inline bool copse__conv_element(int64_t place, uint32_t gap, uint32_t size, size_t *at)
{
    *at = gap == 1 ? (size_t)place : (size_t)(place / gap); /* most have no gaps */
    return place >= 0 && (gap == 1 || place % gap == 0) && *at < size;
}

/* Parameters that all kernels have. */
#define COPSE_CONV_SIZES(of_)                                                                    \
    .in_h = (of_)->h.in, .in_w = (of_)->w.in, .in_c = (of_)->in_channels, .out_h = (of_)->h.out, \
    .out_w = (of_)->w.out, .out_c = (of_)->out_channels, .taps_w = (of_)->w.taps,                \
    .stride_h = (of_)->h.stride, .stride_w = (of_)->w.stride, .step_h = (of_)->h.step,           \
    .step_w = (of_)->w.step, .first_h = (of_)->h.first, .first_w = (of_)->w.first,               \
    .group_in = (of_)->in_channels / (of_)->groups,                                              \
    .group_out = (of_)->out_channels / (of_)->groups

/* The tile of the kernels for wide vectors: outputs, 16 << log of them, and pixels or rows of
   weights. */
static inline int32_t copse__conv_log_vectors(const struct copse_conv_geometry *of)
{
    const uint32_t out = of->out_channels / of->groups;
    return of->groups == 1 ? (out > 16) + (out > 32) : (out % 32 == 0) + (out % 64 == 0);
}
#define COPSE_CONV_WIDE_ROWS(log_vectors) ((log_vectors) == 2 ? 6u : 12u)

/* Taps whose sums form a chain in conv_texel. */
#define COPSE_CONV_TEXEL_TAPS(in_t) ((in_t) < 64u ? 64u / (in_t) : 1u)

/* Launches on devices with fast texels (conv_texel.c). The gradient of the weights writes sums of
   `parts` parts. */
bool copse__conv_fits_texel(const struct copse_limits *limits, const void *work);
copse_status copse__conv_lower_texel(struct copse_lowering *l, const void *work);
bool copse__conv_weight_fits_texel(const struct copse_limits *limits, const void *work);
struct copse_params_conv_weight_texel
copse__conv_weight_plan_texel(struct copse_lowering *l, const struct copse_conv_weight *c);
copse_status copse__conv_weight_launch_texel(struct copse_lowering *l,
                                             const struct copse_conv_weight *c,
                                             const struct copse_params_conv_weight_texel *p,
                                             struct copse_operand to);

/* Launches in tiles on GPUs (conv_tile.c). The gradient of the weights writes sums of `parts`
   parts. */
bool copse__conv_fits_tile(const struct copse_limits *limits, const void *work);
copse_status copse__conv_lower_tile(struct copse_lowering *l, const void *work);
bool copse__conv_weight_fits_tile(const struct copse_limits *limits, const void *work);
uint32_t copse__conv_weight_tile_parts(const struct copse_limits *limits,
                                       const struct copse_conv_weight *c);
copse_status copse__conv_weight_launch_tile(struct copse_lowering *l,
                                            const struct copse_conv_weight *c,
                                            struct copse_operand to);

/* Tuning (conv_tune.c): channels of x and of y for each group, and the geometry of a job; it sets
   all of the job but `work` and in[1]. */
#define COPSE_CONV_CHANNELS 4, 32, 128
void copse__conv_size(const struct copse_conv_geometry *of, struct copse_size *out);
struct copse_conv_geometry copse__conv_job(const struct copse_size *at, struct copse_tune_job *j);

/* A node of a bilinear sum of x and weights, or of x and dy, and the shape of its result.
   is_turned: as in struct copse_conv. */
struct copse_conv_attr {
    struct copse_conv_geometry of;
    copse_shape shape;
    uint32_t is_turned;
};

/* The convolution of x with weights in any shape, as a tensor of `shape`; and dx from the weights
   and dy (conv_variants.c). */
copse_tensor *copse__conv_by(copse_graph *g, const struct copse_conv_geometry *of,
                             copse_shape shape, copse_tensor *x, copse_tensor *weights,
                             bool is_turned);
copse_tensor *copse__conv_input(copse_graph *g, const struct copse_conv_geometry *of,
                                const copse_tensor *x, copse_tensor *weights, copse_tensor *dy);

/* Add the gradient of the weights, as a tensor of `shape` (conv_weight_variants.c). */
extern const struct copse_op copse_op_conv_weight;
COPSE_PRIVATE copse_tensor *copse__conv_weight(copse_graph *g, const struct copse_conv_geometry *of,
                                               copse_shape shape, copse_tensor *x,
                                               copse_tensor *dy);

#endif
