/* SPDX-License-Identifier: MIT */
#include "prover/conformance/rig/fence.h"

#define BAND COPSE_ALIGNMENT

bool copse__fence_is_used(const copse_device *dev)
{
    return dev->ctx->has_fences && dev->limits->host_import_alignment > 0 &&
           (dev->info.kind == COPSE_DEVICE_CPU || dev->info.kind == COPSE_DEVICE_REFERENCE);
}

size_t copse__fence_binding(const copse_device *dev, size_t words)
{
    const size_t bytes = COPSE_WORD_BYTES * words;
    return copse__fence_is_used(dev) ? bytes : (size_t)copse__round_up(bytes, 16);
}

size_t copse__fence_room(const copse_device *dev, size_t words)
{
    return copse__fence_binding(dev, words) + (copse__fence_is_used(dev) ? BAND : 2 * BAND);
}

copse_status copse__fence_open(copse_device *dev, size_t bytes, struct copse_fenced *f)
{
    *f = (struct copse_fenced){ .buffer = NULL };
    if (!copse__fence_is_used(dev))
        return copse__buffer_acquire(dev, bytes, &f->buffer);
    void *memory = copse__fenced_alloc(bytes, &f->block, &f->block_size);
    return memory ? copse__buffer_on(dev, memory, bytes, &f->buffer)
                  : copse_fail(COPSE_ERR_NO_MEMORY,
                               "conformance: no memory of %zu bytes between pages without access",
                               bytes);
}

void copse__fence_close(copse_device *dev, struct copse_fenced *f)
{
    copse_buffer_release(&f->buffer);
    if (f->block && copse__device_check(dev) == COPSE_OK) { /* a lost device may still write */
        copse__garbage_collect(dev);
        copse__fenced_free(f->block, f->block_size);
    }
    f->block = NULL;
}
