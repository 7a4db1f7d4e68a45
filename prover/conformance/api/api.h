/* SPDX-License-Identifier: MIT */
/* Shared by the files of mode api: what the driver's queues, copies, reads and limits do, whatever
   the kernel. All numbers are whole, so every word is exact. A failure is never that of a
   kernel. */
#ifndef COPSE_CORE_CONFORMANCE_API_H
#define COPSE_CORE_CONFORMANCE_API_H

#include "prover/conformance/verdict/mode.h"

#define COPSE_API_WORDS   ((size_t)1 << 16) /* of most buffers */
#define COPSE_API_BYTES   (COPSE_WORD_BYTES * COPSE_API_WORDS)
#define COPSE_API_BUFFERS 4

/* A queue and buffers of a case (api_rig.c). */
struct copse_api_rig {
    struct copse_conform_run *run;
    struct copse_conform_outcome *out;
    copse_queue *queue;
    copse_buffer *buffers[COPSE_API_BUFFERS]; /* each of `bytes` */
    size_t bytes;
    uint32_t *words; /* host memory of as many bytes */
};
/* After a failure, close it too. */
copse_status copse__api_open(struct copse_conform_run *r, struct copse_conform_outcome *out,
                             size_t bytes, struct copse_api_rig *g);
void copse__api_close(struct copse_api_rig *g);

uint32_t copse__api_word(float value);
/* to = -from, over `words` words at `from_offset` and `to_offset` bytes. */
copse_status copse__api_negate(struct copse_api_rig *g, copse_queue *q, copse_buffer *from,
                               size_t from_offset, copse_buffer *to, size_t to_offset,
                               size_t words);
/* Read `buffer` into g->words and wait; fail the case with "WHAT: word N is ..., not ..." unless
   all words are this value. */
copse_status copse__api_expect(struct copse_api_rig *g, copse_queue *q, copse_buffer *buffer,
                               float value, const char *what);

/* Cases (api_order.c, api_copy.c, api_limit.c). */
copse_conform_fn copse__api_chain, copse__api_submissions, copse__api_replays, copse__api_hazards,
    copse__api_tickets, copse__api_two_queues;
copse_conform_fn copse__api_ranges, copse__api_large, copse__api_reads;
copse_conform_fn copse__api_alignment, copse__api_largest, copse__api_memory;

/* The mode. */
copse_status copse__conform_api(struct copse_conform_run *r);

#endif
