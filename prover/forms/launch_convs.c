/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of convolutions. */
#include "copse/matmul.h"
#include "core/device/kernel/divisor.h"
#include "core/ops/product/matmul_tile.h"
#include "prover/forms/lines.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };

#define OUT_H     3u
#define OUT_W     5u
#define OUT_C     4u
#define GROUP_OUT 2u

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static uint32_t convs_extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

/* Two groups, 3 x 2 taps, padding before and after; with gaps, the geometry of a gradient. */
static struct copse_params_conv convs_geometry(const struct copse_launch *l, bool gaps,
                                               uint32_t group_in)
{
    return (struct copse_params_conv){
        .count = convs_extent(l),
        .in_h = gaps ? 2 : 5,
        .in_w = gaps ? 3 : 4,
        .in_c = 2 * group_in,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = OUT_C,
        .taps_h = 3,
        .taps_w = 2,
        .stride_h = gaps ? 1 : 2,
        .stride_w = 1,
        .step_h = gaps ? -1 : 1,
        .step_w = gaps ? -2 : 2,
        .first_h = gaps ? 1 : -1,
        .first_w = gaps ? 1 : -1,
        .gap_h = gaps ? 2 : 1,
        .gap_w = gaps ? 2 : 1,
        .group_in = group_in,
        .group_out = GROUP_OUT,
        .c_end = group_in,
    };
}

/* ---- conv ---- */

static void plan_conv(struct copse_launch *l)
{
    /* With few groups, chains of more than 256 additions. */
    const struct copse_params_conv p =
        convs_geometry(l, l->spec[2], l->regime == COPSE_REGIME_FEW ? 300 : 2);
    const size_t images = divide_up(p.count, OUT_H * OUT_W * OUT_C);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * p.in_c,
                      (size_t)p.taps_h * p.taps_w * p.group_in * OUT_C, OUT_C, p.count);
}

/* The second part of a sum that is split over two launches: it adds to y, then bias and activation
   follow. */
static void plan_part(struct copse_launch *l)
{
    plan_conv(l);
    ((struct copse_params_conv *)(void *)l->params)->c_begin = 1;
}

/* ---- conv_weight ---- */

static void plan_weight(struct copse_launch *l)
{
    const struct copse_params_conv c = convs_geometry(l, l->spec[0], 3);
    const uint32_t weights = c.taps_h * c.taps_w * c.group_in * OUT_C,
                   parts = divide_up(c.count, weights);
    const uint32_t part = l->regime == COPSE_REGIME_FEW ? 600 : 7, pixels = parts * part - 3;
    const struct copse_params_conv_weight p = {
        .count = c.count,
        .pixels = pixels,
        .part = part,
        .weights = weights,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = c.in_c,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = OUT_C,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .gap_h = c.gap_h,
        .gap_w = c.gap_w,
        .group_in = c.group_in,
        .group_out = GROUP_OUT,
    };
    const size_t images = divide_up(pixels, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * p.in_c, (size_t)pixels * OUT_C,
                      p.count);
}

/* ---- wide vectors: one group, weights in place ---- */

static void plan_wide(struct copse_launch *l)
{
    const bool is_axis = l->regime == COPSE_REGIME_AXIS; /* whole tiles would take 100 MiB */
    const uint32_t width = 16u << l->spec[3], across = l->want > 1 && !is_axis ? 2 : 1,
                   down = divide_up(l->want, across);
    const uint32_t rows = l->spec[3] == 2 ? 6 : 12, in = l->regime == COPSE_REGIME_FEW ? 300 : 2,
                   out = across * width;
    const struct copse_params_conv c = convs_geometry(l, l->spec[2], in);
    const struct copse_params_conv_wide p = {
        .pixels = down * rows - rows / 3,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = in,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = is_axis ? 3 : out - (l->spec[0] ? 3 : 0),
        .taps_h = c.taps_h,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .gap_h = c.gap_h,
        .gap_w = c.gap_w,
        .group_in = in,
        .group_out = out,
        .panel = c.taps_h * c.taps_w * in * width,
        .step = width,
    };
    const size_t images = divide_up(p.pixels, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)across * down, images * p.in_h * p.in_w * in,
                      (size_t)across * p.panel, p.out_c, (size_t)p.pixels * p.out_c);
}

/* 3 x 3 taps with padding on lines of three tiles: all windows of the middle one lie inside of the
   image, but for its first and last line. With a bias, taps from the last one to the first, as in
   the gradient. */
static void plan_wide_lines(struct copse_launch *l)
{
    const uint32_t rows = 12, width = 16, in = 2;
    const int32_t step = l->spec[0] ? -1 : 1;
    const struct copse_params_conv_wide p = {
        .pixels = (uint32_t)l->want * rows - 4,
        .in_h = 3,
        .in_w = 3 * rows,
        .in_c = in,
        .out_h = 3,
        .out_w = 3 * rows,
        .out_c = 5,
        .taps_h = 3,
        .taps_w = 3,
        .stride_h = 1,
        .stride_w = 1,
        .step_h = step,
        .step_w = step,
        .first_h = -step,
        .first_w = -step,
        .gap_h = 1,
        .gap_w = 1,
        .group_in = in,
        .group_out = width,
        .panel = 9 * in * width,
        .step = width,
    };
    const size_t images = divide_up(p.pixels, (uint64_t)p.out_h * p.out_w);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * in, p.panel, p.out_c,
                      (size_t)p.pixels * p.out_c);
}

/* Two groups of channels, each of one panel of outputs. The weights are in place. */
static void plan_wide_groups(struct copse_launch *l)
{
    const uint32_t width = 16u << l->spec[3], down = divide_up(l->want, 2),
                   rows = l->spec[3] == 2 ? 6 : 12;
    const uint32_t in = l->regime == COPSE_REGIME_FEW ? 300 : 2, out = 2 * width;
    const struct copse_params_conv c = convs_geometry(l, l->spec[2], in);
    const struct copse_params_conv_wide p = {
        .pixels = down * rows - rows / 3,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = c.in_c,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = out,
        .taps_h = c.taps_h,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .gap_h = c.gap_h,
        .gap_w = c.gap_w,
        .group_in = in,
        .group_out = width,
        .panel = width,
        .step = out,
    };
    const size_t images = divide_up(p.pixels, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, 2 * (uint64_t)down, images * p.in_h * p.in_w * p.in_c,
                      (size_t)c.taps_h * c.taps_w * in * out, out, (size_t)p.pixels * out);
}

static void plan_weight_wide(struct copse_launch *l)
{
    const uint32_t width = 16u << l->spec[0], tile = l->spec[0] == 2 ? 6 : 12;
    /* an odd number of groups: a folded launch has surplus groups */
    const bool is_axis = l->regime == COPSE_REGIME_AXIS;
    const uint32_t in = l->want > 1 && !is_axis ? 4 : 1, out = is_axis ? 3 : width - 3;
    const struct copse_params_conv c = convs_geometry(l, false, in);
    const uint32_t rows = c.taps_h * c.taps_w * in, tiles = divide_up(rows, tile),
                   parts = divide_up(l->want, tiles);
    const uint32_t part = l->regime == COPSE_REGIME_FEW ? 600 : 7, pixels = parts * part - 3;
    const struct copse_params_conv_weight_wide p = {
        .pixels = pixels,
        .part = part,
        .parts = parts,
        .rows = rows,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = in,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = out,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .group_in = in,
        .group_out = out,
    };
    const size_t images = divide_up(pixels, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)parts * tiles, images * p.in_h * p.in_w * in,
                      (size_t)pixels * out, (size_t)parts * rows * out);
}

/* Two groups of channels, each of one panel of outputs. */
static void plan_weight_wide_groups(struct copse_launch *l)
{
    const uint32_t width = 16u << l->spec[0], tile = l->spec[0] == 2 ? 6 : 12, in = 4,
                   out = 2 * width;
    const struct copse_params_conv c = convs_geometry(l, false, in);
    const uint32_t rows = c.taps_h * c.taps_w * in, tiles = 2 * divide_up(rows, tile),
                   parts = divide_up(l->want, tiles);
    const uint32_t part = l->regime == COPSE_REGIME_FEW ? 600 : 7, pixels = parts * part - 3;
    const struct copse_params_conv_weight_wide p = {
        .pixels = pixels,
        .part = part,
        .parts = parts,
        .rows = rows,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = c.in_c,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = out,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .group_in = in,
        .group_out = width,
    };
    const size_t images = divide_up(pixels, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)parts * tiles, images * p.in_h * p.in_w * p.in_c,
                      (size_t)pixels * out, (size_t)parts * rows * out);
}

/* ---- texels: one group, channels in whole texels ---- */

static void plan_texel(struct copse_launch *l)
{
    const bool is_axis = l->regime == COPSE_REGIME_AXIS; /* whole tiles would take 100 MiB */
    const uint32_t width = 8u << l->spec[3], across = l->want > 1 && !is_axis ? 2 : 1,
                   down = divide_up(l->want, across);
    const uint32_t rows = 64u >> l->spec[3], in_t = l->regime == COPSE_REGIME_FEW ? 75 : 1;
    const uint32_t out = is_axis ? 1 : across * width - 3;
    const struct copse_params_conv c = convs_geometry(l, l->spec[2], 4 * in_t);
    const struct copse_params_conv_texel p = {
        .pixels = down * rows - rows / 3,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_t = in_t,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = out,
        .out_t = divide_up(out, 4),
        .taps_h = c.taps_h,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .gap_h = c.gap_h,
        .gap_w = c.gap_w,
        .taps_each = in_t < 64 ? 4 : 1,
    };
    const size_t images = divide_up(p.pixels, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)across * down, images * p.in_h * p.in_w * 4 * in_t,
                      (size_t)p.taps_h * p.taps_w * 16 * in_t * p.out_t, out,
                      (size_t)p.pixels * out);
}

static void plan_weight_texel(struct copse_launch *l)
{
    /* an odd number of groups: a folded launch has surplus groups */
    const bool is_axis = l->regime == COPSE_REGIME_AXIS;
    const uint32_t width = 8u << l->spec[0], tile = 8u >> l->spec[0],
                   in = l->want > 1 && !is_axis ? 11 : 1;
    const uint32_t in_t = divide_up(in, 4), out = is_axis ? 1 : width - 3;
    struct copse_params_conv c = convs_geometry(l, false, in);
    if (in == 1) { /* one tile of rows, inside of x */
        c.taps_h = c.taps_w = 1;
        c.first_h = 0;
    }
    const uint32_t tiles = divide_up(c.taps_h * c.taps_w * divide_up(in_t, 2), tile),
                   parts = divide_up(l->want, tiles);
    const uint32_t part = l->regime == COPSE_REGIME_FEW ? 120 : 2;
    const struct copse_params_conv_weight_texel p = {
        .lines = parts * part - 1,
        .part = part,
        .parts = parts,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = in,
        .in_t = in_t,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = out,
        .out_t = divide_up(out, 4),
        .taps_h = c.taps_h,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
    };
    const size_t images = divide_up(p.lines, OUT_H);
    COPSE_LAUNCH_PLAN(l, p, (uint64_t)parts * tiles, images * p.in_h * p.in_w * 4 * in_t,
                      (size_t)p.lines * OUT_W * 4 * p.out_t,
                      (size_t)parts * p.taps_h * p.taps_w * in * out);
}

/* ---- tiles ---- */

/* Groups of channels, and what each has: two columns of tiles where there are several, an odd edge
   on both sides, two parts if `has_parts`. */
struct tiled {
    uint32_t items, rows, cols, in;
    uint64_t groups;
};

static struct tiled tiled_of(const struct copse_launch *l, enum copse_tile_shape shape,
                             int32_t in_quads, uint32_t parts)
{
    const uint32_t want = divide_up(l->want, parts);
    struct tiled t = { .items = want > 4 ? 2 : 1, .in = in_quads % 2 ? 4 : 3 };
    uint32_t rows, cols;
    if (l->regime == COPSE_REGIME_FEW)
        t.in = 100; /* more than a chain */
    copse__tile_size(shape, copse__launch_group(l), &rows, &cols);
    if (l->regime == COPSE_REGIME_AXIS) { /* whole tiles would take 4 GiB */
        t.items = want;
        t.rows = 4;
        t.in = 1;
        t.cols = 3;
        t.groups = (uint64_t)parts * t.items;
        return t;
    }
    const uint32_t each = divide_up(want, t.items), across = each > 1 ? 2 : 1,
                   down = divide_up(each, across);
    t.rows = down * rows - rows / 3;
    t.cols = across * cols - cols / 3;
    t.cols = in_quads / 2 ? t.cols / 4 * 4 : t.cols | 1;
    t.groups = (uint64_t)parts * t.items * down * across;
    return t;
}

static void plan_tiles(struct copse_launch *l, uint32_t parts)
{
    const struct tiled t = tiled_of(l, (enum copse_tile_shape)l->spec[4], l->spec[5], parts);
    const struct copse_params_conv c = convs_geometry(l, l->spec[2] != 0, t.in);
    const uint32_t k = c.taps_h * c.taps_w * t.in, part = divide_up(divide_up(k, parts), 16) * 16;
    struct copse_params_conv_tile p = {
        .m = t.rows,
        .k = k,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = t.items * t.in,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = t.items * t.cols,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .gap_h = c.gap_h,
        .gap_w = c.gap_w,
        .group_in = t.in,
        .group_out = t.cols,
        .groups = t.items,
        .part = part,
        .parts = parts,
    };
    copse__divisor(p.group_in, &p.in_m, &p.in_by);
    copse__divisor(p.taps_w, &p.taps_m, &p.taps_by);
    const size_t images = divide_up(p.m, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, t.groups, images * p.in_h * p.in_w * p.in_c, (size_t)k * p.out_c,
                      p.out_c, (size_t)parts * p.m * p.out_c);
}

static void plan_tile(struct copse_launch *l)
{
    plan_tiles(l, 1);
}

static void plan_tile_parts(struct copse_launch *l)
{
    plan_tiles(l, 2);
}

/* The rows of a tile are taps and channels. */
static void plan_weight_tiles(struct copse_launch *l, uint32_t parts)
{
    const struct tiled t = tiled_of(l, (enum copse_tile_shape)l->spec[1], l->spec[2], parts);
    uint32_t rows, cols, in = COPSE_MAX(t.rows / 6, 1u);
    in = l->spec[2] % 2 ? COPSE_MAX(in / 4 * 4, 4u) : in;
    copse__tile_size((enum copse_tile_shape)l->spec[1], copse__launch_group(l), &rows, &cols);
    const struct copse_params_conv c = convs_geometry(l, l->spec[0] != 0, in);
    const uint32_t pixels = l->regime == COPSE_REGIME_FEW ? 600
                            : parts == 1                  ? 7
                                                          : 21 * parts,
                   m = c.taps_h * c.taps_w * in;
    struct copse_params_conv_weight_tile p = {
        .m = m,
        .k = pixels,
        .in_h = c.in_h,
        .in_w = c.in_w,
        .in_c = t.items * in,
        .out_h = OUT_H,
        .out_w = OUT_W,
        .out_c = t.items * t.cols,
        .taps_w = c.taps_w,
        .stride_h = c.stride_h,
        .stride_w = c.stride_w,
        .step_h = c.step_h,
        .step_w = c.step_w,
        .first_h = c.first_h,
        .first_w = c.first_w,
        .gap_h = c.gap_h,
        .gap_w = c.gap_w,
        .group_in = in,
        .group_out = t.cols,
        .groups = t.items,
        .part = divide_up(divide_up(pixels, parts), 16) * 16,
        .parts = parts,
    };
    copse__divisor(p.out_w, &p.line_m, &p.line_by);
    copse__divisor(p.out_h, &p.image_m, &p.image_by);
    const size_t images = divide_up(pixels, OUT_H * OUT_W);
    const uint64_t tiles = (uint64_t)t.items * divide_up(m, rows) * divide_up(t.cols, cols);
    COPSE_LAUNCH_PLAN(l, p, parts * tiles, images * p.in_h * p.in_w * p.in_c,
                      (size_t)pixels * p.out_c, (size_t)parts * m * p.out_c);
}

static void plan_weight_tile(struct copse_launch *l)
{
    plan_weight_tiles(l, 1);
}

static void plan_weight_tile_parts(struct copse_launch *l)
{
    plan_weight_tiles(l, 2);
}

/* ---- equal and lost terms ---- */

static void any_conv(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv *p = (const void *)l->params;
    copse__launch_any(l, words, p->in_c, p->out_c);
}

static void any_tile(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv_tile *p = (const void *)l->params;
    copse__launch_any(l, words, p->in_c, p->out_c);
}

static void any_wide(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv_wide *p = (const void *)l->params;
    copse__launch_any(l, words, p->in_c, p->step);
}

static void any_texel(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv_texel *p = (const void *)l->params;
    copse__launch_any(l, words, 4 * (size_t)p->in_t, 4 * (size_t)p->out_t);
}

/* The terms of a sum are pixels. */
static void any_weight(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv_weight *p = (const void *)l->params;
    copse__launch_any(l, words, l->counts[0], p->out_c);
}

static void any_weight_wide(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv_weight_wide *p = (const void *)l->params;
    copse__launch_any(l, words, l->counts[0], p->out_c);
}

static void any_weight_tile(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv_weight_tile *p = (const void *)l->params;
    copse__launch_any(l, words, l->counts[0], p->out_c);
}

static void any_weight_texel(const struct copse_launch *l, uint32_t *const *words)
{
    const struct copse_params_conv_weight_texel *p = (const void *)l->params;
    copse__launch_any(l, words, l->counts[0], 4 * (size_t)p->out_t);
}

/* ---- the forms ---- */

#define TWO_GROUPS                                                            \
    .no_regimes = COPSE_BIT(COPSE_REGIME_ONE) | COPSE_BIT(COPSE_REGIME_AXIS), \
    .why =                                                                    \
        "two groups of channels take several launch groups; the form with 16 outputs has as many"

#define FORM(kernel_, label, plan_, c2, c3, ...)                                                 \
    {                                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, VALUES, c2, c3 }, \
        .plan = plan_, .cap = 0x1p50f, .is_rare = true, .spec = {                                \
            __VA_ARGS__                                                                          \
        }                                                                                        \
    }

/* The other combinations of constants. */
#define SELDOM(kernel_, label, plan_, c2, c3, ...)                                               \
    {                                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, VALUES, c2, c3 }, \
        .plan = plan_, .cap = 0x1p50f, .is_rare = true, .least_group = 8,                        \
        .tier = COPSE_CONFORM_STANDARD, COPSE_FEW_ALONE, .spec = {                               \
            __VA_ARGS__                                                                          \
        }                                                                                        \
    }

/* A group of a kernel for texels has 8 invocations on every device. */
#define TEXEL(kernel_, label, plan_, c2, c3, ...)                                                \
    {                                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, VALUES, c2, c3 }, \
        .plan = plan_, .cap = 0x1p50f, .is_rare = true, .least_group = 8, .spec = {              \
            __VA_ARGS__                                                                          \
        }                                                                                        \
    }

#define TILE(kernel_, label, plan_, c2, c3, REGIMES, ...)                                        \
    {                                                                                            \
        .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, VALUES, c2, c3 }, \
        .plan = plan_, .cap = 0x1p50f, .is_rare = true, .least_group = COPSE_TILE_LEAST_GROUP,   \
        REGIMES, .spec = {                                                                       \
            __VA_ARGS__                                                                          \
        }                                                                                        \
    }
#define ODD .no_regimes = 0
#define QUADS                                   \
    .no_regimes = COPSE_BIT(COPSE_REGIME_AXIS), \
    .why = "forms with odd sizes have as many groups, and take less memory"
#define PARTS                                                                 \
    .no_regimes = COPSE_BIT(COPSE_REGIME_ONE) | COPSE_BIT(COPSE_REGIME_AXIS), \
    .why = "two parts have two groups; forms with odd sizes have more than an axis"

#define ANY(kernel_, plan_, arrange_, c2, c3, lanes, ...)                           \
    {                                                                               \
        .kernel = COPSE_KERNEL_##kernel_, .name = "any terms",                      \
        .contents = { VALUES, VALUES, c2, c3 }, .plan = plan_, .arrange = arrange_, \
        .is_proven = true, .cap = 0x1p15f, .is_rare = true, .least_group = lanes,   \
        .no_values = COPSE_ALL_VALUES & ~1u,                                        \
        .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW),             \
        .why = "launches of few groups have the longest sums", .spec = {            \
            __VA_ARGS__                                                             \
        }                                                                           \
    }

static const struct copse_launch_form forms[] = {
    FORM(conv, "", plan_conv, VALUES, RESULT, 0),
    FORM(conv, "bias, relu", plan_conv, VALUES, RESULT, 1, COPSE_RELU),
    FORM(conv, "gaps", plan_conv, VALUES, RESULT, 0, 0, 1),
    SELDOM(conv, "relu", plan_conv, VALUES, RESULT, 0, COPSE_RELU),
    SELDOM(conv, "bias", plan_conv, VALUES, RESULT, 1),
    SELDOM(conv, "relu, gaps", plan_conv, VALUES, RESULT, 0, COPSE_RELU, 1),
    SELDOM(conv, "bias, gaps", plan_conv, VALUES, RESULT, 1, 0, 1),
    SELDOM(conv, "bias, relu, gaps", plan_conv, VALUES, RESULT, 1, COPSE_RELU, 1),
    FORM(conv, "second part", plan_part, VALUES, VALUES, 1, COPSE_RELU),
    FORM(conv_weight, "", plan_weight, RESULT, 0, 0),
    FORM(conv_weight, "gaps", plan_weight, RESULT, 0, 1),
    FORM(conv_wide, "16 outputs", plan_wide, VALUES, RESULT, 0),
    FORM(conv_wide, "64 outputs, bias, relu", plan_wide, VALUES, RESULT, 1, COPSE_RELU, 0, 2),
    FORM(conv_wide, "gaps", plan_wide, VALUES, RESULT, 0, 0, 1),
    FORM(conv_wide, "lines of three tiles", plan_wide_lines, VALUES, RESULT, 0),
    FORM(conv_wide, "lines of three tiles, from the last tap", plan_wide_lines, VALUES, RESULT, 1),
    SELDOM(conv_wide, "relu", plan_wide, VALUES, RESULT, 0, COPSE_RELU),
    SELDOM(conv_wide, "bias", plan_wide, VALUES, RESULT, 1),
    SELDOM(conv_wide, "relu, gaps", plan_wide, VALUES, RESULT, 0, COPSE_RELU, 1),
    SELDOM(conv_wide, "bias, gaps", plan_wide, VALUES, RESULT, 1, 0, 1),
    SELDOM(conv_wide, "bias, relu, gaps", plan_wide, VALUES, RESULT, 1, COPSE_RELU, 1),
    { .kernel = COPSE_KERNEL_conv_wide,
      .name = "two groups",
      .contents = { VALUES, VALUES, VALUES, RESULT },
      .plan = plan_wide_groups,
      .cap = 0x1p50f,
      .is_rare = true,
      TWO_GROUPS },
    { .kernel = COPSE_KERNEL_conv_weight_wide,
      .name = "two groups",
      .contents = { VALUES, VALUES, RESULT },
      .plan = plan_weight_wide_groups,
      .cap = 0x1p50f,
      .is_rare = true,
      TWO_GROUPS },
    FORM(conv_weight_wide, "16 outputs", plan_weight_wide, RESULT, 0, 0),
    FORM(conv_weight_wide, "64 outputs", plan_weight_wide, RESULT, 0, 2),
    TEXEL(conv_texel, "32 outputs", plan_texel, VALUES, RESULT, 0, 0, 0, 2),
    TEXEL(conv_texel, "64 outputs, bias, relu", plan_texel, VALUES, RESULT, 1, COPSE_RELU, 0, 3),
    TEXEL(conv_texel, "16 outputs, gaps", plan_texel, VALUES, RESULT, 0, 0, 1, 1),
    SELDOM(conv_texel, "relu", plan_texel, VALUES, RESULT, 0, COPSE_RELU, 0, 2),
    SELDOM(conv_texel, "bias", plan_texel, VALUES, RESULT, 1, 0, 0, 2),
    SELDOM(conv_texel, "relu, gaps", plan_texel, VALUES, RESULT, 0, COPSE_RELU, 1, 2),
    SELDOM(conv_texel, "bias, gaps", plan_texel, VALUES, RESULT, 1, 0, 1, 2),
    SELDOM(conv_texel, "bias, relu, gaps", plan_texel, VALUES, RESULT, 1, COPSE_RELU, 1, 2),
    TEXEL(conv_weight_texel, "8 outputs", plan_weight_texel, RESULT, 0, 0),
    TEXEL(conv_weight_texel, "64 outputs", plan_weight_texel, RESULT, 0, 3),
    TILE(conv_tile, "large", plan_tile, VALUES, RESULT, QUADS, 0, 0, 0, 0, COPSE_TILE_LARGE, 3),
    TILE(conv_tile, "large, odd, gaps", plan_tile, VALUES, RESULT, ODD, 0, 0, 1, 0,
         COPSE_TILE_LARGE, 0),
    TILE(conv_tile, "small, bias, relu", plan_tile, VALUES, RESULT, ODD, 1, COPSE_RELU, 0, 0,
         COPSE_TILE_SMALL, 0),
    TILE(conv_tile, "small, whole", plan_tile, VALUES, RESULT, QUADS, 0, 0, 0, 0, COPSE_TILE_SMALL,
         3),
    TILE(conv_tile, "flat, gaps", plan_tile, VALUES, RESULT, QUADS, 0, 0, 1, 0, COPSE_TILE_FLAT, 1),
    TILE(conv_tile, "thin, bias", plan_tile, VALUES, RESULT, QUADS, 1, 0, 0, 0, COPSE_TILE_THIN, 2),
    TILE(conv_tile, "large, turned", plan_tile, VALUES, RESULT, QUADS, 0, 0, 0, 1, COPSE_TILE_LARGE,
         3),
    TILE(conv_tile, "small, turned, odd, gaps", plan_tile, VALUES, RESULT, ODD, 0, 0, 1, 1,
         COPSE_TILE_SMALL, 0),
    TILE(conv_tile, "parts", plan_tile_parts, VALUES, RESULT, PARTS, 0, 0, 0, 0, COPSE_TILE_SMALL,
         3),
    ANY(conv_tile, plan_tile, any_tile, VALUES, RESULT, COPSE_TILE_LEAST_GROUP, 1, 0, 0, 0,
        COPSE_TILE_LARGE, 3),
    TILE(conv_weight_tile, "large", plan_weight_tile, RESULT, 0, QUADS, 0, COPSE_TILE_LARGE, 3),
    TILE(conv_weight_tile, "large, odd, gaps", plan_weight_tile, RESULT, 0, ODD, 1,
         COPSE_TILE_LARGE, 0),
    TILE(conv_weight_tile, "small, odd", plan_weight_tile, RESULT, 0, ODD, 0, COPSE_TILE_SMALL, 0),
    TILE(conv_weight_tile, "small, gaps", plan_weight_tile, RESULT, 0, QUADS, 1, COPSE_TILE_SMALL,
         3),
    TILE(conv_weight_tile, "flat", plan_weight_tile, RESULT, 0, QUADS, 0, COPSE_TILE_FLAT, 1),
    TILE(conv_weight_tile, "thin", plan_weight_tile, RESULT, 0, QUADS, 0, COPSE_TILE_THIN, 2),
    TILE(conv_weight_tile, "parts", plan_weight_tile_parts, RESULT, 0, PARTS, 0, COPSE_TILE_SMALL,
         3),
    ANY(conv_weight_tile, plan_weight_tile, any_weight_tile, RESULT, 0, COPSE_TILE_LEAST_GROUP, 0,
        COPSE_TILE_LARGE, 3),
    ANY(conv, plan_conv, any_conv, VALUES, RESULT, 0, 1),
    ANY(conv_wide, plan_wide, any_wide, VALUES, RESULT, 0, 1),
    ANY(conv_texel, plan_texel, any_texel, VALUES, RESULT, 8, 1, 0, 0, 2),
    ANY(conv_weight, plan_weight, any_weight, RESULT, 0, 0, 0),
    ANY(conv_weight_wide, plan_weight_wide, any_weight_wide, RESULT, 0, 0, 0),
    ANY(conv_weight_texel, plan_weight_texel, any_weight_texel, RESULT, 0, 8, 0),
};

/* ---- the lines that an invocation, or a group, walks ---- */

#define COMBINED \
    "products: modes run and grad have the combinations of operands, bias and activation"
#define PRODUCTS "sums of products: no case here; mode stress has chains of 70,001"

static const struct copse_launch_line lines[] = {
    COPSE_NO_LINE(conv, PRODUCTS),
    COPSE_NO_LINE(conv_weight, PRODUCTS),
    COPSE_NO_LINE(conv_wide, PRODUCTS),
    COPSE_NO_LINE(conv_weight_wide, PRODUCTS),
    COPSE_NO_LINE(conv_tile, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(conv_weight_tile, PRODUCTS, .no_flags = COMBINED),
    COPSE_NO_LINE(conv_texel, PRODUCTS),
    COPSE_NO_LINE(conv_weight_texel, PRODUCTS),
};

const struct copse_launch_list copse_launch_convs = { forms, COPSE_COUNT(forms), lines,
                                                      COPSE_COUNT(lines) };
