/* SPDX-License-Identifier: MIT */
/* A layer over any backend that makes one kernel faulty: it changes one word of its result,
   crashes, hangs or loses the device when the kernel is dispatched. It can also limit the number of
   queues. Devices are "lying:0" ... */
#ifndef COPSE_LYING_BACKEND_H
#define COPSE_LYING_BACKEND_H

#include "core/device/device.h"

enum lie { LIE_NONE, LIE_CORRUPT, LIE_CRASH, LIE_HANG, LIE_LOSE, LIE_QUEUES };

/* Set before the context is made. */
struct copse_lie {
    enum lie how;
    const char *kernel; /* "matmul_wide"; for queues, their number: "2" */
    atomic_uint met;    /* dispatches of it, recorded ones once */
};
extern struct copse_lie copse_lie;

/* For copse__context_create_with: the layer over the backend with this name, and host. NULL if this
   build does not have the backend. Lifetime: until the next call. */
const struct copse_backend *const *lying_backends(const char *inner);

#endif
