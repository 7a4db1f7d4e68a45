/* SPDX-License-Identifier: MIT */
/* Plans of value reductions: rounds of a batch's packs, and the owner of each sum. */
#include "core/reduce/value_reduce.h"

#define MOST_STAGED ((uint64_t)1 << 26) /* elements that all contributors have in host memory */
#define MOST_ROUND  ((uint64_t)1 << 22) /* elements of a contributor */

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "reduction: no memory for a plan");
}

static bool push_job(struct copse_mem *mem, struct copse_plan *p, uint32_t owner, uint32_t lo,
                     uint32_t hi, uint64_t first, uint64_t count)
{
    return COPSE_PUSH(mem, &p->jobs, ((struct copse_job){ owner, lo, hi, first, count }));
}

static copse_status shard(struct copse_mem *mem, struct copse_plan *p, uint64_t count)
{
    struct copse_schedule s;
    bool ok = true;
    COPSE_TRY(copse__schedule_make(mem, COPSE_REDUCE_SHARDED, p->params.ranks, 0, count, &s));
    for (size_t i = 0; i < s.slices.count && ok; i++)
        ok = push_job(mem, p, s.slices.at[i].owner, 0, p->params.contributors,
                      s.slices.at[i].first, s.slices.at[i].count);
    copse__schedule_fini(mem, &s);
    return ok ? COPSE_OK : no_memory();
}

/* Contributors of the left half of the tree: the largest power of two below `n`. */
static uint32_t left_half(uint32_t n)
{
    uint32_t half = 1;
    while (half * 2 < n)
        half *= 2;
    return half;
}

/* Both subtrees of the canonical tree's root, so that joining them is its last addition. Roots rotate from
   pack to pack. */
static bool halve(struct copse_mem *mem, struct copse_plan *p, size_t pack, uint64_t count)
{
    const uint32_t n = p->params.contributors, half = left_half(n);
    return push_job(mem, p, (uint32_t)(pack % half), 0, half, 0, count) &&
           push_job(mem, p, half + (uint32_t)(pack % (n - half)), half, n, 0, count);
}

static copse_status push_round(struct copse_mem *mem, struct copse_plan *p, size_t pack,
                               uint64_t first, uint64_t count)
{
    struct copse_round r = { .pack = pack, .first = first, .count = count };
    r.first_job = p->jobs.count;
    if (p->params.algorithm == COPSE_COLLECTIVE_SHARDED) {
        COPSE_TRY(shard(mem, p, count));
    } else if (p->params.algorithm == COPSE_COLLECTIVE_HIERARCHICAL && p->params.contributors > 1) {
        r.is_joined = true;
        if (!halve(mem, p, pack, count))
            return no_memory();
    } else {
        const uint32_t root =
            p->params.algorithm == COPSE_COLLECTIVE_TO_ONE ? p->params.root : 0;
        if (!push_job(mem, p, root, 0, p->params.contributors, 0, count))
            return no_memory();
    }
    r.job_count = p->jobs.count - r.first_job;
    p->longest = COPSE_MAX(p->longest, count);
    return COPSE_PUSH(mem, &p->rounds, r) ? COPSE_OK : no_memory();
}

static copse_status push_rounds(struct copse_mem *mem, struct copse_plan *p)
{
    const uint64_t most = COPSE_MAX(
        COPSE_MIN(COPSE_MIN(MOST_ROUND, MOST_STAGED / p->params.contributors), p->params.max_row),
        COPSE_UNIT);
    for (size_t pack = 0; pack < p->packs.packs.count; pack++) {
        const uint64_t total = p->packs.packs.at[pack].count;
        if (total == 0)
            continue;
        const uint64_t each = copse__chunks_even(total, (total + most - 1) / most).each;
        for (uint64_t at = 0; at < total; at += each)
            COPSE_TRY(push_round(mem, p, pack, at, COPSE_MIN(each, total - at)));
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
        return no_memory();
    if (params->arrays)
        memcpy(elements, params->elements, params->arrays * sizeof *elements);
    copse_status s =
        copse__packs_make(mem, &params->packing, elements, params->arrays, &out->packs);
    if (!s)
        s = push_rounds(mem, out);
    if (s)
        copse__plan_fini(mem, out);
    return s;
}

void copse__plan_fini(struct copse_mem *mem, struct copse_plan *plan)
{
    copse__free(mem, (void *)plan->params.elements);
    copse__packs_fini(mem, &plan->packs);
    copse__free(mem, plan->jobs.at);
    copse__free(mem, plan->rounds.at);
    *plan = (struct copse_plan){ .longest = 0 };
}

bool copse__plan_is_for(const struct copse_plan *plan, const struct copse_plan_params *params)
{
    const struct copse_plan_params *a = &plan->params, *b = params;
    return a->elements && a->algorithm == b->algorithm && a->root == b->root &&
           a->ranks == b->ranks && a->contributors == b->contributors &&
           a->max_row == b->max_row && a->packing.is_each == b->packing.is_each &&
           a->packing.packs == b->packing.packs &&
           a->packing.small_bytes == b->packing.small_bytes &&
           a->packing.small_group == b->packing.small_group &&
           a->packing.pack_bytes == b->packing.pack_bytes && a->arrays == b->arrays &&
           (a->arrays == 0 ||
            memcmp(a->elements, b->elements, a->arrays * sizeof *a->elements) == 0);
}

/* ---- pieces ---- */

size_t copse__piece_start(const struct copse_plan *plan, size_t pack, uint64_t first)
{
    const struct copse_pack *p = &plan->packs.packs.at[pack];
    size_t lo = p->first_part, hi = p->first_part + p->part_count;
    while (hi - lo > 1) { /* the last part that starts at or before `first` */
        const size_t middle = lo + (hi - lo) / 2;
        if (plan->packs.parts.at[middle].at <= first)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

bool copse__piece_next(const struct copse_plan *plan, size_t pack, uint64_t first, uint64_t count,
                       size_t *cursor, struct copse_part *piece)
{
    const struct copse_pack *p = &plan->packs.packs.at[pack];
    if (*cursor >= p->first_part + p->part_count)
        return false;
    const struct copse_part *part = &plan->packs.parts.at[(*cursor)++];
    const uint64_t begin = COPSE_MAX(part->at, first);
    const uint64_t end = COPSE_MIN(part->at + part->count, first + count);
    if (begin >= end)
        return false;
    *piece = (struct copse_part){ part->array, part->first + (begin - part->at), end - begin,
                                  begin - first };
    return true;
}
