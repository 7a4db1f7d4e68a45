/* SPDX-License-Identifier: MIT */
#include "core/audit/sum_bound.h"

#include "copse/matmul.h"

#define UNIT  0x1p-24 /* u */
#define CHAIN 256u    /* terms of a chain, in all kernels */
#define SLOPE 1.13    /* largest slope of an activation: 1.129 of GELU, 1.1 of SiLU, at most 1 of the others */

static uint64_t up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

/* Chains, parts of `chains` of them, launches of `most` terms. */
static uint64_t levels(uint64_t terms, uint64_t chains, uint64_t most)
{
    return COPSE_MIN(terms, CHAIN) + COPSE_MIN(up(terms, CHAIN), chains) - 1 + up(terms, most) - 1;
}

uint64_t copse__sum_roundings(uint32_t kernel, uint64_t terms)
{
    if (terms == 0)
        return 0;
    switch (kernel) {
    case COPSE_KERNEL_matmul:
    case COPSE_KERNEL_matmul_half:
        return levels(terms, 32, 8192);
    case COPSE_KERNEL_matmul_texel:
        return levels(terms, 256, 65536);
    case COPSE_KERNEL_matmul_wide: /* one launch; parts of 64 chains */
        return levels(terms, 64, (uint64_t)64 * CHAIN);
    case COPSE_KERNEL_matmul_cooperative:
        return levels(terms, 32, 8192) + 3 * COPSE_MIN(terms, CHAIN);
    /* A chain ends where the next terms, those of a tap, would make it longer than 256: two that follow each other have
       more terms together. A launch has at least 27,232 terms, if there are so many. */
    case COPSE_KERNEL_conv:
        return COPSE_MIN(terms, CHAIN) + 2 * (terms / (CHAIN + 1)) + terms / 27232;
    case COPSE_KERNEL_conv_wide:
        return COPSE_MIN(terms, CHAIN) + 2 * (terms / (CHAIN + 1));
    case COPSE_KERNEL_conv_weight:
    case COPSE_KERNEL_conv_weight_wide:
        return levels(terms, UINT64_MAX, terms);
    /* Texels that are not full: a chain has 64 terms at least. */
    case COPSE_KERNEL_conv_texel:
    case COPSE_KERNEL_conv_weight_texel:
        return COPSE_MIN(terms, CHAIN) + up(terms, CHAIN / 4) - 1;
    case COPSE_KERNEL_COUNT:
        return terms;
    default:
        return 0;
    }
}

static double bound_of(uint64_t roundings, const struct copse_limits *limits)
{
    const double error = (double)roundings * UNIT * (limits->rounds_to_nearest ? 1 : 2);
    return error / (1 - error) / UNIT;
}

double copse__sum_bound(uint32_t kernel, uint64_t terms, const struct copse_limits *limits)
{
    return bound_of(copse__sum_roundings(kernel, terms) + 1, limits);
}

/* Terms of a sum of a launch. */
static uint64_t terms_of(uint32_t kernel, const void *params, bool *adds)
{
    switch (kernel) {
#define PRODUCT(name)                                                                                       \
    case COPSE_KERNEL_##name: {                                                                             \
        const struct copse_params_##name *p = params;                                                       \
        *adds = p->k_begin > 0;                                                                             \
        return p->k_end - p->k_begin;                                                                       \
    }
        PRODUCT(matmul)
        PRODUCT(matmul_texel)
        PRODUCT(matmul_half)
        PRODUCT(matmul_cooperative)
#undef PRODUCT
    case COPSE_KERNEL_matmul_wide:
        return ((const struct copse_params_matmul_wide *)params)->k;
    case COPSE_KERNEL_conv: {
        const struct copse_params_conv *p = params;
        *adds = p->c_begin > 0;
        return (uint64_t)p->taps_h * p->taps_w * (p->c_end - p->c_begin);
    }
    case COPSE_KERNEL_conv_wide: {
        const struct copse_params_conv_wide *p = params;
        return (uint64_t)p->taps_h * p->taps_w * p->group_in;
    }
    case COPSE_KERNEL_conv_texel: {
        const struct copse_params_conv_texel *p = params;
        return (uint64_t)p->taps_h * p->taps_w * 4 * p->in_t;
    }
    case COPSE_KERNEL_conv_weight:
        return ((const struct copse_params_conv_weight *)params)->part;
    case COPSE_KERNEL_conv_weight_wide:
        return ((const struct copse_params_conv_weight_wide *)params)->part;
    case COPSE_KERNEL_conv_weight_texel: {
        const struct copse_params_conv_weight_texel *p = params;
        return (uint64_t)p->part * p->out_w;
    }
    default:
        return 0;
    }
}

/* Sums without products: c - 1 roundings in a chain of c terms. 0: the kernel has none whose chains are long. */
static uint64_t plain_roundings(uint32_t kernel, const void *params)
{
    if (kernel == COPSE_KERNEL_column_sum_wide)
        return 63 + 2 + 7 + 7; /* rows, four chains, 8 sums of 64 rows, 8 of those */
    if (kernel != COPSE_KERNEL_gather_grad)
        return 0;
    const struct copse_params_gather_grad *p = params; /* chunks of 64 positions, runs of 256 chunks, earlier content */
    return COPSE_MIN(p->count, 64) + COPSE_MIN(up(p->count, 64), 256) + up(p->count, 64 * 256);
}

static bool ends_with_bias(uint32_t kernel)
{
    return kernel != COPSE_KERNEL_conv_weight && kernel != COPSE_KERNEL_conv_weight_wide &&
           kernel != COPSE_KERNEL_conv_weight_texel;
}

double copse__launch_bound(uint32_t kernel, const void *params, const int32_t *spec, const struct copse_limits *limits)
{
    bool adds = false;
    if (plain_roundings(kernel, params) > 0)
        return bound_of(plain_roundings(kernel, params), limits);
    const uint64_t terms = terms_of(kernel, params, &adds);
    uint64_t n = copse__sum_roundings(kernel, terms);
    if (n == 0)
        return 0;
    if (kernel == COPSE_KERNEL_conv_texel) {
        const struct copse_params_conv_texel *p = params;
        n = COPSE_MIN(terms, CHAIN) + up((uint64_t)p->taps_h * p->taps_w, p->taps_each) * up(p->in_t, CHAIN / 4) - 1;
    }
    n += adds + (ends_with_bias(kernel) && spec[0] != 0);
    return bound_of(n, limits) * (ends_with_bias(kernel) && spec[1] >= COPSE_GELU ? SLOPE : 1);
}
