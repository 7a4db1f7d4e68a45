/* SPDX-License-Identifier: MIT */
#include "core/audit/sample.h"

#include "core/device/host_at.h"

#define WORK  ((uint64_t)1 << 19)
#define LEAST 16u
#define MOST  1024u

/* C = A B of a vendor's library. */
static double gemm_at(const void *params, const int32_t *spec, const struct copse_host_arg *args, size_t place)
{
    const struct copse_gemm *g = params;
    const size_t m = g->m, n = g->n, k = g->k, i = place / n, j = place % n;
    double sum = 0;
    (void)spec;
    for (size_t l = 0; l < k; l++)
        sum += copse__load(&args[0], g->a_transposed ? l * m + i : i * k + l) *
               copse__load(&args[1], g->b_transposed ? j * k + l : l * n + j);
    return sum;
}

#define PRODUCT(kernel_, result_, places_, depth_)                                                           \
    case COPSE_KERNEL_##kernel_: {                                                                          \
        const struct copse_params_##kernel_ *p = (const void *)c->params;                                   \
        *out = (struct copse_sample){ copse_at_##kernel_, p, result_, places_, depth_ };                    \
        return true;                                                                                        \
    }

bool copse__sample_of(const struct copse_command *c, struct copse_sample *out)
{
    if (c->kind == COPSE_COMMAND_GEMM) {
        *out = (struct copse_sample){ gemm_at, &c->gemm, 2, (uint64_t)c->gemm.m * c->gemm.n, c->gemm.k };
        return true;
    }
    if (c->kind != COPSE_COMMAND_DISPATCH)
        return false;
    switch (c->kernel->id) {
        PRODUCT(matmul, 3, (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin)
        PRODUCT(matmul_wide, 3, (uint64_t)p->batch * p->m * p->n, p->k)
        PRODUCT(matmul_texel, 3, (uint64_t)p->batch * p->m * p->n, p->k_end - p->k_begin)
        PRODUCT(conv, 3, p->count, (uint64_t)p->taps_h * p->taps_w * (p->c_end - p->c_begin))
        PRODUCT(conv_wide, 3, (uint64_t)p->pixels * p->out_c, (uint64_t)p->taps_h * p->taps_w * p->group_in)
        PRODUCT(conv_weight, 2, p->count, p->part)
        PRODUCT(conv_weight_wide, 2, (uint64_t)p->parts * p->rows * p->out_c, p->part)
        PRODUCT(conv_texel, 3, (uint64_t)p->pixels * p->out_c, 4 * (uint64_t)p->taps_h * p->taps_w * p->in_t)
        PRODUCT(conv_weight_texel, 2, (uint64_t)p->parts * p->taps_h * p->taps_w * p->in_c * p->out_c, p->part * p->out_w)
    default:
        return false;
    }
}

size_t copse__sample_count(const struct copse_sample *s)
{
    const uint64_t count = WORK / COPSE_MAX(s->depth, 1);
    return (size_t)COPSE_MIN(COPSE_MIN(COPSE_MAX(count, LEAST), MOST), s->places);
}

size_t copse__sample_place(const struct copse_sample *s, size_t i)
{
    const size_t count = copse__sample_count(s);
    const uint64_t number = i, begin = s->places * i / count, end = s->places * (i + 1) / count;
    if (i == 0 || i + 1 == count)
        return (size_t)(i == 0 ? 0 : s->places - 1);
    return (size_t)(begin + (copse__hash(COPSE_HASH_START, &number, sizeof number) >> 16) % (end - begin));
}
