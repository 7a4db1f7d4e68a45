/* SPDX-License-Identifier: MIT */
/* Greedy by size: the largest allocation first, each at the lowest offset that is free during its
   lifetime. Within a few percent of optimal for layered graphs. Depends only on the input. */
#include <stdlib.h>

#include "core/graph/plan.h"

static int by_size(const void *a, const void *b)
{
    const struct copse_allocation *x = *(struct copse_allocation *const *)a,
                                  *y = *(struct copse_allocation *const *)b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x < y ? -1 : 1;
}

static bool overlaps_in_time(const struct copse_allocation *a, const struct copse_allocation *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest free offset of `s` in `arena` among the placed allocations, which are sorted by offset. */
static size_t plan_lowest(struct copse_allocation *const *placed, size_t count,
                          const struct copse_allocation *s, uint32_t arena)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct copse_allocation *p = placed[i];
        if (p->arena != arena || !overlaps_in_time(p, s))
            continue;
        if (p->offset >= at && p->offset - at >= s->size)
            break;
        at = COPSE_MAX(at, p->offset + p->size);
    }
    return at;
}

static void plan_insert(struct copse_allocation **placed, size_t count, struct copse_allocation *s)
{
    size_t i = count;
    for (; i > 0 && placed[i - 1]->offset > s->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = s;
}

copse_status copse__plan(struct copse_mem *mem, struct copse_allocation *allocations, size_t count,
                         size_t limit, size_t *arena_bytes, uint32_t room, uint32_t *arenas)
{
    *arenas = 0;
    struct copse_allocation **order = copse__alloc(mem, count, 2 * sizeof *order);
    if (!order)
        return copse_fail(COPSE_ERR_NO_MEMORY, "plan: no memory for %zu values", count);
    struct copse_allocation **placed = order + count;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count; i++)
        order[i] = &allocations[i];
    qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; i < count && s == COPSE_OK; i++) {
        struct copse_allocation *v = order[i];
        for (v->arena = 0; v->arena < room; v->arena++) {
            v->offset = plan_lowest(placed, i, v, v->arena);
            if (v->offset <= limit && limit - v->offset >= v->size)
                break;
        }
        if (v->arena == room || v->size > limit) {
            s = copse_fail(COPSE_ERR_NO_DEVICE_MEMORY,
                           "plan: a value of %zu bytes does not fit (largest buffer %zu bytes)",
                           v->size, limit);
            break;
        }
        for (; *arenas <= v->arena; ++*arenas)
            arena_bytes[*arenas] = 0;
        arena_bytes[v->arena] = COPSE_MAX(arena_bytes[v->arena], v->offset + v->size);
        plan_insert(placed, i, v);
    }
    copse__free(mem, order);
    return s;
}
