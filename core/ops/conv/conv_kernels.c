/* SPDX-License-Identifier: MIT */
/* References and self-tests of the kernels of convolutions. */
#include "core/device/kernel/sum_bound.h"
#include "core/ops/conv/conv.h"
#include "core/ops/product/product.h"
#include "core/ops/self_tests.h"

/* ---- references ---- */

/* Weights in panels of `width` outputs; a row of weights is `step` after the one before. */
static double convolve_at(const struct copse_params_conv *p, size_t width, size_t panel,
                          size_t step, const int32_t *spec, const struct copse_host_arg *args,
                          size_t i)
{
    const size_t pixel = i / p->out_c, o = i % p->out_c, line = pixel / p->out_w,
                 image = line / p->out_h;
    const size_t channel = o / p->group_out * p->group_in;
    double sum = 0;
    for (size_t tap = 0; tap < (size_t)p->taps_h * p->taps_w; tap++) {
        const int64_t a = (int64_t)(tap / p->taps_w), b = (int64_t)(tap % p->taps_w);
        size_t h, w;
        if (!copse__conv_element((int64_t)(line % p->out_h * p->stride_h) + a * p->step_h +
                                     p->first_h,
                                 p->gap_h, p->in_h, &h) ||
            !copse__conv_element((int64_t)(pixel % p->out_w * p->stride_w) + b * p->step_w +
                                     p->first_w,
                                 p->gap_w, p->in_w, &w))
            continue;
        const size_t from = ((image * p->in_h + h) * p->in_w + w) * p->in_c + channel;
        for (size_t c = p->c_begin; c < p->c_end; c++)
            sum += copse__load(&args[0], from + c) *
                   copse__load(&args[1],
                               o / width * panel + (tap * p->group_in + c) * step + o % width);
    }
    if (p->c_begin > 0)
        sum += copse__load(&args[3], i);
    return p->c_end == p->group_in
               ? copse__activate(spec[1], spec[0] ? sum + copse__load(&args[2], o) : sum)
               : sum;
}

static double conv_at(const void *params, const int32_t *spec, const struct copse_host_arg *args,
                      size_t place)
{
    const struct copse_params_conv *p = params;
    return convolve_at(p, p->out_c, 0, p->out_c, spec, args, place);
}

static void conv_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_conv *p = params;
    for (size_t i = 0; i < p->count; i++)
        copse__store(&args[3], i, conv_at(params, spec, args, i));
}

/* A pixel of x has `in` elements, one of dy `out`. */
static double weight_at(const struct copse_params_conv_weight *p, size_t in, size_t out,
                        const struct copse_host_arg *args, size_t place)
{
    const size_t weight = place % p->weights, row = weight / p->out_c, o = weight % p->out_c,
                 tap = row / p->group_in;
    const size_t channel = o / p->group_out * p->group_in + row % p->group_in;
    const size_t begin = place / p->weights * p->part, end = COPSE_MIN(begin + p->part, p->pixels);
    const int64_t a = (int64_t)(tap / p->taps_w), b = (int64_t)(tap % p->taps_w);
    double sum = 0;
    for (size_t pixel = begin, last; pixel < end; pixel = last) { /* a line at a time */
        const size_t line = pixel / p->out_w, image = line / p->out_h;
        size_t h, w;
        last = COPSE_MIN((line + 1) * p->out_w, end);
        if (!copse__conv_element((int64_t)(line % p->out_h * p->stride_h) + a * p->step_h +
                                     p->first_h,
                                 p->gap_h, p->in_h, &h))
            continue;
        const size_t in_line = (image * p->in_h + h) * p->in_w;
        for (; pixel < last; pixel++)
            if (copse__conv_element((int64_t)((pixel - line * p->out_w) * p->stride_w) +
                                        b * p->step_w + p->first_w,
                                    p->gap_w, p->in_w, &w))
                sum += copse__load(&args[0], (in_line + w) * in + channel) *
                       copse__load(&args[1], pixel * out + o);
    }
    return sum;
}

static double conv_weight_at(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_conv_weight *p = params;
    (void)spec;
    return weight_at(p, p->in_c, p->out_c, args, place);
}

static void conv_weight_host(const void *params, const int32_t *spec,
                             const struct copse_host_arg *args)
{
    const struct copse_params_conv_weight *p = params;
    for (size_t i = 0; i < p->count; i++)
        copse__store(&args[2], i, conv_weight_at(params, spec, args, i));
}

/* ---- self-tests: two images of 5 x 4, two groups of 3 channels to 2; those of wide vectors have
   one group ---- */

#define IN_C  6u
#define OUT_C 4u

static struct copse_conv_geometry conv_kernels_geometry(bool gaps, uint32_t in, uint32_t out,
                                                        uint32_t groups)
{
    struct copse_conv_geometry of = {
        2, in, out, groups, { 5, 3, 3, 2, 1, 1, -1 }, { 4, 4, 2, 1, 1, 2, -1 }
    };
    if (gaps) {
        of.h = (struct copse_conv_axis){ 5, 9, 3, 1, 2, -1, 1 };
        of.w = (struct copse_conv_axis){ 4, 7, 2, 1, 2, -2, 1 };
    }
    return of;
}

/* Sums where activations are not flat. */
static void conv_kernels_soften(struct copse_self_test *t, int32_t activation)
{
    if (activation < COPSE_SIGMOID)
        return;
    t->slack = COPSE_SELF_TEST_SLACK;
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++)
        copse__test_set(t, 0, i, (float)((int)(7 * i + i / 9) % 9 - 4) / 64.0f);
}

static void conv_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_conv_geometry of = conv_kernels_geometry(k->spec[2] != 0, IN_C, OUT_C, 2);
    const struct copse_params_conv p = {
        .count = copse__conv_pixels(&of) * OUT_C,
        .taps_h = of.h.taps,
        .gap_h = of.h.gap,
        .gap_w = of.w.gap,
        .c_end = 3,
        COPSE_CONV_SIZES(&of),
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), 2 * 5 * 4 * IN_C, 3 * 2 * 3 * OUT_C,
                    OUT_C, p.count);
    conv_kernels_soften(t, k->spec[1]);
}

static void conv_weight_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_conv_geometry of = conv_kernels_geometry(k->spec[0] != 0, IN_C, OUT_C, 2);
    const uint32_t pixels = copse__conv_pixels(&of);
    const struct copse_params_conv_weight p = {
        .count = 2 * 72,
        .pixels = pixels,
        .part = pixels - 7,
        .weights = 72,
        .gap_h = of.h.gap,
        .gap_w = of.w.gap,
        COPSE_CONV_SIZES(&of),
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), 2 * 5 * 4 * IN_C, pixels * OUT_C,
                    p.count);
}

#define SAME_SIZES(p)                                                                           \
    .in_h = (p)->in_h, .in_w = (p)->in_w, .in_c = (p)->in_c, .out_h = (p)->out_h,               \
    .out_w = (p)->out_w, .out_c = (p)->out_c, .taps_w = (p)->taps_w, .stride_h = (p)->stride_h, \
    .stride_w = (p)->stride_w, .step_h = (p)->step_h, .step_w = (p)->step_w,                    \
    .first_h = (p)->first_h, .first_w = (p)->first_w, .group_in = (p)->group_in,                \
    .group_out = (p)->group_out

static double conv_wide_at(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_conv_wide *p = params;
    const struct copse_params_conv plain = { .taps_h = p->taps_h,
                                             .gap_h = p->gap_h,
                                             .gap_w = p->gap_w,
                                             .c_end = p->group_in,
                                             SAME_SIZES(p) };
    return convolve_at(&plain, (size_t)16 << spec[3], p->panel, p->step, spec, args, place);
}

static void conv_wide_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_conv_wide *p = params;
    for (size_t i = 0; i < (size_t)p->pixels * p->out_c; i++)
        copse__store(&args[3], i, conv_wide_at(params, spec, args, i));
}

static void conv_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t out = 16u << k->spec[3], rows = COPSE_CONV_WIDE_ROWS(k->spec[3]);
    const struct copse_conv_geometry of = conv_kernels_geometry(k->spec[2] != 0, 3, out, 1);
    const struct copse_params_conv_wide p = {
        .pixels = COPSE_MIN(copse__conv_pixels(&of), 31u),
        .taps_h = of.h.taps,
        .gap_h = of.h.gap,
        .gap_w = of.w.gap,
        .panel = out,
        .step = out,
        COPSE_CONV_SIZES(&of),
    };
    COPSE_SELF_TEST(t, p, (p.pixels + rows - 1) / rows, 2 * 5 * 4 * 3, 3 * 2 * 3 * out, out,
                    p.pixels * out);
    conv_kernels_soften(t, k->spec[1]);
}

static double conv_weight_wide_at(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_conv_weight_wide *p = params;
    const struct copse_params_conv_weight plain = { .pixels = p->pixels,
                                                    .part = p->part,
                                                    .weights = p->rows * p->out_c,
                                                    .gap_h = 1,
                                                    .gap_w = 1,
                                                    SAME_SIZES(p) };
    return conv_weight_at(&plain, spec, args, place);
}

static void conv_weight_wide_host(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args)
{
    const struct copse_params_conv_weight_wide *p = params;
    for (size_t i = 0; i < (size_t)p->parts * p->rows * p->out_c; i++)
        copse__store(&args[2], i, conv_weight_wide_at(params, spec, args, i));
}

static void conv_weight_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    /* The last panel of outputs is partly used. */
    const uint32_t out = (16u << k->spec[0]) - 3, rows = 3 * 2 * 3,
                   tile = COPSE_CONV_WIDE_ROWS(k->spec[0]);
    const struct copse_conv_geometry of = conv_kernels_geometry(false, 3, out, 1);
    const struct copse_params_conv_weight_wide p = {
        .pixels = 24,
        .part = 24,
        .parts = 1,
        .rows = rows,
        COPSE_CONV_SIZES(&of),
    };
    COPSE_SELF_TEST(t, p, (rows + tile - 1) / tile, 2 * 5 * 4 * 3, p.pixels * out, rows * out);
}

/* ---- texels: pixels and rows of weights in whole texels ---- */

static double conv_texel_at(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_conv_texel *p = params;
    const struct copse_params_conv plain = {
        .in_h = p->in_h,
        .in_w = p->in_w,
        .in_c = 4 * p->in_t,
        .out_h = p->out_h,
        .out_w = p->out_w,
        .out_c = p->out_c,
        .taps_h = p->taps_h,
        .taps_w = p->taps_w,
        .stride_h = p->stride_h,
        .stride_w = p->stride_w,
        .step_h = p->step_h,
        .step_w = p->step_w,
        .first_h = p->first_h,
        .first_w = p->first_w,
        .gap_h = p->gap_h,
        .gap_w = p->gap_w,
        .group_in = 4 * p->in_t,
        .group_out = p->out_c,
        .c_end = 4 * p->in_t,
    };
    return convolve_at(&plain, p->out_c, 0, 4 * (size_t)p->out_t, spec, args, place);
}

static void conv_texel_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_conv_texel *p = params;
    for (size_t i = 0; i < (size_t)p->pixels * p->out_c; i++)
        copse__store(&args[3], i, conv_texel_at(params, spec, args, i));
}

static void conv_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    /* The last texel of outputs is partly used. */
    const uint32_t out = (8u << k->spec[3]) - 3, out_t = (out + 3) / 4, rows = 64u >> k->spec[3];
    const struct copse_conv_geometry of = conv_kernels_geometry(k->spec[2] != 0, 4, out, 1);
    const struct copse_params_conv_texel p = {
        .pixels = COPSE_MIN(copse__conv_pixels(&of), 31u),
        .in_h = of.h.in,
        .in_w = of.w.in,
        .in_t = 1,
        .out_h = of.h.out,
        .out_w = of.w.out,
        .out_c = out,
        .out_t = out_t,
        .taps_h = of.h.taps,
        .taps_w = of.w.taps,
        .stride_h = of.h.stride,
        .stride_w = of.w.stride,
        .step_h = of.h.step,
        .step_w = of.w.step,
        .first_h = of.h.first,
        .first_w = of.w.first,
        .gap_h = of.h.gap,
        .gap_w = of.w.gap,
        .taps_each = 4,
    };
    COPSE_SELF_TEST(t, p, (p.pixels + rows - 1) / rows, 2 * 5 * 4 * 4, 3 * 2 * 4 * 4 * out_t, out,
                    p.pixels * out);
    conv_kernels_soften(t, k->spec[1]);
}

static double conv_weight_texel_at(const void *params, const int32_t *spec,
                                   const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_conv_weight_texel *p = params;
    const struct copse_params_conv_weight plain = {
        .pixels = p->lines * p->out_w,
        .part = p->part * p->out_w,
        .weights = p->taps_h * p->taps_w * p->in_c * p->out_c,
        .gap_h = 1,
        .gap_w = 1,
        .in_h = p->in_h,
        .in_w = p->in_w,
        .out_h = p->out_h,
        .out_w = p->out_w,
        .out_c = p->out_c,
        .taps_w = p->taps_w,
        .stride_h = p->stride_h,
        .stride_w = p->stride_w,
        .step_h = p->step_h,
        .step_w = p->step_w,
        .first_h = p->first_h,
        .first_w = p->first_w,
        .group_in = p->in_c,
        .group_out = p->out_c,
    };
    (void)spec;
    return weight_at(&plain, 4 * (size_t)p->in_t, 4 * (size_t)p->out_t, args, place);
}

static void conv_weight_texel_host(const void *params, const int32_t *spec,
                                   const struct copse_host_arg *args)
{
    const struct copse_params_conv_weight_texel *p = params;
    for (size_t i = 0; i < (size_t)p->parts * p->taps_h * p->taps_w * p->in_c * p->out_c; i++)
        copse__store(&args[2], i, conv_weight_texel_at(params, spec, args, i));
}

static void conv_weight_texel_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t out = (8u << k->spec[0]) - 3, out_t = (out + 3) / 4, tile = 8u >> k->spec[0],
                   in = 5, in_t = 2;
    const struct copse_conv_geometry of = conv_kernels_geometry(false, in, out, 1);
    const struct copse_params_conv_weight_texel p = {
        .lines = 2 * of.h.out,
        .part = 2 * of.h.out,
        .parts = 1,
        .in_h = of.h.in,
        .in_w = of.w.in,
        .in_c = in,
        .in_t = in_t,
        .out_h = of.h.out,
        .out_w = of.w.out,
        .out_c = out,
        .out_t = out_t,
        .taps_h = of.h.taps,
        .taps_w = of.w.taps,
        .stride_h = of.h.stride,
        .stride_w = of.w.stride,
        .step_h = of.h.step,
        .step_w = of.w.step,
        .first_h = of.h.first,
        .first_w = of.w.first,
    };
    const uint32_t rows = of.h.taps * of.w.taps;
    COPSE_SELF_TEST(t, p, p.parts * ((rows + tile - 1) / tile), 2 * 5 * 4 * 4 * in_t,
                    copse__conv_pixels(&of) * 4 * out_t, p.parts * rows * in * out);
}

/* ---- laws ---- */

static struct copse_elements conv_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv *p = params;
    (void)spec;
    return (struct copse_elements){ p->count,
                                    (uint64_t)p->taps_h * p->taps_w * (p->c_end - p->c_begin) };
}

static struct copse_elements conv_wide_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_wide *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->pixels * p->out_c,
                                    (uint64_t)p->taps_h * p->taps_w * p->group_in };
}

static struct copse_elements conv_weight_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_weight *p = params;
    (void)spec;
    return (struct copse_elements){ p->count, p->part };
}

static struct copse_elements conv_weight_wide_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_weight_wide *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->parts * p->rows * p->out_c, p->part };
}

static struct copse_elements conv_texel_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_texel *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->pixels * p->out_c,
                                    4 * (uint64_t)p->taps_h * p->taps_w * p->in_t };
}

static struct copse_elements conv_weight_texel_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_weight_texel *p = params;
    (void)spec;
    return (struct copse_elements){ (uint64_t)p->parts * p->taps_h * p->taps_w * p->in_c * p->out_c,
                                    (uint64_t)p->part * p->out_w };
}

/* Without activation. */
static void conv_magnitudes(int32_t *spec)
{
    spec[1] = COPSE_LINEAR;
}

/* ---- roundings ---- */

/* A chain ends where the next terms, which are of one tap, would make it longer than 256: two
   chains that follow each other have more terms together. */
static uint64_t conv_wide_roundings(uint64_t terms)
{
    return COPSE_MIN(terms, COPSE_SUM_CHAIN) + 2 * (terms / (COPSE_SUM_CHAIN + 1));
}

/* A launch has at least 27,232 terms, if there are so many. */
static uint64_t conv_roundings(uint64_t terms)
{
    return conv_wide_roundings(terms) + terms / 27232;
}

/* Texels that are not full: a chain has at least 64 terms. */
static uint64_t conv_texel_roundings(uint64_t terms)
{
    if (terms == 0)
        return 0;
    return COPSE_MIN(terms, COPSE_SUM_CHAIN) +
           (terms + COPSE_SUM_CHAIN / 4 - 1) / (COPSE_SUM_CHAIN / 4) - 1;
}

static uint64_t conv_weight_roundings(uint64_t terms)
{
    return copse__sum_levels(terms, UINT64_MAX, terms);
}

static struct copse_sum conv_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_conv *p = params;
    return copse__sum_of(conv_roundings((uint64_t)p->taps_h * p->taps_w * (p->c_end - p->c_begin)),
                         p->c_begin > 0, spec);
}

static struct copse_sum conv_wide_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_wide *p = params;
    return copse__sum_of(conv_wide_roundings((uint64_t)p->taps_h * p->taps_w * p->group_in), false,
                         spec);
}

/* Chains of whole taps, or of 64 texels of one. */
static struct copse_sum conv_texel_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_texel *p = params;
    const uint64_t taps = (uint64_t)p->taps_h * p->taps_w, terms = taps * 4 * p->in_t,
                   most = COPSE_SUM_CHAIN / 4;
    if (terms == 0)
        return (struct copse_sum){ 0, 1 };
    const uint64_t chains =
        (taps + p->taps_each - 1) / p->taps_each * ((p->in_t + most - 1) / most);
    return copse__sum_of(COPSE_MIN(terms, COPSE_SUM_CHAIN) + chains - 1, false, spec);
}

static struct copse_sum conv_weight_sum(const void *params, const int32_t *spec)
{
    (void)spec;
    return (struct copse_sum){
        conv_weight_roundings(((const struct copse_params_conv_weight *)params)->part), 1
    };
}

static struct copse_sum conv_weight_wide_sum(const void *params, const int32_t *spec)
{
    (void)spec;
    return (struct copse_sum){
        conv_weight_roundings(((const struct copse_params_conv_weight_wide *)params)->part), 1
    };
}

static struct copse_sum conv_weight_texel_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_weight_texel *p = params;
    (void)spec;
    return (struct copse_sum){ conv_texel_roundings((uint64_t)p->part * p->out_w), 1 };
}

const struct copse_law copse_law_conv = {
    .host = conv_host,
    .at = conv_at,
    .elements = conv_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .magnitudes = conv_magnitudes,
    .roundings = conv_roundings,
    .sum = conv_sum,
    .self_test = conv_test,
};
const struct copse_law copse_law_conv_weight = {
    .host = conv_weight_host,
    .at = conv_weight_at,
    .elements = conv_weight_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .roundings = conv_weight_roundings,
    .sum = conv_weight_sum,
    .self_test = conv_weight_test,
};
const struct copse_law copse_law_conv_wide = {
    .host = conv_wide_host,
    .at = conv_wide_at,
    .elements = conv_wide_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .magnitudes = conv_magnitudes,
    .roundings = conv_wide_roundings,
    .sum = conv_wide_sum,
    .self_test = conv_wide_test,
};
const struct copse_law copse_law_conv_weight_wide = {
    .host = conv_weight_wide_host,
    .at = conv_weight_wide_at,
    .elements = conv_weight_wide_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .roundings = conv_weight_roundings,
    .sum = conv_weight_wide_sum,
    .self_test = conv_weight_wide_test,
};
const struct copse_law copse_law_conv_texel = {
    .host = conv_texel_host,
    .at = conv_texel_at,
    .elements = conv_texel_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .magnitudes = conv_magnitudes,
    .roundings = conv_texel_roundings,
    .sum = conv_texel_sum,
    .self_test = conv_texel_test,
};
const struct copse_law copse_law_conv_weight_texel = {
    .host = conv_weight_texel_host,
    .at = conv_weight_texel_at,
    .elements = conv_weight_texel_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .roundings = conv_texel_roundings,
    .sum = conv_weight_texel_sum,
    .self_test = conv_weight_texel_test,
};
