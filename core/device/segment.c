/* SPDX-License-Identifier: MIT */
/* Segments: commands recorded once and replayed. */
#include "core/device/device.h"

static void destroy(struct copse_segment *seg)
{
    struct copse_mem *mem = &seg->queue->dev->base->mem;
    for (size_t i = 0; i < seg->count; i++)
        for (uint32_t j = 0; j < seg->commands[i].binding_count; j++)
            copse_buffer_release(&seg->commands[i].bindings[j].buffer);
    copse__free(mem, seg->commands);
    copse__free(mem, seg);
}

copse_status copse__segment_create(copse_queue *q, const struct copse_command *commands,
                                   size_t count, struct copse_segment **out)
{
    copse_device *dev = q->dev;
    struct copse_mem *mem = &dev->base->mem;
    copse_status s = COPSE_OK;
    void *priv = NULL;

    *out = NULL;
    COPSE_TRY(copse__device_check(dev));
    struct copse_segment *seg =
        copse__handle_alloc(mem, sizeof *seg, dev->backend->segment_priv, &priv);
    if (!seg)
        return copse_fail(COPSE_ERR_NO_MEMORY, "segment: no memory for the handle");
    seg->queue = q;
    seg->priv = priv;
    seg->commands = copse__alloc(mem, count, sizeof *commands);
    if (!seg->commands) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "segment: no memory for %zu commands", count);
        goto fail;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_empty = false;
        s = copse__command_check(dev, &commands[i], &is_empty);
        if (s) {
            copse_note(s, "while recording command %zu of %zu", i, count);
            goto fail;
        }
        if (is_empty)
            continue;
        seg->commands[seg->count++] = commands[i];
        for (uint32_t j = 0; j < commands[i].binding_count; j++)
            copse_buffer_retain(commands[i].bindings[j].buffer);
    }
    if (seg->count) {
        s = copse__device_result(dev, dev->backend->segment_init(seg));
        if (s) {
            copse_note(s, "while recording %zu commands for %s", seg->count, dev->info.id);
            dev->backend->segment_fini(seg);
            goto fail;
        }
    }
    *out = seg;
    return COPSE_OK;

fail:
    destroy(seg);
    return s;
}

copse_status copse__segment_replay(struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    if (seg->count == 0)
        return copse__device_check(q->dev);
    COPSE_TRY(copse__queue_begin(q));
    seg->last = copse__queue_next(q);
    return copse__device_result(q->dev, q->dev->backend->replay(seg));
}

copse_status copse__segment_settle(const struct copse_segment *seg)
{
    copse_queue *q = seg->queue;
    if (seg->last > q->submitted)
        COPSE_TRY(copse_queue_submit(q, NULL));
    return copse__queue_await(q, seg->last);
}

void copse__segment_release(struct copse_segment **at)
{
    if (!at || !*at)
        return;
    struct copse_segment *seg = *at;
    copse_device *dev = seg->queue->dev;
    *at = NULL;

    if (seg->last > seg->queue->reached && !atomic_load(&dev->is_lost) && copse__segment_settle(seg))
        copse__log(&dev->base->log, COPSE_LOG_ERROR, "segment: released while in use: %s",
                   copse_last_error());
    if (seg->count)
        dev->backend->segment_fini(seg);
    destroy(seg);
}
