/* SPDX-License-Identifier: MIT */
/* The memory of an open device, as its driver and its lender report it. */
#include "core/device/device.h"

copse_status copse__device_memory(copse_device *dev, struct copse_device_memory *out)
{
    *out = (struct copse_device_memory){ 0 };
    COPSE_TRY(copse__device_check(dev));
    COPSE_TRY(copse__device_result(dev, dev->backend->memory(dev, out)));
    copse__import_memory(dev->import, out);
    return COPSE_OK;
}

copse_status copse_device_memory(copse_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct copse_device_memory m;
    COPSE_TRY(copse_need("device: memory", dev, free_bytes, total_bytes));
    *free_bytes = *total_bytes = 0;
    COPSE_TRY(copse__device_memory(dev, &m));
    *free_bytes = m.free;
    *total_bytes = m.total;
    return COPSE_OK;
}
