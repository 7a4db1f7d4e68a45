/* SPDX-License-Identifier: MIT */
/* A device that an application lent, internal form. */
#ifndef COPSE_IMPORT_H
#define COPSE_IMPORT_H

#include "core/device/device.h"

struct copse_import {
    struct copse_import *next;
    uint32_t users; /* guarded by the context's lock, like the list */
    const struct copse_backend *backend;
    struct copse_device_info info;
    struct copse_foreign_device foreign;
    copse_mutex lock;     /* of the queue, unless the application has a lock */
    atomic_ullong in_use; /* bytes of buffers */
};

/* Free it; it is not on a list. */
void copse__import_destroy(copse_context *ctx, struct copse_import *im);

#endif
