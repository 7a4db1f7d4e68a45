/* SPDX-License-Identifier: MIT */
/* Release of buffers: they return to the pool when the queued work that may need them is done. */
#include "core/device/device.h"

void copse__buffer_destroy(copse_device *dev, copse_buffer *buf)
{
    dev->backend->buffer_fini(buf);
    copse__import_give(dev->import, buf->host ? 0 : buf->size);
    atomic_fetch_sub(&dev->bytes, buf->host ? 0 : buf->size);
    atomic_fetch_sub(&dev->imports, buf->host != NULL);
    copse__free(&dev->base->mem, buf);
}

/* Whether every ticket that may need the buffer has been reached. Locked. */
static bool is_idle(const copse_device *dev, const copse_buffer *buf)
{
    if (atomic_load_explicit(&dev->is_lost, memory_order_relaxed))
        return true;
    for (const struct copse_queue *q = dev->queues; q; q = q->next)
        if (buf->after[q->slot] > q->reached)
            return false;
    return true;
}

/* Add it to the pool, or to a list that the caller destroys outside the lock. Locked. */
static void buffer_pool_retire(copse_device *dev, copse_buffer *buf, copse_buffer **dead)
{
    copse_buffer **list = buf->is_pooled && !atomic_load(&dev->is_lost) ? &dev->pool : dead;
    buf->next = *list;
    *list = buf;
}

static void destroy_all(copse_device *dev, copse_buffer *list)
{
    for (copse_buffer *next; list; list = next) {
        next = list->next;
        copse__buffer_destroy(dev, list);
    }
}

void copse__garbage_collect(copse_device *dev)
{
    copse_buffer *dead = NULL;

    copse__mutex_lock(&dev->lock);
    for (copse_buffer **at = &dev->garbage; *at;) {
        copse_buffer *buf = *at;
        if (is_idle(dev, buf)) {
            *at = buf->next;
            buffer_pool_retire(dev, buf, &dead);
        } else {
            at = &buf->next;
        }
    }
    copse__mutex_unlock(&dev->lock);
    destroy_all(dev, dead);
}

uint64_t copse__garbage_ticket(const copse_device *dev, const copse_queue *q)
{
    uint64_t oldest = 0;
    for (const copse_buffer *buf = dev->garbage; buf; buf = buf->next) {
        const uint64_t ticket = buf->after[q->slot];
        if (ticket > q->reached && (oldest == 0 || ticket < oldest))
            oldest = ticket;
    }
    return oldest;
}

void copse__garbage_forget_slot(copse_device *dev, uint32_t slot)
{
    for (copse_buffer *buf = dev->garbage; buf; buf = buf->next)
        buf->after[slot] = 0;
}

void copse__buffers_purge(copse_device *dev)
{
    copse__garbage_collect(dev);
    copse__mutex_lock(&dev->lock);
    copse_buffer *pool = dev->pool;
    dev->pool = NULL;
    copse__mutex_unlock(&dev->lock);
    destroy_all(dev, pool);
}

copse_buffer *copse_buffer_retain(copse_buffer *buf)
{
    if (buf)
        copse__ref(&buf->refs);
    return buf;
}

/* The queue that used the buffer is not recorded, so all work queued now must complete. */
void copse_buffer_release(copse_buffer **at)
{
    if (!at || !*at)
        return;
    copse_buffer *buf = *at, *dead = NULL;
    *at = NULL;
    if (!copse__unref(&buf->refs))
        return;

    copse_device *dev = buf->dev;
    copse__mutex_lock(&dev->lock);
    for (const struct copse_queue *q = dev->queues; q; q = q->next)
        buf->after[q->slot] = copse__queue_next(q) - (q->has_open_work ? 0 : 1);
    if (is_idle(dev, buf)) {
        buffer_pool_retire(dev, buf, &dead);
    } else {
        buf->next = dev->garbage;
        dev->garbage = buf;
    }
    copse__mutex_unlock(&dev->lock);
    destroy_all(dev, dead);
    copse_device_release(&dev);
}
