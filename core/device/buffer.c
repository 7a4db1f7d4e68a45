/* SPDX-License-Identifier: MIT */
/* Buffers: creation, the pool by size class, and release while queued work still needs them. */
#include "core/device/device.h"

#define MIN_CLASS_BYTES ((size_t)256)

/* At least eight steps per doubling, so that a class wastes at most an eighth or so. */
static size_t size_class(size_t size)
{
    size_t step = MIN_CLASS_BYTES;
    while (step <= SIZE_MAX / 16 && step * 8 < size)
        step *= 2;
    return size > SIZE_MAX - step ? size : copse__round_up(size, step);
}

/* ---- release ---- */

static void destroy(copse_device *dev, copse_buffer *buf)
{
    dev->backend->buffer_fini(buf);
    copse__import_give(dev->import, buf->host ? 0 : buf->size);
    copse__free(&dev->base->mem, buf);
}

/* Whether every ticket that may need the buffer is reached. Locked. */
static bool is_idle(const copse_device *dev, const copse_buffer *buf)
{
    if (atomic_load_explicit(&dev->is_lost, memory_order_relaxed))
        return true;
    for (const struct copse_queue *q = dev->queues; q; q = q->next)
        if (buf->after[q->slot] > q->reached)
            return false;
    return true;
}

/* Into the pool, or onto a list of what the caller destroys outside the lock. Locked. */
static void retire(copse_device *dev, copse_buffer *buf, copse_buffer **dead)
{
    copse_buffer **list = buf->is_pooled && !atomic_load(&dev->is_lost) ? &dev->pool : dead;
    buf->next = *list;
    *list = buf;
}

static void destroy_all(copse_device *dev, copse_buffer *list)
{
    for (copse_buffer *next; list; list = next) {
        next = list->next;
        destroy(dev, list);
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
            retire(dev, buf, &dead);
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

/* Which queue used the buffer is not kept: all that is queued now has to pass. */
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
        retire(dev, buf, &dead);
    } else {
        buf->next = dev->garbage;
        dev->garbage = buf;
    }
    copse__mutex_unlock(&dev->lock);
    destroy_all(dev, dead);
    copse_device_release(&dev);
}

/* ---- creation ---- */

static copse_status init_once(copse_device *dev, size_t size, void *host, copse_buffer **out)
{
    struct copse_mem *mem = &dev->base->mem;
    void *priv = NULL;
    COPSE_TRY(copse__import_take(dev->import, host ? 0 : size));
    copse_buffer *buf = copse__handle_alloc(mem, sizeof *buf, dev->backend->buffer_priv, &priv);
    if (!buf) {
        copse__import_give(dev->import, host ? 0 : size);
        return copse_fail(COPSE_ERR_NO_MEMORY, "buffer: no memory for the handle");
    }
    atomic_init(&buf->refs, 1);
    buf->dev = dev;
    buf->size = size;
    buf->host = host;
    buf->priv = priv;

    atomic_fetch_add_explicit(&mem->device_calls, 1, memory_order_relaxed);
    const copse_status s = copse__device_result(dev, dev->backend->buffer_init(buf));
    if (s) {
        destroy(dev, buf);
        return s;
    }
    *out = buf;
    return COPSE_OK;
}

/* What was released may be in the way of what is wanted. */
static copse_status init(copse_device *dev, size_t size, void *host, copse_buffer **out)
{
    copse_status s = init_once(dev, size, host, out);
    if (s == COPSE_ERR_NO_DEVICE_MEMORY) {
        copse__buffers_purge(dev);
        s = init_once(dev, size, host, out);
    }
    if (s)
        return copse_note(s, "while making a buffer of %zu bytes on %s", size, dev->info.id);
    copse_device_retain(dev);
    return COPSE_OK;
}

static copse_status check_size(copse_device *dev, size_t *size)
{
    if (*size == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "buffer: a buffer needs at least one byte");
    if (*size > SIZE_MAX - 3 || copse__round_up(*size, 4) > dev->limits->max_buffer_bytes)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "buffer: %zu bytes; the largest buffer on %s has %llu", *size,
                          dev->info.id, (unsigned long long)dev->limits->max_buffer_bytes);
    *size = copse__round_up(*size, 4);
    return COPSE_OK;
}

copse_status copse_buffer_create(copse_device *dev, const struct copse_buffer_params *params,
                                 copse_buffer **out)
{
    COPSE_TRY(copse_need("buffer", dev, params, out));
    *out = NULL;
    COPSE_TRY(copse__device_check(dev));
    size_t size = params->size;
    COPSE_TRY(check_size(dev, &size));

    const uint32_t alignment = dev->limits->host_import_alignment;
    if (params->host && alignment == 0)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "buffer: %s cannot use host memory itself",
                          dev->info.id);
    if (params->host && ((uintptr_t)params->host % alignment || params->size % alignment))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "buffer: host memory at %p of %zu bytes; %s needs multiples of %u",
                          params->host, params->size, dev->info.id, alignment);
    return init(dev, size, params->host, out);
}

copse_status copse__buffer_acquire(copse_device *dev, size_t size, copse_buffer **out)
{
    *out = NULL;
    COPSE_TRY(copse__device_check(dev));
    COPSE_TRY(check_size(dev, &size));
    size = (size_t)COPSE_MIN(size_class(size), dev->limits->max_buffer_bytes);

    copse__garbage_collect(dev);
    copse__mutex_lock(&dev->lock);
    copse_buffer **at = &dev->pool, *buf;
    while (*at && (*at)->size != size)
        at = &(*at)->next;
    buf = *at;
    if (buf)
        *at = buf->next;
    copse__mutex_unlock(&dev->lock);

    if (!buf) {
        COPSE_TRY(init(dev, size, NULL, out));
        (*out)->is_pooled = true;
        return COPSE_OK;
    }
    atomic_store(&buf->refs, 1);
    buf->next = NULL;
    copse_device_retain(dev);
    *out = buf;
    return COPSE_OK;
}

size_t copse_buffer_size(const copse_buffer *buf)
{
    return buf ? buf->size : 0;
}
