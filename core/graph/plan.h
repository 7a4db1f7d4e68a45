/* SPDX-License-Identifier: MIT */
/* Memory plan: input are values with lifetimes, output are offsets in a few memory blocks. Pure integers, no
   device. */
#ifndef COPSE_PLAN_H
#define COPSE_PLAN_H

#include "core/base/base.h"

struct copse_span {
    size_t size;          /* bytes, > 0, already rounded to the alignment */
    uint32_t first, last; /* the times at which it is alive, inclusive */
    uint32_t chunk;       /* out */
    size_t offset;        /* out */
};

/* Blocks of at most `limit` bytes each; `chunk_bytes` receives up to `room` sizes. COPSE_ERR_NO_DEVICE_MEMORY if a
   span is larger than `limit` or `room` is too small. */
copse_status copse__plan(struct copse_mem *mem, struct copse_span *spans, size_t count,
                         size_t limit, size_t *chunk_bytes, uint32_t room, uint32_t *chunks);

#endif
