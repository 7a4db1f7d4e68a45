/* SPDX-License-Identifier: MIT */
/* Plans of value reductions: chunks of a batch's buckets, and the owner of each sum. */
#include "core/reduce/value/value_reduce.h"

#define MOST_ELEMENTS ((uint64_t)1 << 26) /* of a chunk, of all contributors together */
#define MOST_CHUNK    ((uint64_t)1 << 22) /* elements of a contributor */

static bool push_sum(struct copse_mem *mem, struct copse_plan *p, uint32_t owner, uint32_t lo,
                     uint32_t hi, uint64_t first, uint64_t count)
{
    return COPSE_PUSH(mem, &p->sums, ((struct copse_partial_sum){ owner, lo, hi, first, count }));
}

static copse_status value_plan_shard(struct copse_mem *mem, struct copse_plan *p, uint64_t count)
{
    struct copse_schedule s;
    bool ok = true;
    COPSE_TRY(copse__schedule_make(mem, COPSE_REDUCE_SHARDED, p->params.ranks, 0, count, &s));
    for (size_t i = 0; i < s.slices.count && ok; i++)
        ok = push_sum(mem, p, s.slices.at[i].owner, 0, p->params.contributors, s.slices.at[i].first,
                      s.slices.at[i].count);
    copse__schedule_fini(mem, &s);
    return ok ? COPSE_OK : copse_no_memory("reduction: plan");
}

/* Contributors of the left half of the tree: the largest power of two below `n`. */
static uint32_t left_half(uint32_t n)
{
    uint32_t half = 1;
    while (half * 2 < n)
        half *= 2;
    return half;
}

/* Both subtrees of the canonical tree's root, so that joining them is its last addition. Roots
   rotate from bucket to bucket. */
static bool value_plan_halve(struct copse_mem *mem, struct copse_plan *p, size_t bucket,
                             uint64_t count)
{
    const uint32_t n = p->params.contributors, half = left_half(n);
    return push_sum(mem, p, (uint32_t)(bucket % half), 0, half, 0, count) &&
           push_sum(mem, p, half + (uint32_t)(bucket % (n - half)), half, n, 0, count);
}

static copse_status push_chunk(struct copse_mem *mem, struct copse_plan *p, size_t bucket,
                               uint64_t first, uint64_t count)
{
    struct copse_chunk c = {
        .bucket = bucket, .first = first, .count = count, .first_sum = p->sums.count
    };
    if (p->params.algorithm == COPSE_COLLECTIVE_SHARDED) {
        COPSE_TRY(value_plan_shard(mem, p, count));
    } else if (p->params.algorithm == COPSE_COLLECTIVE_HIERARCHICAL && p->params.contributors > 1) {
        c.is_joined = true;
        if (!value_plan_halve(mem, p, bucket, count))
            return copse_no_memory("reduction: plan");
    } else {
        const uint32_t root = p->params.algorithm == COPSE_COLLECTIVE_TO_ONE ? p->params.root : 0;
        if (!push_sum(mem, p, root, 0, p->params.contributors, 0, count))
            return copse_no_memory("reduction: plan");
    }
    c.sum_count = p->sums.count - c.first_sum;
    return COPSE_PUSH(mem, &p->chunks, c) ? COPSE_OK : copse_no_memory("reduction: plan");
}

static copse_status push_chunks(struct copse_mem *mem, struct copse_plan *p)
{
    const uint64_t most = COPSE_MAX(
        COPSE_MIN(COPSE_MIN(MOST_CHUNK, MOST_ELEMENTS / p->params.contributors), p->params.max_row),
        COPSE_UNIT);
    for (size_t bucket = 0; bucket < p->buckets.buckets.count; bucket++) {
        const uint64_t total = p->buckets.buckets.at[bucket].count;
        if (total == 0)
            continue;
        const uint64_t each = copse__chunks_even(total, (total + most - 1) / most).each;
        for (uint64_t at = 0; at < total; at += each)
            COPSE_TRY(push_chunk(mem, p, bucket, at, COPSE_MIN(each, total - at)));
    }
    return COPSE_OK;
}

copse_status copse__plan_make(struct copse_mem *mem, const struct copse_plan_params *params,
                              struct copse_plan *out)
{
    *out = (struct copse_plan){ .params = *params };
    uint64_t *elements = copse__alloc(mem, params->arrays, sizeof *elements);
    out->params.elements = elements;
    if (!elements)
        return copse_no_memory("reduction: plan");
    if (params->arrays)
        memcpy(elements, params->elements, params->arrays * sizeof *elements);
    copse_status s =
        copse__array_buckets_make(mem, &params->bucketing, elements, params->arrays, &out->buckets);
    if (!s)
        s = push_chunks(mem, out);
    if (s)
        copse__plan_fini(mem, out);
    return s;
}

void copse__plan_fini(struct copse_mem *mem, struct copse_plan *plan)
{
    copse__free(mem, (void *)plan->params.elements);
    copse__array_buckets_fini(mem, &plan->buckets);
    copse__free(mem, plan->sums.at);
    copse__free(mem, plan->chunks.at);
    *plan = (struct copse_plan){ .params = { .arrays = 0 } };
}

bool copse__plan_is_for(const struct copse_plan *plan, const struct copse_plan_params *params)
{
    const struct copse_plan_params *a = &plan->params, *b = params;
    return a->elements && a->algorithm == b->algorithm && a->root == b->root &&
           a->ranks == b->ranks && a->contributors == b->contributors && a->max_row == b->max_row &&
           a->bucketing.is_each == b->bucketing.is_each &&
           a->bucketing.count == b->bucketing.count &&
           a->bucketing.small_bytes == b->bucketing.small_bytes &&
           a->bucketing.small_group == b->bucketing.small_group &&
           a->bucketing.bucket_bytes == b->bucketing.bucket_bytes && a->arrays == b->arrays &&
           (a->arrays == 0 ||
            memcmp(a->elements, b->elements, a->arrays * sizeof *a->elements) == 0);
}
