/* SPDX-License-Identifier: MIT */
/* Means of whole numbers, on the host: their sums have 64 bits, and do not wrap around. */
#include "core/value/cross_batch.h"

/* Sums over this worker's replicas. The caller frees them. */
static copse_status sum_here(const struct copse_cross_batch *b, const struct copse_leaf *leaf,
                             int64_t **out)
{
    const size_t count = (size_t)copse__elements(copse__leaf_first(leaf)->shape);
    int64_t *sums = copse__alloc(b->mem, count, sizeof *sums);
    copse_status s = copse_need_memory(sums, "reduce");
    for (size_t r = 0; r < leaf->value->count && !s; r++) {
        copse_value *host = NULL;
        s = copse__value_at(b->st, leaf->value->items[r], COPSE_HOST, &host);
        for (size_t i = 0; i < count && !s; i++)
            sums[i] += ((const int32_t *)host->block->host)[i];
        copse_value_release(&host);
    }
    if (s)
        copse__free(b->mem, sums);
    *out = s ? NULL : sums;
    return s;
}

/* A sum of at most 2^16 i32, divided by at most 2^16, is a float, the middle of two floats, or
   2^-41 of itself away from such a middle: rounding to double first gives the same float. */
static copse_status whole_mean_give(const struct copse_cross_batch *b, struct copse_leaf *leaf,
                                    const int64_t *sums)
{
    const copse_shape shape = copse__leaf_first(leaf)->shape;
    const size_t count = (size_t)copse__elements(shape);
    copse_value *host = NULL;
    float *means = copse__alloc(b->mem, count, sizeof *means);
    copse_status s = copse_need_memory(means, "reduce");
    for (size_t i = 0; i < count && !s; i++)
        means[i] = (float)((double)sums[i] / b->divisor);
    if (!s)
        s = copse_value_create_on(b->st, COPSE_HOST, COPSE_F32, shape, means, &host);
    if (!s)
        s = copse__value_spread(b->st, host, &b->to, &leaf->result);
    copse_value_release(&host);
    copse__free(b->mem, means);
    return s;
}

copse_status copse__whole_mean_reduce(struct copse_cross_batch *b)
{
    struct copse_leaf *leaf = NULL;
    copse_status s = COPSE_OK;
    while (!s && (leaf = copse__leaf_next(b, COPSE_NEED_WHOLE_MEAN, leaf))) {
        int64_t *sums;
        COPSE_TRY(sum_here(b, leaf, &sums));
        s = whole_mean_give(b, leaf, sums);
        copse__free(b->mem, sums);
    }
    return s;
}

/* ---- several workers: a sum is two words, whose sums over 2^16 replicas do not wrap around
   ---- */

copse_status copse__whole_mean_put(const struct copse_cross_batch *b, const struct copse_leaf *leaf,
                                   uint32_t *words)
{
    const size_t count = (size_t)copse__elements(copse__leaf_first(leaf)->shape);
    int64_t *sums;
    COPSE_TRY(sum_here(b, leaf, &sums));
    for (size_t i = 0; i < count; i++) {
        const int64_t low = sums[i] & 0xffff;
        words[2 * i] = (uint32_t)low;
        words[2 * i + 1] = (uint32_t)((sums[i] - low) / 65536);
    }
    copse__free(b->mem, sums);
    return COPSE_OK;
}

copse_status copse__whole_mean_give(const struct copse_cross_batch *b, struct copse_leaf *leaf,
                                    const uint32_t *words)
{
    const size_t count = (size_t)copse__elements(copse__leaf_first(leaf)->shape);
    int64_t *sums = copse__alloc(b->mem, count, sizeof *sums);
    COPSE_TRY(copse_need_memory(sums, "reduce"));
    for (size_t i = 0; i < count; i++)
        sums[i] = (int64_t)(int32_t)words[2 * i + 1] * 65536 + words[2 * i];
    const copse_status s = whole_mean_give(b, leaf, sums);
    copse__free(b->mem, sums);
    return s;
}
