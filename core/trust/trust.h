/* SPDX-License-Identifier: MIT */
/* What is known of the kernels of each device, driver and library version: which kernels are
   blocked, how fast variants are, which programs passed their cross-check. It is kept in the
   context and, as small texts, in the kernel cache. This room opens no device. */
#ifndef COPSE_TRUST_H
#define COPSE_TRUST_H

#include "copse/device.h"
#include "core/base/base.h"
#include "core/base/platform.h"

struct copse_trust {
    struct copse_base *base; /* of the context */
    /* whether the library has a kernel of this name */
    bool (*is_kernel)(const char *name, size_t length);
    /* guards the lists; a caller that holds it may take the context's lock, never the reverse */
    copse_mutex lock;
    struct copse_block_list *block_lists; /* by device and driver */
    struct copse_tunings *tunings;        /* likewise */
    const char *const *const *records;    /* that ship with the library (records.h) */
    struct copse_checked_list *checked;   /* likewise */
};

copse_status copse__trust_init(struct copse_trust *t, struct copse_base *base,
                               bool (*is_kernel)(const char *name, size_t length));
void copse__trust_fini(struct copse_trust *t);

#endif
