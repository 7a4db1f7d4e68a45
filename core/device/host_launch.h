/* SPDX-License-Identifier: MIT */
/* Launches of a device that the host computes: of kernels that are blocked there, where the
   application allows it. */
#ifndef COPSE_HOST_LAUNCH_H
#define COPSE_HOST_LAUNCH_H

#include "core/device/device.h"

/* Whether the host computes a command. */
static inline bool copse__is_on_host(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_DISPATCH && c->kernel->on_host;
}

/* A launch with host memory for all of its buffers. */
struct copse_host_launch;

/* `c` is a checked dispatch of a kernel with `on_host`. It is copied, and its buffers are
   retained. */
copse_status copse__host_launch_create(copse_device *dev, const struct copse_command *c,
                                       struct copse_host_launch **out);
void copse__host_launch_release(copse_device *dev, struct copse_host_launch **launch);
/* Submit the queue's work and wait for it, read the buffers, run the kernel's host function, and
   append writes of the results. */
copse_status copse__host_launch_run(copse_queue *q, struct copse_host_launch *launch);

#endif
