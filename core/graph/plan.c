/* SPDX-License-Identifier: MIT */
/* Greedy by size: the largest span first, each at the lowest offset that is free during its lifetime. Within a few
   percent of optimal for layered graphs. Depends only on the input. */
#include <stdlib.h>

#include "core/graph/plan.h"

static int by_size(const void *a, const void *b)
{
    const struct copse_span *x = *(struct copse_span *const *)a, *y = *(struct copse_span *const *)b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x < y ? -1 : 1;
}

static bool overlaps_in_time(const struct copse_span *a, const struct copse_span *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest free offset of `s` in `chunk` among the placed spans, which are sorted by offset. */
static size_t lowest(struct copse_span *const *placed, size_t count, const struct copse_span *s,
                     uint32_t chunk)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct copse_span *p = placed[i];
        if (p->chunk != chunk || !overlaps_in_time(p, s))
            continue;
        if (p->offset >= at && p->offset - at >= s->size)
            break;
        at = COPSE_MAX(at, p->offset + p->size);
    }
    return at;
}

static void insert(struct copse_span **placed, size_t count, struct copse_span *s)
{
    size_t i = count;
    for (; i > 0 && placed[i - 1]->offset > s->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = s;
}

copse_status copse__plan(struct copse_mem *mem, struct copse_span *spans, size_t count,
                         size_t limit, size_t *chunk_bytes, uint32_t room, uint32_t *chunks)
{
    *chunks = 0;
    struct copse_span **order = copse__alloc(mem, count, 2 * sizeof *order);
    if (!order)
        return copse_fail(COPSE_ERR_NO_MEMORY, "plan: no memory for %zu values", count);
    struct copse_span **placed = order + count;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < count; i++)
        order[i] = &spans[i];
    qsort(order, count, sizeof *order, by_size);
    for (size_t i = 0; i < count && s == COPSE_OK; i++) {
        struct copse_span *v = order[i];
        for (v->chunk = 0; v->chunk < room; v->chunk++) {
            v->offset = lowest(placed, i, v, v->chunk);
            if (v->offset <= limit && limit - v->offset >= v->size)
                break;
        }
        if (v->chunk == room || v->size > limit) {
            s = copse_fail(COPSE_ERR_NO_DEVICE_MEMORY,
                           "plan: a value of %zu bytes does not fit (largest buffer %zu bytes)",
                           v->size, limit);
            break;
        }
        for (; *chunks <= v->chunk; ++*chunks)
            chunk_bytes[*chunks] = 0;
        chunk_bytes[v->chunk] = COPSE_MAX(chunk_bytes[v->chunk], v->offset + v->size);
        insert(placed, i, v);
    }
    copse__free(mem, order);
    return s;
}
