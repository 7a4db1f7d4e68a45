/* SPDX-License-Identifier: MIT */
/* Memory for handles that the application may keep too long: blocks of one size whose addresses stay readable until
   everything is freed. A block that was given back is used again, the longest unused first, when no new one is left and
   COPSE_HANDLES_IDLE are unused. */
#ifndef COPSE_HANDLES_H
#define COPSE_HANDLES_H

#include "core/base/base.h"

#define COPSE_HANDLES      128 /* blocks to an allocation */
#define COPSE_HANDLES_IDLE 64  /* given back, before the first of them is used again */

struct copse_handles {
    struct copse_handle_room *rooms; /* newest first */
    size_t fresh;                    /* blocks of the newest that were never taken */
    struct copse_handle *oldest, *newest; /* given back, in that order */
    size_t idle;                     /* how many */
};

/* A zeroed block of `size` bytes, the same in every call; NULL when there is no memory. Its allocation does not count
   as a live block: it stays. */
void *copse__handle_take(struct copse_handles *h, struct copse_mem *mem, size_t size);
/* The block keeps its bytes until it is taken again. */
void copse__handle_give(struct copse_handles *h, void *block);
void copse__handles_fini(struct copse_handles *h, struct copse_mem *mem);

#endif
