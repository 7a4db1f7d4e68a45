/* SPDX-License-Identifier: MIT */
/* Internals of the exchange: pieces (pieces.c), recorded buckets (bucket_record.c), and steps between
   workers (exchange_workers.c). */
#ifndef COPSE_EXCHANGE_INTERNAL_H
#define COPSE_EXCHANGE_INTERNAL_H

#include "core/reduce/exchange/exchange.h"
#include "core/reduce/reducer.h"

/* Values and gradients of a piece of the store. */
struct copse_piece {
    uint64_t elements;
    bool is_shared;
    void *host[2]; /* shared: blocks [rank][elements] of values and gradients */
    copse_buffer *values[COPSE_MAX_REPLICAS], *gradients[COPSE_MAX_REPLICAS];
};

enum { COPSE_MESSAGE_SUMS = 1, COPSE_MESSAGE_VALUES = 2 }; /* bits of a BEGIN */

struct copse_exchange_step {
    enum {
        COPSE_STEP_AWAIT_READY, /* the host waits until the rank's gradients are complete */
        COPSE_STEP_AWAIT_LAST,  /* ... until the rank's newest play is done */
        COPSE_STEP_PLAY,        /* replay a segment and submit */
        COPSE_STEP_SEND,        /* copies between ranks through host memory */
        /* between workers, see exchange_workers.c */
        COPSE_STEP_BEGIN, /* all workers begin the same chunk */
        COPSE_STEP_READ,  /* host copies: to host memory */
        /* slices in host memory are sent to the other workers, after their reads */
        COPSE_STEP_WORKER_SEND,
        COPSE_STEP_WORKER_RECV, /* a worker's slices are received; host copies: to the devices */
    } kind;
    uint32_t rank;
    struct copse_segment *segment;
    /* copies; or host copies; BEGIN: slices of the workers, and elements of the chunk */
    size_t first, count;
    uint32_t worker; /* RECV: the other worker */
    /* COPSE_KIND_SUMS or _RESULTS; BEGIN: bits COPSE_MESSAGE_... of the following messages */
    uint32_t message_kind;
    struct copse_move move; /* a move that it belongs to, for error texts */
};

/* Memory of a rank, and its offset in the host memory of a chunk. */
struct copse_host_copy {
    uint32_t rank;
    struct copse_binding at;
    size_t offset;
};

struct copse_bucket {
    struct {
        struct copse_host_copy *at;
        size_t count, room;
    } host_copies;
    struct {
        struct copse_worker_slice *at; /* [chunks][workers] */
        size_t count, room;
    } worker_slices;
    struct {
        struct copse_exchange_step *at;
        size_t count, room;
    } steps;
    struct copse_copies copies;
    /* Slots of the optimizer; of a rule that measures also its measures, and sums that are not in
       the gradients of their owner. */
    struct copse_kept {
        struct copse_slice_memory *at;
        size_t count, room;
    } slots, measures, sums;
    size_t half; /* steps of a run; those behind them are of copse__exchange_finish */
    bool is_used;
};

struct copse_exchange {
    struct copse_exchange_params params; /* ranks = those below */
    struct copse_mem *mem;
    copse_reducer *reducer;
    struct copse_exchange_rank ranks[COPSE_MAX_REPLICAS]; /* references to queue and step buffer */
    uint32_t rank_count;
    bool can_share, is_shared;
    bool is_one_queue; /* all ranks have the same */
    struct {
        struct copse_piece *at;
        size_t count, room;
    } pieces;
    struct {
        struct copse_bucket *at;
        size_t count, room;
    } buckets;
    size_t slot_bytes[COPSE_MAX_REPLICAS];
    const atomic_bool *stop; /* see copse__exchange_stop_by */
    struct {
        const struct copse_segment *segment;
        copse_replay_fn *replay;
        void *user;
    } other;                               /* see copse__exchange_replay_by */
    uint64_t last[COPSE_MAX_REPLICAS];     /* ticket of the rank's newest play */
    struct copse_workers workers;          /* count 0: there is no other worker */
    struct copse_worker_messages messages; /* of the present chunk */
    /* Host memory between workers: sums to send and values, by offset in the chunk; received sums,
       [worker][own slices]. */
    struct copse_host_memory sums_out, values, sums_in;
    const struct copse_worker_slice *chunk; /* slices of the present chunk */
};

static inline bool copse__has_workers(const copse_exchange *x)
{
    return x->workers.count > 1;
}

static inline copse_device *copse__rank_device(const copse_exchange *x, uint32_t rank)
{
    return x->ranks[rank].queue->dev;
}

/* Transfers between these ranks need no host. */
static inline bool copse__is_same_queue(const copse_exchange *x, uint32_t a, uint32_t b)
{
    return x->ranks[a].queue == x->ranks[b].queue;
}

/* pieces.c */
copse_status copse__exchange_check_sharing(copse_exchange *x);
void copse__piece_fini(copse_exchange *x, struct copse_piece *p, bool is_idle);
/* Elements [first, first + count) of rank's row. */
struct copse_binding copse__piece_binding(const struct copse_piece *p, copse_buffer *const *buffers,
                                          uint32_t rank, uint64_t first, uint64_t count);

/* exchange_workers.c: steps between workers */
copse_status copse__exchange_workers_step(copse_exchange *x, const struct copse_bucket *b,
                                          uint32_t bucket, const struct copse_exchange_step *step);
copse_status copse__exchange_workers_room(copse_exchange *x, size_t chunk, size_t own);
void copse__exchange_workers_fini(copse_exchange *x); /* drops all messages */

/* bucket_record.c */
void copse__bucket_fini(copse_exchange *x, struct copse_bucket *b);

#endif
