/* SPDX-License-Identifier: MIT */
/* The gradient of the weights of a convolution: a sum over the pixels of dy, in parts of fixed
   order that a second pass adds. */
#include <stdio.h>

#include "core/ops/conv/conv.h"
#include "core/ops/ops.h"
#include "core/ops/product/precision.h"

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

/* ---- launches ---- */

/* Where the sums of `parts` parts go. */
static copse_status parts_begin(struct copse_lowering *l, const copse_tensor *dw, uint32_t parts,
                                struct copse_operand *to)
{
    *to = copse__of(dw);
    return parts > 1 ? copse__scratch(l, parts * copse__elements(dw->shape), to) : COPSE_OK;
}

static copse_status parts_end(struct copse_lowering *l, const copse_tensor *dw, uint32_t parts,
                              struct copse_operand from)
{
    return parts > 1
               ? copse__lower_reduce(l, COPSE_AXIS_SUM, 1, parts,
                                     (uint32_t)copse__elements(dw->shape), from, copse__of(dw))
               : COPSE_OK;
}

static copse_status lower_plain(struct copse_lowering *l, const void *work)
{
    /* Invocations that keep a device busy; the shortest and the longest part, whose pixels are the
       rounds of a loop. */
    enum { ENOUGH = 65536, SHORTEST = 256, LONGEST = 16384 };
    const struct copse_conv_weight *c = work;
    const struct copse_conv_geometry *of = &c->of;
    const uint32_t pixels = copse__conv_pixels(of),
                   weights = (uint32_t)copse__elements(c->dw->shape);
    uint32_t parts = COPSE_MIN(divide_up(pixels, SHORTEST), divide_up(ENOUGH, weights));
    parts = COPSE_MAX(parts, divide_up(pixels, LONGEST));
    const uint32_t part = divide_up(pixels, parts);
    parts = divide_up(pixels, part);
    const int32_t spec[COPSE_MAX_SPECS] = { copse__conv_has_gaps(of) };
    const struct copse_params_conv_weight p = {
        .count = parts * weights,
        .pixels = pixels,
        .part = part,
        .weights = weights,
        .gap_h = of->h.gap,
        .gap_w = of->w.gap,
        COPSE_CONV_SIZES(of),
    };
    struct copse_operand to;
    COPSE_TRY(parts_begin(l, c->dw, parts, &to));
    COPSE_TRY(COPSE_LAUNCH(l, conv_weight, spec, p,
                           copse__groups_for(l, COPSE_KERNEL_conv_weight, p.count), c->x, c->dy,
                           to));
    return parts_end(l, c->dw, parts, to);
}

static copse_status lower_wide(struct copse_lowering *l, const void *work)
{
    /* Pixels of a part: dy and x of a usual part fit into the caches; more parts where tiles do not
       keep all processors busy. */
    enum { USUAL = 2048, SHORTEST = 256 };
    const struct copse_conv_weight *c = work;
    const struct copse_conv_geometry *of = &c->of;
    const int32_t log_vectors = copse__conv_log_vectors(of);
    const uint32_t pixels = copse__conv_pixels(of),
                   rows = copse__conv_taps(of) * (of->in_channels / of->groups);
    const uint32_t tiles = divide_up(rows, COPSE_CONV_WIDE_ROWS(log_vectors)) *
                           divide_up(of->out_channels, 16u << log_vectors);
    uint32_t parts = COPSE_MIN(divide_up(pixels, SHORTEST),
                               divide_up(4 * (uint64_t)copse__limits(l)->compute_units, tiles));
    parts = COPSE_MAX(parts, divide_up(pixels, USUAL));
    const uint32_t part = divide_up(pixels, parts);
    parts = divide_up(pixels, part);
    const int32_t spec[COPSE_MAX_SPECS] = { log_vectors };
    const struct copse_params_conv_weight_wide p = {
        .pixels = pixels,
        .part = part,
        .parts = parts,
        .rows = rows,
        COPSE_CONV_SIZES(of),
    };
    struct copse_operand to;
    COPSE_TRY(parts_begin(l, c->dw, parts, &to));
    COPSE_TRY(COPSE_LAUNCH(l, conv_weight_wide, spec, p, (uint64_t)parts * tiles, c->x, c->dy, to));
    return parts_end(l, c->dw, parts, to);
}

static bool fits_wide(const struct copse_limits *limits, const void *work)
{
    const struct copse_conv_geometry *of = &((const struct copse_conv_weight *)work)->of;
    (void)limits;
    return !copse__conv_has_gaps(of) &&
           (of->groups == 1 || of->out_channels / of->groups % 16 == 0);
}

static copse_status lower_texel(struct copse_lowering *l, const void *work)
{
    const struct copse_conv_weight *c = work;
    const struct copse_params_conv_weight_texel p = copse__conv_weight_plan_texel(l, c);
    struct copse_operand to;
    COPSE_TRY(parts_begin(l, c->dw, p.parts, &to));
    COPSE_TRY(copse__conv_weight_launch_texel(l, c, &p, to));
    return parts_end(l, c->dw, p.parts, to);
}

static copse_status lower_tile(struct copse_lowering *l, const void *work)
{
    const struct copse_conv_weight *c = work;
    const uint32_t parts = copse__conv_weight_tile_parts(copse__limits(l), c);
    struct copse_operand to;
    COPSE_TRY(parts_begin(l, c->dw, parts, &to));
    COPSE_TRY(copse__conv_weight_launch_tile(l, c, to));
    return parts_end(l, c->dw, parts, to);
}

/* ---- the family ---- */

static const struct copse_variant variants[] = {
    { "plain", COPSE_KERNEL_conv_weight, { 0, 1, 1, 1 }, .lower = lower_plain },
    { "wide",
      COPSE_KERNEL_conv_weight_wide,
      { 1, 0, 2, 2 },
      .fits = fits_wide,
      .lower = lower_wide },
    { "texel",
      COPSE_KERNEL_conv_weight_texel,
      { 2, 2, 0, 3 },
      .fits = copse__conv_weight_fits_texel,
      .lower = lower_texel,
      COPSE_NEEDS(COPSE_KERNEL_matmul_pad) },
    { "tile",
      COPSE_KERNEL_conv_weight_tile,
      { COPSE_ON_GPUS_ONLY, 0 },
      .fits = copse__conv_weight_fits_tile,
      .lower = lower_tile },
};

static bool conv_weight_size(const void *work, struct copse_size *out)
{
    const struct copse_conv_weight *c = work;
    copse__conv_size(&c->of, out);
    return copse__conv_pixels(&c->of) > 0 && c->of.in_channels > 0;
}

static void conv_weight_job(const struct copse_size *at, struct copse_tune_job *j)
{
    const struct copse_conv_weight c = { .of = copse__conv_job(at, j) };
    COPSE_JOB_WORK(j, c);
    j->in[1] = COPSE_SHAPE(8, 14, 14, c.of.out_channels);
}

static copse_tensor *conv_weight_build(copse_graph *g, const struct copse_tune_job *j,
                                       copse_tensor *const *in)
{
    const struct copse_conv_geometry *of = &((const struct copse_conv_weight *)j->work)->of;
    return copse__conv_weight(g, of, COPSE_SHAPE(3, 3, of->in_channels, of->out_channels), in[0],
                              in[1]);
}

const struct copse_family copse_family_conv_weight = {
    .name = "conv_weight",
    COPSE_VARIANTS(variants),
    .sizes = { { COPSE_CONV_CHANNELS }, { COPSE_CONV_CHANNELS } },
    .size = conv_weight_size,
    .job = conv_weight_job,
    .build = conv_weight_build,
};

/* ---- the op ---- */

static copse_status conv_weight_infer(const copse_tensor *dw, copse_shape *shape, copse_type *type)
{
    *shape = ((const struct copse_conv_attr *)dw->attr)->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status conv_weight_lower(struct copse_lowering *l, const copse_tensor *dw)
{
    struct copse_conv_weight c = { ((const struct copse_conv_attr *)dw->attr)->of,
                                   copse__of(dw->in[0]), copse__of(dw->in[1]), dw };
    if (copse__elements(dw->shape) == 0)
        return COPSE_OK;
    if (copse__conv_pixels(&c.of) == 0)
        return copse__lower_fill(l, dw, 0);
    COPSE_TRY(copse__widen(l, &c.x));
    COPSE_TRY(copse__widen(l, &c.dy));
    return copse__lower_variant(l, &copse_family_conv_weight, &c);
}

const struct copse_op copse_op_conv_weight = {
    .name = "conv_weight",
    .attr_size = sizeof(struct copse_conv_attr),
    .infer = conv_weight_infer,
    .lower = conv_weight_lower,
    .takes_stored = true,
};

copse_tensor *copse__conv_weight(copse_graph *g, const struct copse_conv_geometry *of,
                                 copse_shape shape, copse_tensor *x, copse_tensor *dy)
{
    const struct copse_conv_attr a = { *of, shape, false };
    return COPSE_NODE(g, &copse_op_conv_weight, &a, x, dy);
}
