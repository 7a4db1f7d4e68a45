/* SPDX-License-Identifier: MIT */
/* Forms of the kernels of convolutions. */
#include "core/conformance/launch.h"
#include "copse/matmul.h"

enum { RESULT = COPSE_CONTENT_RESULT, VALUES = COPSE_CONTENT_VALUES };

#define OUT_H 3u
#define OUT_W 5u
#define OUT_C 4u
#define GROUP_OUT 2u

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static uint32_t extent(const struct copse_launch *l)
{
    return (uint32_t)copse__launch_extent(l, copse__launch_group(l));
}

/* Two groups, 3 x 2 taps, padding before and after; with gaps, the geometry of a gradient. */
static struct copse_params_conv geometry(const struct copse_launch *l, bool gaps, uint32_t group_in)
{
    return (struct copse_params_conv){
        .count = extent(l), .in_h = gaps ? 2 : 5, .in_w = gaps ? 3 : 4, .in_c = 2 * group_in,
        .out_h = OUT_H, .out_w = OUT_W, .out_c = OUT_C, .taps_h = 3, .taps_w = 2,
        .stride_h = gaps ? 1 : 2, .stride_w = 1, .step_h = gaps ? -1 : 1, .step_w = gaps ? -2 : 2,
        .first_h = gaps ? 1 : -1, .first_w = gaps ? 1 : -1, .gap_h = gaps ? 2 : 1, .gap_w = gaps ? 2 : 1,
        .group_in = group_in, .group_out = GROUP_OUT, .c_end = group_in,
    };
}

/* ---- conv ---- */

static void plan_conv(struct copse_launch *l)
{
    /* With few groups, chains of more than 256 additions. */
    const struct copse_params_conv p = geometry(l, l->spec[2], l->regime == COPSE_REGIME_FEW ? 300 : 2);
    const size_t images = divide_up(p.count, OUT_H * OUT_W * OUT_C);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * p.in_c, (size_t)p.taps_h * p.taps_w * p.group_in * OUT_C,
                      OUT_C, p.count);
}

/* The second part of a sum that is split over two launches: it adds to y, then bias and activation follow. */
static void plan_part(struct copse_launch *l)
{
    plan_conv(l);
    ((struct copse_params_conv *)(void *)l->params)->c_begin = 1;
}

/* ---- conv_weight ---- */

static void plan_weight(struct copse_launch *l)
{
    const struct copse_params_conv c = geometry(l, l->spec[0], 3);
    const uint32_t weights = c.taps_h * c.taps_w * c.group_in * OUT_C, parts = divide_up(c.count, weights);
    const uint32_t part = l->regime == COPSE_REGIME_FEW ? 600 : 7, pixels = parts * part - 3;
    const struct copse_params_conv_weight p = {
        .count = c.count, .pixels = pixels, .part = part, .weights = weights, .in_h = c.in_h, .in_w = c.in_w,
        .in_c = c.in_c, .out_h = OUT_H, .out_w = OUT_W, .out_c = OUT_C, .taps_w = c.taps_w, .stride_h = c.stride_h,
        .stride_w = c.stride_w, .step_h = c.step_h, .step_w = c.step_w, .first_h = c.first_h, .first_w = c.first_w,
        .gap_h = c.gap_h, .gap_w = c.gap_w, .group_in = c.group_in, .group_out = GROUP_OUT,
    };
    const size_t images = divide_up(pixels, OUT_H * OUT_W);
    COPSE_LAUNCH_PLAN(l, p, l->want, images * p.in_h * p.in_w * p.in_c, (size_t)pixels * OUT_C, p.count);
}

/* ---- the forms ---- */

/* Each addition to a subnormal sum may be off by half a ULP: 4 ULP for the sums of up to 7 products. */
#define FORM(kernel_, label, plan_, c2, c3, ...)                                                            \
    { .kernel = COPSE_KERNEL_##kernel_, .name = label, .contents = { VALUES, VALUES, c2, c3 }, .plan = plan_, \
      .limit = { .ulp = 4, .ratio = 16 }, .cap = 0x1p50f, .is_rare = true, .spec = { __VA_ARGS__ } }

static const struct copse_launch_form forms[] = {
    FORM(conv, "", plan_conv, VALUES, RESULT, 0),
    FORM(conv, "bias, relu", plan_conv, VALUES, RESULT, 1, COPSE_RELU),
    FORM(conv, "gaps", plan_conv, VALUES, RESULT, 0, 0, 1),
    FORM(conv, "second part", plan_part, VALUES, VALUES, 1, COPSE_RELU),
    FORM(conv_weight, "", plan_weight, RESULT, 0, 0),
    FORM(conv_weight, "gaps", plan_weight, RESULT, 0, 1),
};

const struct copse_launch_list copse_launch_convs = { forms, COPSE_COUNT(forms) };
