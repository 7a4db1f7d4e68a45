/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the accelerator strategy: a device of each available backend. */
#ifndef COPSE_ACCELERATOR_RIG_H
#define COPSE_ACCELERATOR_RIG_H

#include "tests/rig/train/step_rig.h"

static const char *backends[] = { "host:0", "opencl:0", "vulkan:0" };

static bool is_found(const char *id)
{
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].id, id) == 0 && list[i].is_usable)
            return true;
    printf("%s is not there, left out\n", id);
    return false;
}

#endif
