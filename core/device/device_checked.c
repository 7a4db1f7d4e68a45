/* SPDX-License-Identifier: MIT */
/* Programs that passed their cross-check on an open device. See core/trust/checked.h. */
#include "core/device/device.h"
#include "core/trust/checked.h"

copse_status copse__device_has_checked(const copse_device *dev, uint64_t program, bool *has)
{
    return copse__checked_has(&dev->ctx->trust, &dev->info, program, has);
}

copse_status copse__device_note_checked(const copse_device *dev, uint64_t program)
{
    return copse__checked_add(&dev->ctx->trust, &dev->info, program);
}

copse_status copse__device_forget_checked(const copse_device *dev)
{
    return copse__checked_clear(&dev->ctx->trust, &dev->info);
}
