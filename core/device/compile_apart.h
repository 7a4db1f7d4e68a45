/* SPDX-License-Identifier: MIT */
/* Kernels that other processes compile, for a driver that compiles one at a time in a process. */
#ifndef COPSE_COMPILE_APART_H
#define COPSE_COMPILE_APART_H

#include "core/device/device.h"

/* Have the application's function compile kernels of the device, and report progress. What it
   leaves out is not in the cache afterwards. dev->ctx->compile is set. */
void copse__compile_apart(copse_device *dev, const struct copse_kernel_want *const *list,
                          size_t count);

#endif
