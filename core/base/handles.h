/* SPDX-License-Identifier: MIT */
/* Memory for handles that an application may use after release: blocks of one size whose addresses
   stay readable until all are freed together. A returned block is reused, the longest unused first,
   if no new block is left and COPSE_HANDLES_IDLE are unused. */
#ifndef COPSE_HANDLES_H
#define COPSE_HANDLES_H

#include "core/base/base.h"

#define COPSE_HANDLES      128 /* blocks per allocation */
#define COPSE_HANDLES_IDLE 64  /* returned blocks, before the first of them is reused */

struct copse_handles {
    struct copse_handle_room *rooms;      /* newest first */
    size_t fresh;                         /* blocks of the newest group that were never used */
    struct copse_handle *oldest, *newest; /* returned, in that order */
    size_t idle;                          /* their number */
};

/* A zeroed block of `size` bytes, the same in every call; NULL without memory. Its allocation does
   not count as a live block, because it is kept. */
void *copse__handle_take(struct copse_handles *h, struct copse_mem *mem, size_t size);
/* Whether a block has this address; the block may have been released. The address is not read.
   `size` as above. */
bool copse__handle_is(const struct copse_handles *h, size_t size, const void *block);
/* The block keeps its bytes until it is reused. */
void copse__handle_give(struct copse_handles *h, void *block);
void copse__handles_fini(struct copse_handles *h, struct copse_mem *mem);

#endif
