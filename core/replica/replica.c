/* SPDX-License-Identifier: MIT */
/* Replicas: opening their devices, queues and step buffers. */
#include "core/replica/portable_probe.h"
#include "core/replica/strategy.h"

/* How many replicas of the list share the device of replica r, which of them r is, and the first of
   them. */
static struct copse_device_params part_of(const char *const *devices, size_t count, size_t r,
                                          size_t *first)
{
    struct copse_device_params p = { .part = 0 };
    for (size_t i = count; i-- > 0;)
        if (strcmp(devices[i], devices[r]) == 0) {
            p.part += i < r;
            p.parts++;
            *first = i;
        }
    return p;
}

/* Replicas of each entry of the list: with portable bits there is a fixed number of them. */
static uint32_t replicas_each(const copse_strategy *st, size_t count)
{
    return st->params.portable_shards > 0 ? st->params.portable_shards / (uint32_t)count : 1;
}

static copse_status open_one(copse_strategy *st, const char *const *devices, size_t count)
{
    const uint32_t index = st->replica_count++, each = replicas_each(st, count),
                   entry = index / each;
    size_t twin = entry;
    struct copse_device_params part = part_of(devices, count, entry, &twin);
    struct copse_replica *r = &st->replicas[index];
    part.is_portable = st->params.portable_shards > 0;
    twin = each > 1 ? (size_t)entry * each : twin;
    if ((st->table->shares_devices || each > 1) && twin < index) { /* a logical core, or a shard */
        r->dev = copse_device_retain(st->replicas[twin].dev);
        r->queue = copse_queue_retain(st->replicas[twin].queue);
    } else {
        COPSE_TRY(copse_device_open(st->ctx, devices[entry],
                                    st->table->shares_devices ? NULL : &part, &r->dev));
        COPSE_TRY(copse__device_refuse_unreliable(r->dev));
        if (part.is_portable && part.part == 0)
            COPSE_TRY(copse__portable_probe(r->dev));
        COPSE_TRY(copse_queue_create(r->dev, &r->queue));
        snprintf(r->queue->owner, sizeof r->queue->owner, "replica %u: ", (unsigned)index);
    }
    COPSE_TRY(copse_buffer_create(
        r->dev, &(struct copse_buffer_params){ .size = 4 * COPSE_STEP_WORDS }, &r->step));
    return COPSE_OK;
}

copse_status copse__replica_transfer(struct copse_replica *r)
{
    return r->transfer ? COPSE_OK : copse__queue_create(r->dev, true, &r->transfer);
}

copse_status copse__replicas_open(copse_strategy *st, const char *const *devices, size_t count)
{
    const uint32_t each = replicas_each(st, count);
    for (size_t i = 0; i < count * each; i++)
        COPSE_TRY(copse_note(open_one(st, devices, count), "while opening replica %zu on %s", i,
                             devices[i / each]));
    return COPSE_OK;
}

void copse__replicas_close(copse_strategy *st)
{
    for (uint32_t r = 0; r < st->replica_count; r++) {
        copse_buffer_release(&st->replicas[r].step);
        copse_queue_release(&st->replicas[r].transfer);
        copse_queue_release(&st->replicas[r].queue);
        copse_device_release(&st->replicas[r].dev);
    }
}

copse_status copse__replica_buffer(const struct copse_replica *r, size_t bytes, copse_buffer **out)
{
    COPSE_TRY(copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = bytes }, out));
    COPSE_TRY(copse_queue_fill(r->queue, *out, 0, bytes, 0));
    return copse_queue_finish(r->queue);
}

uint64_t copse__replicas_binding_bytes(const copse_strategy *st)
{
    uint64_t bytes = UINT64_MAX;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_limits *l = st->replicas[r].dev->limits;
        bytes = COPSE_MIN(bytes, COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes));
    }
    return bytes;
}
