/* SPDX-License-Identifier: MIT */
/* References to a device, the memory of handles, and the sticky flag of a lost device. */
#include "core/device/device.h"
#include "core/device/pace.h"

void *copse__handle_alloc(struct copse_mem *m, size_t size, size_t tail, void **priv)
{
    size_t bytes;
    size = copse__round_up(size, 16);
    if (!copse__add(size, tail, &bytes))
        return NULL;
    unsigned char *p = copse__alloc(m, bytes, 1);
    if (p)
        *priv = p + size;
    return p;
}

copse_status copse__device_check(copse_device *dev)
{
    if (!atomic_load_explicit(&dev->is_lost, memory_order_relaxed))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_DEVICE_LOST,
                      "device: %s was lost by an earlier call; release it and open it again",
                      dev->info.id);
}

copse_status copse__device_result(copse_device *dev, copse_status s)
{
    if (s == COPSE_ERR_DEVICE_LOST &&
        !atomic_exchange_explicit(&dev->is_lost, true, memory_order_relaxed))
        copse__pace_note_loss(dev);
    return s;
}

copse_device *copse_device_retain(copse_device *dev)
{
    if (dev)
        copse__ref(&dev->refs);
    return dev;
}

void copse_device_release(copse_device **at)
{
    if (!at || !*at)
        return;
    copse_device *dev = *at;
    *at = NULL;
    if (copse__unref(&dev->refs))
        dev->close(dev);
}
