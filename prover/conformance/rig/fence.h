/* SPDX-License-Identifier: MIT */
/* Buffers for conformance: on the host and on CPUs behind a driver, in a helper process, each ends
   at a page without access, so that an access past its end ends the process: verdict CRASH.
   Elsewhere it ends with a guard band. */
#ifndef COPSE_CORE_CONFORMANCE_FENCE_H
#define COPSE_CORE_CONFORMANCE_FENCE_H

#include "core/device/device.h"

struct copse_fenced {
    copse_buffer *buffer;
    void *block; /* NULL: no fence */
    size_t block_size;
};

bool copse__fence_is_used(const copse_device *dev);
/* Bytes of a buffer of `words` words behind a band: with a second band, or up to the fence. */
size_t copse__fence_room(const copse_device *dev, size_t words);
/* Bytes that a kernel binds. */
size_t copse__fence_binding(const copse_device *dev, size_t words);
copse_status copse__fence_open(copse_device *dev, size_t bytes, struct copse_fenced *f);
/* After the buffer's last command was finished. */
void copse__fence_close(copse_device *dev, struct copse_fenced *f);

#endif
