/* SPDX-License-Identifier: MIT */
/* Memory plan: input are values with lifetimes, output are offsets in a few arenas. Pure integers,
   no device. */
#ifndef COPSE_PLAN_H
#define COPSE_PLAN_H

#include "core/base/base.h"

struct copse_allocation {
    size_t size;          /* bytes, > 0, already rounded to the alignment */
    uint32_t first, last; /* the times at which it is alive, inclusive */
    uint32_t arena;       /* out */
    size_t offset;        /* out */
};

/* Arenas of at most `limit` bytes each; `arena_bytes` receives up to `room` sizes.
   COPSE_ERR_NO_DEVICE_MEMORY if an allocation is larger than `limit` or `room` is too small. */
copse_status copse__plan(struct copse_mem *mem, struct copse_allocation *allocations, size_t count,
                         size_t limit, size_t *arena_bytes, uint32_t room, uint32_t *arenas);

#endif
