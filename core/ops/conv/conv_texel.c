/* SPDX-License-Identifier: MIT */
/* The launches of convolutions on devices with fast texels: channels in whole texels, in place or
   as padded copies. */
#include "core/ops/conv/conv.h"
#include "core/ops/ops.h"

#define MAX_ROUNDS 60000u /* of the loops of an invocation */

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static uint32_t conv_texel_texels(uint32_t channels)
{
    return divide_up(channels, 4);
}

/* A group has 8 lanes. 2^log neighbouring lanes compute different outputs, 8 each. */
static int32_t log_lanes(uint32_t outputs)
{
    return (outputs > 8) + (outputs > 16) + (outputs > 32);
}

/* `count` matrices [rows, cols] with rows of whole texels, and `rows_to` of them. */
static copse_status conv_texel_whole(struct copse_lowering *l, struct copse_operand x,
                                     uint32_t count, uint32_t rows, uint32_t rows_to, uint32_t cols,
                                     struct copse_operand *out)
{
    const struct copse_params_matmul_pad p = { rows, cols, rows_to, 4 * conv_texel_texels(cols),
                                               count };
    uint32_t gx, gy;
    *out = x;
    if (rows_to == rows && p.cols_to == cols)
        return COPSE_OK;
    copse__kernel_group(copse__limits(l), COPSE_KERNEL_matmul_pad, &gx, &gy);
    COPSE_TRY(copse__scratch(l, (uint64_t)count * rows_to * p.cols_to, out));
    return COPSE_LAUNCH(l, matmul_pad, NULL, p,
                        (uint64_t)count * divide_up(rows_to, gy) * divide_up(p.cols_to, 256), x,
                        *out);
}

/* Groups of conv_weight_texel for the gradient's rows and outputs. */
static uint64_t tiles_of(const struct copse_conv_geometry *of, int32_t log)
{
    const uint64_t pairs = divide_up(conv_texel_texels(of->in_channels), 2);
    return (uint64_t)divide_up(copse__conv_taps(of) * pairs, 8u >> log) *
           divide_up(of->out_channels, 8u << log);
}

static bool conv_texel_fits(const struct copse_limits *limits, const struct copse_conv_geometry *of)
{
    const uint64_t most = COPSE_MIN(limits->max_binding_bytes / 16, limits->max_texel_elements);
    const uint64_t x =
        (uint64_t)of->batch * of->h.in * of->w.in * conv_texel_texels(of->in_channels);
    const uint64_t y = (uint64_t)copse__conv_pixels(of) * conv_texel_texels(of->out_channels);
    const uint64_t weights = 4 * (uint64_t)copse__conv_taps(of) *
                             conv_texel_texels(of->in_channels) *
                             conv_texel_texels(of->out_channels);
    return of->groups == 1 && of->in_channels > 0 && x > 0 && x <= most && y <= most &&
           weights <= most;
}

bool copse__conv_fits_texel(const struct copse_limits *limits, const void *work)
{
    const struct copse_conv_geometry *of = &((const struct copse_conv *)work)->of;
    return conv_texel_fits(limits, of) &&
           (uint64_t)copse__conv_taps(of) * (conv_texel_texels(of->in_channels) + 2) <= MAX_ROUNDS;
}

copse_status copse__conv_lower_texel(struct copse_lowering *l, const void *work)
{
    const struct copse_conv *c = work;
    const struct copse_conv_geometry *of = &c->of;
    const struct copse_conv_axis *h = &of->h, *w = &of->w;
    const int32_t log = log_lanes(of->out_channels);
    const int32_t spec[COPSE_MAX_SPECS] = { c->bias != NULL, (int32_t)c->activation,
                                            copse__conv_has_gaps(of), log };
    const struct copse_params_conv_texel p = {
        .pixels = copse__conv_pixels(of),
        .in_h = h->in,
        .in_w = w->in,
        .in_t = conv_texel_texels(of->in_channels),
        .out_h = h->out,
        .out_w = w->out,
        .out_c = of->out_channels,
        .out_t = conv_texel_texels(of->out_channels),
        .taps_h = h->taps,
        .taps_w = w->taps,
        .stride_h = h->stride,
        .stride_w = w->stride,
        .step_h = h->step,
        .step_w = w->step,
        .first_h = h->first,
        .first_w = w->first,
        .gap_h = h->gap,
        .gap_w = w->gap,
        .taps_each = COPSE_CONV_TEXEL_TAPS(conv_texel_texels(of->in_channels)),
    };
    struct copse_operand x, weights;
    COPSE_TRY(conv_texel_whole(l, c->x, 1, of->batch * h->in * w->in, of->batch * h->in * w->in,
                               of->in_channels, &x));
    COPSE_TRY(conv_texel_whole(l, c->weights, copse__conv_taps(of), of->in_channels, 4 * p.in_t,
                               of->out_channels, &weights));
    const uint64_t groups =
        (uint64_t)divide_up(p.pixels, 64u >> log) * divide_up(p.out_c, 8u << log);
    return COPSE_LAUNCH(l, conv_texel, spec, p, groups, x, weights,
                        c->bias ? copse__of(c->bias) : c->weights, copse__of(c->y));
}

bool copse__conv_weight_fits_texel(const struct copse_limits *limits, const void *work)
{
    const struct copse_conv_geometry *of = &((const struct copse_conv_weight *)work)->of;
    return conv_texel_fits(limits, of) && !copse__conv_has_gaps(of) && of->w.out <= MAX_ROUNDS / 4;
}

struct copse_params_conv_weight_texel
copse__conv_weight_plan_texel(struct copse_lowering *l, const struct copse_conv_weight *c)
{
    /* Pixels of a part: dy and x of a usual part fit into the caches; more parts where tiles do not
       keep all processors busy. */
    enum { USUAL = 2048, SHORTEST = 256 };
    const struct copse_conv_geometry *of = &c->of;
    const struct copse_conv_axis *h = &of->h, *w = &of->w;
    struct copse_params_conv_weight_texel p = {
        .lines = of->batch * h->out,
        .in_h = h->in,
        .in_w = w->in,
        .in_c = of->in_channels,
        .in_t = conv_texel_texels(of->in_channels),
        .out_h = h->out,
        .out_w = w->out,
        .out_c = of->out_channels,
        .out_t = conv_texel_texels(of->out_channels),
        .taps_h = h->taps,
        .taps_w = w->taps,
        .stride_h = h->stride,
        .stride_w = w->stride,
        .step_h = h->step,
        .step_w = w->step,
        .first_h = h->first,
        .first_w = w->first,
    };
    const uint32_t pixels = copse__conv_pixels(of);
    uint32_t parts = COPSE_MIN(divide_up(pixels, SHORTEST),
                               divide_up(4 * (uint64_t)copse__limits(l)->compute_units,
                                         tiles_of(of, log_lanes(of->out_channels))));
    parts = COPSE_MIN(COPSE_MAX(parts, divide_up(pixels, USUAL)), p.lines);
    p.part = divide_up(p.lines, parts);
    p.parts = divide_up(p.lines, p.part);
    return p;
}

copse_status copse__conv_weight_launch_texel(struct copse_lowering *l,
                                             const struct copse_conv_weight *c,
                                             const struct copse_params_conv_weight_texel *p,
                                             struct copse_operand to)
{
    const struct copse_conv_geometry *of = &c->of;
    const int32_t log = log_lanes(of->out_channels), spec[COPSE_MAX_SPECS] = { log };
    const uint32_t pixels = of->batch * of->h.in * of->w.in;
    struct copse_operand x, dy;
    COPSE_TRY(conv_texel_whole(l, c->x, 1, pixels, pixels, of->in_channels, &x));
    COPSE_TRY(conv_texel_whole(l, c->dy, 1, copse__conv_pixels(of), copse__conv_pixels(of),
                               of->out_channels, &dy));
    return COPSE_LAUNCH(l, conv_weight_texel, spec, *p, p->parts * tiles_of(of, log), x, dy, to);
}
