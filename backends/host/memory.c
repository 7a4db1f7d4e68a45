/* SPDX-License-Identifier: MIT */
/* Buffers of the host backend: aligned host memory, or memory of the application. */
#include "backends/host/host_internal.h"

#define ALIGNMENT 256

copse_status copse_host_memory(copse_device *dev, struct copse_device_memory *out)
{
    (void)dev, (void)out; /* unknown */
    return COPSE_OK;
}

copse_status copse_host_buffer_init(copse_buffer *buf)
{
    struct host_buffer *b = buf->priv;
    b->bytes =
        buf->host ? buf->host : copse__alloc_aligned(&buf->dev->base->mem, buf->size, ALIGNMENT);
    return b->bytes ? COPSE_OK
                    : copse_fail(COPSE_ERR_NO_DEVICE_MEMORY, "host: no memory for a buffer of %zu",
                                 buf->size);
}

void copse_host_buffer_fini(copse_buffer *buf)
{
    struct host_buffer *b = buf->priv;
    if (!buf->host)
        copse__free_aligned(&buf->dev->base->mem, b->bytes);
}

unsigned char *copse_host_at(const struct copse_binding *b)
{
    return ((struct host_buffer *)b->buffer->priv)->bytes + b->offset;
}
