/* SPDX-License-Identifier: MIT */
/* Digests of ranges of device memory: each device computes those of its own memory, the host
   compares them. Two ranges of equal words have equal digests. A digest is a list of words, each
   for 128 x 128 words of the range, or for more of a range that is longer than it was to be; words
   that differ in one place only always give another digest. */
#ifndef COPSE_DIGEST_H
#define COPSE_DIGEST_H

#include "core/device/device.h"

#define COPSE_DIGEST_BLOCK 128u /* words */

/* The digests of a device. Each row has one digest for each range. */
struct copse_digests {
    copse_queue *queue;
    copse_buffer *parts;  /* of one range: a word for each block, and for each block of these */
    copse_buffer *buffer; /* [rows][stride] bytes: the digests on the device */
    unsigned char *bytes; /* the same, as read back */
    size_t *first;        /* [ranges + 1]: where a digest begins in a row [bytes], and the stride */
    uint32_t rows, ranges;
};

/* For `ranges` ranges of counts[i] words. */
copse_status copse__digests_create(copse_queue *queue, const uint64_t *counts, uint32_t ranges,
                                   uint32_t rows, struct copse_digests *out);
/* A range may have this number of words from now on. Allocates, unless an earlier call had as
   many. */
copse_status copse__digests_room(struct copse_digests *d, uint64_t words);
/* `is_idle`: no read can still land. A zeroed struct is fine. */
void copse__digests_free(struct copse_digests *d, bool is_idle);

/* Queue the digest of the words of `range`: counts[i] of them, or any number within the room. */
copse_status copse__digest_queue(struct copse_digests *d, uint32_t row, uint32_t i,
                                 const struct copse_binding *range);
/* Queue the read of all digests. */
copse_status copse__digests_read(struct copse_digests *d);
/* Continue a hash with digest `i` of a row that has been read. */
uint64_t copse__digest_hash(const struct copse_digests *d, uint32_t row, uint32_t i, uint64_t hash);
/* Compare digest `i` of two rows that have been read, of one device or of two with equal ranges. */
bool copse__digest_equal(const struct copse_digests *a, uint32_t row_a,
                         const struct copse_digests *b, uint32_t row_b, uint32_t i);

#endif
