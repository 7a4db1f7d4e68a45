/* SPDX-License-Identifier: MIT */
/* The exchange: memory of the flat store on every rank, and the reduction, update and handing on of
   its buckets, between any mixture of devices. Evaluates schedules; knows no optimizer by name. */
#ifndef COPSE_EXCHANGE_H
#define COPSE_EXCHANGE_H

#include "core/device/device.h"
#include "core/reduce/schedule.h"

typedef struct copse_exchange copse_exchange;

struct copse_exchange_rank {
    copse_queue *queue;
    struct copse_binding step; /* the step buffer */
};

/* The command that updates `count` elements: values from gradients, with the slots. */
struct copse_update {
    struct copse_binding values, gradients, slots, step;
    uint64_t count;
};

struct copse_exchange_params {
    copse_context *ctx;
    const struct copse_exchange_rank *ranks;
    uint32_t rank_count;
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    size_t message_bytes;
    uint32_t slots; /* optimizer words per element, 0..2; they start at zero */
    copse_status (*update)(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out);
    /* For tests, else NULL: called before each step of a run, with a move that it is part of. */
    void (*pause)(void *user, const struct copse_move *move);
    void *user;
};

copse_status copse__exchange_create(const struct copse_exchange_params *params,
                                    copse_exchange **out);
/* Waits for queued work. Release first what else uses the pieces' memory, such as programs. */
void copse__exchange_release(copse_exchange **x);

/* Add a piece of the store: values and gradients of `elements` (a multiple of COPSE_UNIT) on every rank,
   zeroed. Shared transfer: one host block [rank][elements] that every device imports; staged:
   device memory and an inbox. */
copse_status copse__exchange_piece(copse_exchange *x, uint64_t elements, uint32_t *piece);
struct copse_binding copse__exchange_values(const copse_exchange *x, uint32_t piece, uint32_t rank);
struct copse_binding copse__exchange_gradients(const copse_exchange *x, uint32_t piece,
                                               uint32_t rank);

/* Add a bucket of a piece: plans and records everything, so that a run allocates nothing. */
copse_status copse__exchange_bucket(copse_exchange *x, uint32_t piece, uint64_t first,
                                    uint64_t count, uint32_t *bucket);

/* Called before the host waits for a rank: a chance to queue work that does not depend on the bucket,
   so that the devices are not idle meanwhile. May be called many times. */
typedef copse_status copse_exchange_busy_fn(void *user);

/* Reduce, update and hand on. Rank r's gradients of the bucket are complete at ready[r] of its
   queue; they are used up. `busy` may be NULL. On return all work is queued and submitted; later work of every queue
   sees the new values, and may write new gradients. Waits on the host only where one device needs
   another's result, with a deadline. */
copse_status copse__exchange_run(copse_exchange *x, uint32_t bucket, const uint64_t *ready,
                                 copse_exchange_busy_fn *busy, void *user);

/* Whether all pieces stand in memory that every device imports (before the first: would stand). */
bool copse__exchange_is_shared(const copse_exchange *x);
/* Bytes of optimizer slots that a rank holds. */
size_t copse__exchange_slot_bytes(const copse_exchange *x, uint32_t rank);

#endif
