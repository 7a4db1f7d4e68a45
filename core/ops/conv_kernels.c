/* SPDX-License-Identifier: MIT */
/* References and self-tests of the kernels of convolutions. */
#include "core/ops/product.h"
#include "core/ops/self_tests.h"

/* ---- references ---- */

/* The element of an axis at a place, which counts the gaps between elements, too; false: there is none. */
static bool element_at(int64_t place, uint32_t gap, uint32_t size, size_t *at)
{
    *at = (size_t)(place / gap);
    return place >= 0 && place % gap == 0 && *at < size;
}

void copse_host_conv(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_conv *p = params;
    for (size_t i = 0; i < p->count; i++) {
        const size_t pixel = i / p->out_c, o = i % p->out_c, line = pixel / p->out_w, image = line / p->out_h;
        const size_t channel = o / p->group_out * p->group_in;
        double sum = 0;
        for (size_t tap = 0; tap < (size_t)p->taps_h * p->taps_w; tap++) {
            const int64_t a = (int64_t)(tap / p->taps_w), b = (int64_t)(tap % p->taps_w);
            size_t h, w;
            if (!element_at((int64_t)(line % p->out_h * p->stride_h) + a * p->step_h + p->first_h, p->gap_h, p->in_h, &h) ||
                !element_at((int64_t)(pixel % p->out_w * p->stride_w) + b * p->step_w + p->first_w, p->gap_w, p->in_w, &w))
                continue;
            const size_t from = ((image * p->in_h + h) * p->in_w + w) * p->in_c + channel;
            for (size_t c = p->c_begin; c < p->c_end; c++)
                sum += copse__load(&args[0], from + c) * copse__load(&args[1], (tap * p->group_in + c) * p->out_c + o);
        }
        if (p->c_begin > 0)
            sum += copse__load(&args[3], i);
        if (p->c_end == p->group_in)
            sum = copse__activate(spec[1], spec[0] ? sum + copse__load(&args[2], o) : sum);
        copse__store(&args[3], i, sum);
    }
}

void copse_host_conv_weight(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_conv_weight *p = params;
    (void)spec;
    for (size_t i = 0; i < p->count; i++) {
        const size_t weight = i % p->weights, row = weight / p->out_c, o = weight % p->out_c, tap = row / p->group_in;
        const size_t channel = o / p->group_out * p->group_in + row % p->group_in;
        const size_t begin = i / p->weights * p->part, end = COPSE_MIN(begin + p->part, p->pixels);
        const int64_t a = (int64_t)(tap / p->taps_w), b = (int64_t)(tap % p->taps_w);
        double sum = 0;
        for (size_t pixel = begin; pixel < end; pixel++) {
            const size_t line = pixel / p->out_w, image = line / p->out_h;
            size_t h, w;
            if (element_at((int64_t)(line % p->out_h * p->stride_h) + a * p->step_h + p->first_h, p->gap_h, p->in_h, &h) &&
                element_at((int64_t)(pixel % p->out_w * p->stride_w) + b * p->step_w + p->first_w, p->gap_w, p->in_w, &w))
                sum += copse__load(&args[0], ((image * p->in_h + h) * p->in_w + w) * p->in_c + channel) *
                       copse__load(&args[1], pixel * p->out_c + o);
        }
        copse__store(&args[2], i, sum);
    }
}

/* ---- self-tests: two images of 5 x 4, two groups of 3 channels to 2 ---- */

#define IN_H  5u
#define IN_W  4u
#define IN_C  6u
#define OUT_C 4u

void copse_self_test_conv(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool gaps = k->spec[2] != 0;
    const struct copse_params_conv p = {
        .count = 2 * (gaps ? 9 * 7 : 3 * 4) * OUT_C, .in_h = IN_H, .in_w = IN_W, .in_c = IN_C,
        .out_h = gaps ? 9 : 3, .out_w = gaps ? 7 : 4, .out_c = OUT_C, .taps_h = 3, .taps_w = 2,
        .stride_h = gaps ? 1 : 2, .stride_w = 1, .step_h = gaps ? -1 : 1, .step_w = gaps ? -2 : 2,
        .first_h = gaps ? 1 : -1, .first_w = gaps ? 1 : -1, .gap_h = gaps ? 2 : 1, .gap_w = gaps ? 2 : 1,
        .group_in = 3, .group_out = 2, .c_end = 3,
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), 2 * IN_H * IN_W * IN_C, 3 * 2 * 3 * OUT_C, OUT_C, p.count);
    if (k->spec[1] < COPSE_SIGMOID)
        return;
    t->slack = COPSE_SELF_TEST_SLACK;
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++) /* sums where activations are not flat */
        copse__test_set(t, 0, i, (float)((int)(7 * i + i / 9) % 9 - 4) / 64.0f);
}

void copse_self_test_conv_weight(const struct copse_kernel *k, struct copse_self_test *t)
{
    const bool gaps = k->spec[0] != 0;
    const uint32_t out_h = gaps ? 9 : 3, out_w = gaps ? 7 : 4, pixels = 2 * out_h * out_w;
    const struct copse_params_conv_weight p = {
        .count = 2 * 72, .pixels = pixels, .part = pixels - 7, .weights = 72, .in_h = IN_H, .in_w = IN_W, .in_c = IN_C,
        .out_h = out_h, .out_w = out_w, .out_c = OUT_C, .taps_w = 2, .stride_h = gaps ? 1 : 2, .stride_w = 1,
        .step_h = gaps ? -1 : 1, .step_w = gaps ? -2 : 2, .first_h = gaps ? 1 : -1, .first_w = gaps ? 1 : -1,
        .gap_h = gaps ? 2 : 1, .gap_w = gaps ? 2 : 1, .group_in = 3, .group_out = 2,
    };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.count), 2 * IN_H * IN_W * IN_C, pixels * OUT_C, p.count);
}
