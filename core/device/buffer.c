/* SPDX-License-Identifier: MIT */
/* Creation of buffers, new or from the pool, which has size classes. */
#include "core/device/device.h"

#define MIN_CLASS_BYTES ((size_t)256)
#define ASKED_BYTES     ((size_t)1 << 20)

/* At least 16 steps per doubling, so that a class wastes at most about 6 %. */
static size_t size_class(size_t size)
{
    size_t step = MIN_CLASS_BYTES;
    while (step <= SIZE_MAX / 64 && step * 32 < size)
        step *= 2;
    return size > SIZE_MAX - step ? size : copse__round_up(size, step);
}

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

    atomic_fetch_add(&dev->bytes, host ? 0 : size);
    atomic_fetch_add(&dev->imports, host != NULL);
    atomic_fetch_add_explicit(&mem->device_calls, 1, memory_order_relaxed);
    const copse_status s = copse__device_result(dev, dev->backend->buffer_init(buf));
    if (s) {
        copse__buffer_destroy(dev, buf);
        return s;
    }
    *out = buf;
    return COPSE_OK;
}

/* Whether a buffer would pass the budget of the device. Small ones are not asked for. */
static bool is_short(copse_device *dev, size_t size, struct copse_device_memory *m)
{
    return size >= ASKED_BYTES && copse__device_memory(dev, m) == COPSE_OK && m->is_free_known &&
           m->free < size;
}

/* Drivers allocate more than the budget, and then move memory of this program or of others to the
   host. Released buffers go first; what is needed beyond is allocated, with one line. */
static void keep_budget(copse_device *dev, size_t size)
{
    struct copse_device_memory m;
    if (!is_short(dev, size, &m))
        return;
    copse__buffers_purge(dev);
    if (is_short(dev, size, &m) && !atomic_exchange(&dev->is_told_short, true))
        copse__log(&dev->base->log, COPSE_LOG_WARN,
                   "device: %s has %llu KiB left of its budget of memory, and a buffer needs %zu: "
                   "it may be slow; smaller batches or a memory_budget (--memory) need less",
                   dev->info.id, (unsigned long long)(m.free >> 10), size >> 10);
}

/* Free released buffers first, because they may use the needed memory. */
static copse_status buffer_make(copse_device *dev, size_t size, void *host, copse_buffer **out)
{
    if (!host)
        keep_budget(dev, size);
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
    COPSE_TRY(copse_no_reserved(copse_buffer_params, params));
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
    return buffer_make(dev, size, params->host, out);
}

copse_status copse__buffer_on(copse_device *dev, void *host, size_t size, copse_buffer **out)
{
    *out = NULL;
    COPSE_TRY(copse__device_check(dev));
    COPSE_TRY(check_size(dev, &size));
    return buffer_make(dev, size, host, out);
}

size_t copse__buffer_room(const copse_device *dev, size_t size)
{
    return (size_t)COPSE_MIN(size_class(size), dev->limits->max_buffer_bytes);
}

copse_status copse__buffer_acquire(copse_device *dev, size_t size, copse_buffer **out)
{
    *out = NULL;
    COPSE_TRY(copse__device_check(dev));
    COPSE_TRY(check_size(dev, &size));
    size = copse__buffer_room(dev, size);

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
        COPSE_TRY(buffer_make(dev, size, NULL, out));
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
