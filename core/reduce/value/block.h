/* SPDX-License-Identifier: MIT */
/* A dense array in the memory of one device or of the host: the storage of values outside of
   graphs. */
#ifndef COPSE_BLOCK_H
#define COPSE_BLOCK_H

#include "copse/tensor.h"
#include "core/device/device.h"

struct copse_block {
    copse_refs refs;
    copse_context *ctx;   /* retained */
    copse_queue *queue;   /* retained; NULL = host memory */
    copse_buffer *buffer; /* of the pool; whole words */
    void *host;           /* without a queue: the array */
    copse_type type;
    uint64_t count; /* elements, may be 0 */
};

/* Uninitialised on the device of `queue`, or on the host (NULL). */
copse_status copse__block_create(copse_context *ctx, copse_queue *queue, copse_type type,
                                 uint64_t count, struct copse_block **out);
struct copse_block *copse__block_retain(struct copse_block *b);
void copse__block_release(struct copse_block **b);
/* Whole contents, `count` elements. Reading waits, with the library's deadline; after
   COPSE_ERR_TIMEOUT, and only then, `values` is still in use by the device. */
copse_status copse__block_write(struct copse_block *b, const void *values);
copse_status copse__block_read(const struct copse_block *b, void *values);
/* A copy on another queue's device or the host; the same queue copies on the device. */
copse_status copse__block_copy(const struct copse_block *from, copse_queue *to,
                               struct copse_block **out);
/* Call it before something writes to the buffer of *at. Other holders of the block keep its
   contents: they get a new buffer with a copy. *at becomes a new block with the old buffer. The copy
   is queued after earlier work. */
copse_status copse__block_detach(struct copse_block **at);
/* Return `s`. After a failure, wait for queued work, so that no read is pending; COPSE_ERR_TIMEOUT
   if that times out. */
copse_status copse__queue_settle(copse_queue *queue, copse_status s);
copse_status copse__block_wait(const struct copse_block *b);

#endif
