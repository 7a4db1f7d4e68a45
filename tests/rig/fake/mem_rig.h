/* SPDX-License-Identifier: MIT */
/* Checked memory whose allocations fail on demand. */
#ifndef COPSE_MEM_RIG_H
#define COPSE_MEM_RIG_H

#include "core/base/base.h"
#include "tests/rig/rig.h"

static int refuse; /* the allocator fails while this is set */

static inline void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    return refuse ? NULL : realloc(block, size);
}

static struct copse_mem mem = { .resize = resize };

#endif
