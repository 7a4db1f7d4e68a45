/* SPDX-License-Identifier: MIT */
/* Convolutions as products in tiles, for GPUs: the launches and the laws of the kernels.
   matmul_tile.h chooses tiles and parts; the rows of a product are pixels, its columns the outputs
   of a group, its terms taps and channels. */
#include "core/device/kernel/divisor.h"
#include "core/device/kernel/sum_bound.h"
#include "core/ops/conv/conv.h"
#include "core/ops/ops.h"
#include "core/ops/product/matmul_tile.h"
#include "core/ops/self_tests.h"

/* Fewer outputs of a group use a quarter of a tile at most, and are left to `conv`. */
#define LEAST_OUTPUTS 8u

/* Twice the rounds of loops of matmul_tile: a chain may be summed again. Two parts of fewer than 512
   terms would not save the time of the launch that adds them. */
static const struct copse_tile_split conv_split = { 512, 8192, 16 };
/* Gradients of few weights are sums over many pixels. */
static const struct copse_tile_split weight_split = { COPSE_SUM_CHAIN, 8192, 128 };

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

static bool has_elements(const struct copse_conv_geometry *of)
{
    return (uint64_t)of->batch * of->h.in * of->w.in * of->in_channels > 0;
}

static int32_t conv_in_quads(const struct copse_conv_geometry *of)
{
    return (of->in_channels / of->groups % 4 == 0) + 2 * (of->out_channels / of->groups % 4 == 0);
}

/* ---- the convolution ---- */

static uint64_t conv_terms(const struct copse_conv_geometry *of)
{
    return (uint64_t)copse__conv_taps(of) * (of->in_channels / of->groups);
}

static struct copse_product conv_product(const struct copse_conv *c)
{
    return (struct copse_product){
        .batch = c->of.groups,
        .m = copse__conv_pixels(&c->of),
        .n = c->of.out_channels / c->of.groups,
        .k = (uint32_t)conv_terms(&c->of),
        .activation = c->activation,
    };
}

bool copse__conv_fits_tile(const struct copse_limits *limits, const void *work)
{
    const struct copse_conv *c = work;
    if (limits->max_group_size < COPSE_TILE_LEAST_GROUP || !has_elements(&c->of) ||
        copse__conv_pixels(&c->of) == 0 || c->of.out_channels / c->of.groups < LEAST_OUTPUTS ||
        conv_terms(&c->of) > INT32_MAX)
        return false;
    const struct copse_product p = conv_product(c);
    const uint32_t parts = copse__tile_choice_of(limits, &p, conv_split).parts;
    return parts == 1 ||
           (uint64_t)parts * p.m * c->of.out_channels <= limits->max_binding_bytes / sizeof(float);
}

copse_status copse__conv_lower_tile(struct copse_lowering *l, const void *work)
{
    const struct copse_conv *c = work;
    const struct copse_conv_geometry *of = &c->of;
    const struct copse_product product = conv_product(c);
    const struct copse_tile_choice choice =
        copse__tile_choice_of(copse__limits(l), &product, conv_split);
    const bool is_whole = choice.parts == 1;
    const int32_t ends[COPSE_MAX_SPECS] = { c->bias != NULL, (int32_t)c->activation };
    const int32_t spec[COPSE_MAX_SPECS] = {
        is_whole ? ends[0] : 0,   is_whole ? ends[1] : COPSE_LINEAR,
        copse__conv_has_gaps(of), c->is_turned,
        (int32_t)choice.shape,    conv_in_quads(of)
    };
    struct copse_params_conv_tile p = {
        .m = product.m,
        .k = product.k,
        .gap_h = of->h.gap,
        .gap_w = of->w.gap,
        .groups = of->groups,
        .part = choice.part,
        .parts = choice.parts,
        COPSE_CONV_SIZES(of),
    };
    copse__divisor(p.group_in, &p.in_m, &p.in_by);
    copse__divisor(p.taps_w, &p.taps_m, &p.taps_by);
    const struct copse_operand bias = c->bias ? copse__of(c->bias) : c->weights;
    const uint64_t groups =
        choice.parts *
        copse__tile_count(&product, choice.shape, copse__group_size(l, COPSE_KERNEL_conv_tile));
    struct copse_operand to = copse__of(c->y), none;
    if (is_whole)
        return COPSE_LAUNCH(l, conv_tile, spec, p, groups, c->x, c->weights, bias, to);
    const struct copse_params_matmul_join join = { p.m * p.out_c, p.out_c, p.parts };
    COPSE_TRY(copse__scratch(l, (uint64_t)p.parts * join.count, &to));
    COPSE_TRY(copse__scratch(l, 1, &none));
    COPSE_TRY(COPSE_LAUNCH(l, conv_tile, spec, p, groups, c->x, c->weights, bias, to));
    return COPSE_LAUNCH(l, matmul_join, ends, join,
                        copse__groups_for(l, COPSE_KERNEL_matmul_join, join.count), to, bias, none,
                        copse__of(c->y));
}

/* ---- the gradient of the weights ---- */

static struct copse_product weight_product(const struct copse_conv_weight *c)
{
    return (struct copse_product){
        .batch = c->of.groups,
        .m = (uint32_t)conv_terms(&c->of),
        .n = c->of.out_channels / c->of.groups,
        .k = copse__conv_pixels(&c->of),
    };
}

static struct copse_tile_choice weight_choice(const struct copse_limits *limits,
                                              const struct copse_conv_weight *c)
{
    const struct copse_product p = weight_product(c);
    return copse__tile_choice_of(limits, &p, weight_split);
}

bool copse__conv_weight_fits_tile(const struct copse_limits *limits, const void *work)
{
    const struct copse_conv_weight *c = work;
    const struct copse_conv_geometry *of = &c->of;
    if (limits->max_group_size < COPSE_TILE_LEAST_GROUP || !has_elements(of) ||
        copse__conv_pixels(of) == 0 || of->out_channels / of->groups < LEAST_OUTPUTS ||
        conv_terms(of) > INT32_MAX)
        return false;
    return weight_choice(limits, c).parts * conv_terms(of) * of->out_channels <=
           limits->max_binding_bytes / sizeof(float);
}

uint32_t copse__conv_weight_tile_parts(const struct copse_limits *limits,
                                       const struct copse_conv_weight *c)
{
    return weight_choice(limits, c).parts;
}

copse_status copse__conv_weight_launch_tile(struct copse_lowering *l,
                                            const struct copse_conv_weight *c,
                                            struct copse_operand to)
{
    const struct copse_conv_geometry *of = &c->of;
    const struct copse_product product = weight_product(c);
    const struct copse_tile_choice choice = weight_choice(copse__limits(l), c);
    const int32_t spec[COPSE_MAX_SPECS] = { copse__conv_has_gaps(of), (int32_t)choice.shape,
                                            conv_in_quads(of) };
    struct copse_params_conv_weight_tile p = {
        .m = product.m,
        .k = product.k,
        .gap_h = of->h.gap,
        .gap_w = of->w.gap,
        .groups = of->groups,
        .part = choice.part,
        .parts = choice.parts,
        COPSE_CONV_SIZES(of),
    };
    copse__divisor(p.out_w, &p.line_m, &p.line_by);
    copse__divisor(p.out_h, &p.image_m, &p.image_by);
    const uint64_t groups =
        choice.parts * copse__tile_count(&product, choice.shape,
                                         copse__group_size(l, COPSE_KERNEL_conv_weight_tile));
    return COPSE_LAUNCH(l, conv_weight_tile, spec, p, groups, c->x, c->dy, to);
}

/* ---- references ---- */

static double conv_tile_at(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_conv_tile *p = params;
    const size_t row = place / p->out_c, o = place % p->out_c, pixel = row % p->m,
                 begin = row / p->m * p->part, end = COPSE_MIN(begin + p->part, p->k);
    const size_t line = pixel / p->out_w, image = line / p->out_h, each = p->group_in;
    const size_t of_group = o / p->group_out * each, output = o % p->group_out;
    double sum = spec[0] ? copse__load(&args[2], o) : 0;
    for (size_t tap = begin / each; tap * each < end; tap++) {
        const int64_t a = (int64_t)(tap / p->taps_w), b = (int64_t)(tap % p->taps_w);
        size_t h, w;
        if (!copse__conv_element((int64_t)(line % p->out_h * p->stride_h) + a * p->step_h +
                                     p->first_h,
                                 p->gap_h, p->in_h, &h) ||
            !copse__conv_element((int64_t)(pixel % p->out_w * p->stride_w) + b * p->step_w +
                                     p->first_w,
                                 p->gap_w, p->in_w, &w))
            continue;
        const size_t from = ((image * p->in_h + h) * p->in_w + w) * p->in_c + of_group;
        const size_t first = COPSE_MAX(begin, tap * each), last = COPSE_MIN(end, (tap + 1) * each);
        for (size_t k = first; k < last; k++) {
            const size_t c = k - tap * each;
            sum += copse__load(&args[0], from + c) *
                   copse__load(&args[1],
                               spec[3] ? (tap * p->group_out + output) * p->in_c + of_group + c
                                       : k * p->out_c + o);
        }
    }
    return copse__activate(spec[1], sum);
}

static struct copse_elements tile_elements(uint64_t parts, uint64_t m, uint64_t cols,
                                           uint64_t terms)
{
    return (struct copse_elements){ parts * m * cols, terms };
}

static struct copse_elements conv_tile_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_tile *p = params;
    (void)spec;
    return tile_elements(p->parts, p->m, p->out_c, COPSE_MIN(p->part, p->k));
}

static void conv_tile_host(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const uint64_t count = conv_tile_elements(params, spec).count;
    for (size_t i = 0; i < count; i++)
        copse__store(&args[3], i, conv_tile_at(params, spec, args, i));
}

/* As conv_weight, with as many pixels in a part. */
static double conv_weight_tile_at(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args, size_t place)
{
    const struct copse_params_conv_weight_tile *p = params;
    const struct copse_params_conv_weight plain = {
        .pixels = p->k,
        .part = p->part,
        .weights = p->m * p->out_c,
        .in_h = p->in_h,
        .in_w = p->in_w,
        .in_c = p->in_c,
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
        .gap_h = p->gap_h,
        .gap_w = p->gap_w,
        .group_in = p->group_in,
        .group_out = p->group_out,
    };
    return copse_law_conv_weight.at(&plain, spec, args, place);
}

static struct copse_elements conv_weight_tile_elements(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_weight_tile *p = params;
    (void)spec;
    return tile_elements(p->parts, p->m, p->out_c, COPSE_MIN(p->part, p->k));
}

static void conv_weight_tile_host(const void *params, const int32_t *spec,
                                  const struct copse_host_arg *args)
{
    const uint64_t count = conv_weight_tile_elements(params, spec).count;
    for (size_t i = 0; i < count; i++)
        copse__store(&args[2], i, conv_weight_tile_at(params, spec, args, i));
}

/* ---- self-tests: two images of 5 x 4, two groups of channels, 3 x 2 taps, two parts ---- */

static struct copse_conv_geometry tile_geometry(bool gaps, uint32_t group_in, uint32_t group_out)
{
    struct copse_conv_geometry of = {
        2, 2 * group_in, 2 * group_out, 2, { 5, 3, 3, 2, 1, 1, -1 }, { 4, 4, 2, 1, 1, 2, -1 }
    };
    if (gaps) {
        of.h = (struct copse_conv_axis){ 5, 4, 3, 1, 2, -1, 1 };
        of.w = (struct copse_conv_axis){ 4, 5, 2, 1, 2, -2, 1 };
    }
    return of;
}

static void conv_tile_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool has_parts = !k->spec[0] && !k->spec[1];
    const uint32_t in = k->spec[5] % 2 ? 4 : 3, out = k->spec[5] / 2 ? 8 : 5;
    const struct copse_conv_geometry of = tile_geometry(k->spec[2] != 0, in, out);
    uint32_t rows, cols;
    copse__tile_size((enum copse_tile_shape)k->spec[4], k->group_x * k->group_y, &rows, &cols);
    struct copse_params_conv_tile p = {
        .m = copse__conv_pixels(&of),
        .k = copse__conv_taps(&of) * in,
        .gap_h = of.h.gap,
        .gap_w = of.w.gap,
        .groups = of.groups,
        .part = has_parts ? 16 : 32,
        .parts = 1 + has_parts,
        COPSE_CONV_SIZES(&of),
    };
    copse__divisor(p.group_in, &p.in_m, &p.in_by);
    copse__divisor(p.taps_w, &p.taps_m, &p.taps_by);
    COPSE_SELF_TEST(t, p, p.parts * of.groups * divide_up(p.m, rows) * divide_up(out, cols),
                    of.batch * of.h.in * of.w.in * of.in_channels, p.k * p.out_c, p.out_c,
                    p.parts * p.m * p.out_c);
    copse__matmul_soften(t, 0, k->spec[1]);
}

static void conv_weight_tile_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const uint32_t in = k->spec[2] % 2 ? 4 : 3, out = k->spec[2] / 2 ? 8 : 5;
    const struct copse_conv_geometry of = tile_geometry(k->spec[0] != 0, in, out);
    uint32_t rows, cols;
    copse__tile_size((enum copse_tile_shape)k->spec[1], k->group_x * k->group_y, &rows, &cols);
    struct copse_params_conv_weight_tile p = {
        .m = copse__conv_taps(&of) * in,
        .k = COPSE_MIN(copse__conv_pixels(&of), 29u),
        .gap_h = of.h.gap,
        .gap_w = of.w.gap,
        .groups = of.groups,
        .part = 16,
        .parts = 2,
        COPSE_CONV_SIZES(&of),
    };
    copse__divisor(p.out_w, &p.line_m, &p.line_by);
    copse__divisor(p.out_h, &p.image_m, &p.image_by);
    COPSE_SELF_TEST(t, p, p.parts * of.groups * divide_up(p.m, rows) * divide_up(out, cols),
                    of.batch * of.h.in * of.w.in * of.in_channels, p.k * p.out_c,
                    p.parts * p.m * p.out_c);
}

/* ---- laws ---- */

static void without_activation(int32_t *spec)
{
    spec[1] = COPSE_LINEAR;
}

static uint64_t conv_tile_roundings(uint64_t terms)
{
    return copse__tile_roundings(terms, conv_split);
}

static struct copse_sum conv_tile_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_tile *p = params;
    return copse__sum_of(copse__tile_part_roundings(COPSE_MIN(p->part, p->k)), false, spec);
}

/* The parts are added in chains of 64: copse__lower_reduce. */
static uint64_t conv_weight_tile_roundings(uint64_t terms)
{
    return copse__tile_roundings(terms, weight_split);
}

static struct copse_sum conv_weight_tile_sum(const void *params, const int32_t *spec)
{
    const struct copse_params_conv_weight_tile *p = params;
    (void)spec;
    return (struct copse_sum){ copse__tile_part_roundings(COPSE_MIN(p->part, p->k)), 1 };
}

const struct copse_law copse_law_conv_tile = {
    .host = conv_tile_host,
    .at = conv_tile_at,
    .elements = conv_tile_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .magnitudes = without_activation,
    .roundings = conv_tile_roundings,
    .sum = conv_tile_sum,
    .self_test = conv_tile_test,
};
const struct copse_law copse_law_conv_weight_tile = {
    .host = conv_weight_tile_host,
    .at = conv_weight_tile_at,
    .elements = conv_weight_tile_elements,
    .limit = { .ulp = 1, .ratio = 16 },
    .roundings = conv_weight_tile_roundings,
    .sum = conv_weight_tile_sum,
    .self_test = conv_weight_tile_test,
};
