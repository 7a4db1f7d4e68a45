/* SPDX-License-Identifier: MIT */
/* The exchange: memory of the flat store on every rank, and the reduction, update and broadcast of
   its buckets, between any mixture of devices. Evaluates schedules; knows no optimizer by name.
   Several sets of buckets, each with a rule and slots of its own, may cover the same pieces. */
#ifndef COPSE_EXCHANGE_H
#define COPSE_EXCHANGE_H

#include "core/device/device.h"
#include "core/reduce/sum_schedule.h"
#include "core/reduce/worker_messages.h"

typedef struct copse_exchange copse_exchange;

struct copse_exchange_rank {
    copse_queue *queue;
    struct copse_binding step; /* the step buffer */
};

#define COPSE_MEASURE_WORDS 2
#define COPSE_MEASURE_BYTES (COPSE_MEASURE_WORDS * COPSE_WORD_BYTES)
#define COPSE_MEASURES      2 /* at most */

/* The command that updates `count` elements: values from gradients, with the slots. */
struct copse_update {
    struct copse_binding values, gradients, slots, step;
    /* of a rule that measures: COPSE_MEASURE_WORDS f32 each, for each COPSE_UNIT elements */
    struct copse_binding measures[COPSE_MEASURES];
    uint64_t count;
};

#define COPSE_EXCHANGE_SLOTS 5u

/* The use of the sums of a bucket. */
struct copse_exchange_rule {
    uint32_t slots;                     /* optimizer words per element, 0..COPSE_EXCHANGE_SLOTS */
    float starts[COPSE_EXCHANGE_SLOTS]; /* first value of each */
    /* Not NULL: the words of all slots of `count` elements, at most slots * count; they begin with
       0. */
    uint64_t (*slot_words)(const void *user, uint64_t count);
    copse_status (*update)(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out);
    void *user; /* used while the bucket is recorded only */
    /* values do not change and are not broadcast: the caller waits for all ranks before it writes
       gradients again. Within one process. */
    bool stays;
    /* the caller has summed: the gradients of each rank are the sums over all ranks and workers, with
       the same bits */
    bool is_summed;
    /* Commands before and after the update, like `update`; NULL: none. */
    copse_status (*before)(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out);
    copse_status (*behind)(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out);
    /* > 0: a run ends when each owner has its sums and as many commands have filled `measures`. The
       update is done by copse__exchange_finish, or not at all. In between the host may read
       `measures` and write there, for `before` and `update`. */
    uint32_t measures;
    copse_status (*measure)(void *user, copse_device *dev, const struct copse_update *u,
                            struct copse_command out[]);
};

struct copse_exchange_params {
    copse_context *ctx;
    const struct copse_exchange_rank *ranks;
    uint32_t rank_count;
    copse_reduce_algorithm reduction;
    copse_transfer transfer;
    size_t message_bytes;
    /* the other workers, which run the same buckets in the same order. NULL: none. Outlives the
       exchange */
    struct copse_group *group;
    /* For tests, else NULL: called before each step of a run, with a move that it belongs to. */
    void (*pause)(void *user, const struct copse_move *move);
    void *user;
};

COPSE_PRIVATE copse_status copse__exchange_create(const struct copse_exchange_params *params,
                                                  copse_exchange **out);
/* Waits for queued work. Release programs and other users of the pieces' memory first. */
COPSE_PRIVATE void copse__exchange_release(copse_exchange **x);

/* Several ranks may have one queue. The queue orders transfers between these, without the host:
   data is read in place or copied on the device. */

/* Add a piece of the store: values and gradients of `elements` (a multiple of COPSE_UNIT) on every
   rank, zeroed. Shared transfer: one host block [rank][elements] that every device imports, or, if
   all ranks have one queue, a block of device memory; staged: device memory and an inbox. */
COPSE_PRIVATE copse_status copse__exchange_piece(copse_exchange *x, uint64_t elements,
                                                 uint32_t *piece);
/* Free a piece after its buckets were dropped and no other user of its memory is left; waits for
   queued work. Its number may be reused. */
void copse__exchange_piece_drop(copse_exchange *x, uint32_t piece);
COPSE_PRIVATE struct copse_binding copse__exchange_values(const copse_exchange *x, uint32_t piece,
                                                          uint32_t rank);
COPSE_PRIVATE struct copse_binding copse__exchange_gradients(const copse_exchange *x,
                                                             uint32_t piece, uint32_t rank);

/* Add a bucket of a piece: plans and records everything, so that a run allocates nothing. */
COPSE_PRIVATE copse_status copse__exchange_bucket(copse_exchange *x, uint32_t piece, uint64_t first,
                                                  uint64_t count,
                                                  const struct copse_exchange_rule *rule,
                                                  uint32_t *bucket);
/* Free a bucket with its slots; waits for queued work. Its number may be reused. */
void copse__exchange_drop(copse_exchange *x, uint32_t bucket);

/* Optimizer slots of elements [first, first + count) of the bucket's piece; the rule's kernel
   defines the order of their words. */
struct copse_slice_memory {
    uint32_t rank;
    copse_buffer *buffer; /* the slots, or measures */
    uint64_t first, count;
};
void copse__exchange_slots(const copse_exchange *x, uint32_t bucket,
                           const struct copse_slice_memory **list, size_t *count);

/* Where the measures of each slice are: COPSE_MEASURE_WORDS floats for each COPSE_UNIT elements
   from `first` on; the second ones begin at byte copse__measure_at(count). */
static inline size_t copse__measure_at(uint64_t count)
{
    return copse__round_up((size_t)((count + COPSE_UNIT - 1) / COPSE_UNIT) * COPSE_MEASURE_BYTES,
                           COPSE_ALIGNMENT);
}
void copse__exchange_measures(const copse_exchange *x, uint32_t bucket,
                              const struct copse_slice_memory **list, size_t *count);

/* Reduce, update and broadcast; if the rule measures: reduce and measure. Rank r's gradients of the
   bucket are complete at ready[r] of its queue; they are overwritten. `busy` may be NULL. On return
   all work is queued and submitted; later work of every queue sees the new values, and may write
   new gradients. Waits on the host only where one device needs another's result, with a
   deadline. */
COPSE_PRIVATE copse_status copse__exchange_run(copse_exchange *x, uint32_t bucket,
                                               const uint64_t *ready, copse_busy_fn *busy,
                                               void *user);

/* If the rule measures: update from the sums of the newest run, and broadcast. The caller has
   waited for the measures of all owners, and all workers finish the same buckets in the same
   order. */
copse_status copse__exchange_finish(copse_exchange *x, uint32_t bucket);

/* From now on a run that is still waiting for complete gradients, and has moved none, returns
   COPSE_ERR_CANCELLED within COPSE_STOP_NS of *stop and changes nothing. Not with several workers:
   the others would wait. NULL = never. */
void copse__exchange_stop_by(copse_exchange *x, const atomic_bool *stop);

/* Visit what the ranks of this worker replay in a run of the bucket and when it is finished, in
   this order. */
typedef copse_status copse_replay_fn(void *user, uint32_t rank,
                                     const struct copse_segment *segment);
copse_status copse__exchange_visit(const copse_exchange *x, uint32_t bucket, copse_replay_fn *visit,
                                   void *user);
/* From now on this segment is replayed by a call of `replay`. NULL: none. */
void copse__exchange_replay_by(copse_exchange *x, const struct copse_segment *segment,
                               copse_replay_fn *replay, void *user);

/* Whether all ranks have the same queue. */
bool copse__exchange_is_one_queue(const copse_exchange *x);
/* Only if all ranks have the same queue: queue a run without submitting it or waiting. */
copse_status copse__exchange_queue(copse_exchange *x, uint32_t bucket);

/* Whether all pieces are in memory that every device imports; without a piece, whether the next one
   would be. */
bool copse__exchange_is_shared(const copse_exchange *x);
/* Bytes of optimizer slots that a rank holds. */
size_t copse__exchange_slot_bytes(const copse_exchange *x, uint32_t rank);

#endif
