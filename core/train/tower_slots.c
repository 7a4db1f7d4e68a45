/* SPDX-License-Identifier: MIT */
/* Slots of tower optimizers, wherever they stand: at the owners of their ranges, of this worker and others, or with
   servers. */
#include "core/replica/servers.h"
#include "core/train/tower.h"

/* A kernel has the slots of its range one behind another: [slot 0 of `count`][slot 1 of `count`]. */
struct part {
    copse_queue *queue;
    copse_buffer *buffer;
    size_t offset, size; /* in the buffer, bytes */
    size_t at;           /* in the variable, elements */
};

static bool part_of(const copse_tower_optimizer *t, const copse_variable *v, uint32_t slot,
                    const struct copse_slot_range *range, struct part *out)
{
    const uint64_t first = COPSE_MAX(range->first, v->first);
    const uint64_t end = COPSE_MIN(range->first + range->count, v->first + v->count);
    if (first >= end)
        return false;
    *out = (struct part){
        .queue = t->strategy->replicas[range->rank].queue,
        .buffer = range->buffer,
        .offset = (size_t)(4 * (slot * range->count + first - range->first)),
        .size = (size_t)(4 * (end - first)),
        .at = (size_t)(first - v->first),
    };
    return true;
}

static copse_status with_server(copse_tower_optimizer *t, const struct copse_tower_bucket *b, uint32_t slot,
                                bool is_set, float *values)
{
    struct copse_server *server = t->strategy->servers->at[b->variable->server].server;
    return server->table->slot(server, b->group, 0, slot, is_set, b->variable->count, values);
}

/* What this worker's replicas have of it; the rest stays. */
static copse_status read_own(const copse_tower_optimizer *t, const struct copse_tower_bucket *b,
                             uint32_t slot, float *values)
{
    const struct copse_slot_range *list;
    struct part p;
    size_t count;
    copse__exchange_slots(t->strategy->store.exchange, b->id, &list, &count);
    for (size_t i = 0; i < count; i++) {
        if (!part_of(t, b->variable, slot, &list[i], &p))
            continue;
        COPSE_TRY(copse_queue_read(p.queue, p.buffer, p.offset, values + p.at, p.size));
        COPSE_TRY(copse_queue_finish(p.queue));
    }
    return COPSE_OK;
}

copse_status copse__tower_read_slot(copse_tower_optimizer *t, const struct copse_tower_bucket *b,
                                    uint32_t slot, float *values)
{
    if (t->strategy->servers)
        return with_server(t, b, slot, false, values);
    memset(values, 0, (size_t)b->variable->count * sizeof *values);
    const copse_status s = read_own(t, b, slot, values);
    return s == COPSE_ERR_TIMEOUT
               ? s
               : copse__tower_join(t, b->variable->name, (uint32_t *)(void *)values,
                                   (size_t)b->variable->count, s);
}

copse_status copse__tower_write_slot(copse_tower_optimizer *t, const struct copse_tower_bucket *b,
                                     uint32_t slot, const float *values)
{
    const struct copse_slot_range *list;
    struct part p;
    size_t count;
    if (t->strategy->servers)
        return with_server(t, b, slot, true, (float *)(uintptr_t)values);
    copse__exchange_slots(t->strategy->store.exchange, b->id, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (part_of(t, b->variable, slot, &list[i], &p))
            COPSE_TRY(copse_queue_write(p.queue, p.buffer, p.offset, values + p.at, p.size));
    return COPSE_OK;
}
