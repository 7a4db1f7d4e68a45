/* SPDX-License-Identifier: MIT */
/* Internals of the exchange: memory (pieces.c), recorded buckets (record.c), staged messages between ranks
   (staged_messages.c) and steps between workers (exchange_workers.c). */
#ifndef COPSE_EXCHANGE_INTERNAL_H
#define COPSE_EXCHANGE_INTERNAL_H

#include "core/reduce/exchange.h"

/* Values and gradients of a part of the store. */
struct copse_piece {
    uint64_t elements;
    bool is_shared;
    void *host[2]; /* shared: blocks [rank][elements] of values and gradients */
    copse_buffer *values[COPSE_MAX_REPLICAS], *gradients[COPSE_MAX_REPLICAS];
};

/* A staged message: read once from `from`, written to every one of its targets. */
struct copse_message {
    struct copse_binding from;
    uint32_t src;
    size_t first, count; /* its targets */
};
struct copse_target {
    uint32_t rank;
    struct copse_binding to;
};

enum { COPSE_MESSAGE_SUMS = 1, COPSE_MESSAGE_VALUES = 2 }; /* bits of a BEGIN */

struct copse_exchange_step {
    enum {
        COPSE_STEP_AWAIT_READY, /* the host waits until the rank's gradients are complete */
        COPSE_STEP_AWAIT_LAST,  /* ... until the rank's newest play is done */
        COPSE_STEP_PLAY,        /* replay a segment and submit */
        COPSE_STEP_SEND,        /* staged messages */
        /* between workers, see exchange_workers.c */
        COPSE_STEP_BEGIN,       /* all workers begin the same round */
        COPSE_STEP_READ,        /* host ranges are read into a block of host memory */
        COPSE_STEP_WORKER_SEND, /* a share of a block is sent to a worker, after its reads */
        COPSE_STEP_WORKER_RECV, /* a worker's share is received and written to host ranges */
    } kind;
    uint32_t rank;
    struct copse_segment *segment;
    size_t first, count;    /* messages, grouped by source; or host ranges */
    uint32_t worker;        /* the other worker */
    uint32_t message_kind;  /* COPSE_KIND_PARTS or _RESULTS; BEGIN: bits COPSE_MESSAGE_... of the following messages */
    struct copse_move move; /* a move that it is part of, for error texts */
};

/* A range of a rank's memory, and its offset in a block of host memory. */
struct copse_host_range {
    uint32_t rank;
    struct copse_binding at;
    size_t offset;
};

/* The bytes of a round that a worker owns. */
struct copse_share {
    size_t offset, size;
};

struct copse_bucket {
    struct {
        struct copse_host_range *at;
        size_t count, room;
    } host_ranges;
    struct {
        struct copse_share *at; /* [rounds][workers] */
        size_t count, room;
    } shares;
    struct {
        struct copse_exchange_step *at;
        size_t count, room;
    } steps;
    struct {
        struct copse_message *at;
        size_t count, room;
    } messages;
    struct {
        struct copse_target *at;
        size_t count, room;
    } targets;
    struct {
        struct copse_slot_range *at;
        size_t count, room;
    } slots;
    /* Of a rule that measures: parts, and sums that are not in the gradients of their owner. */
    struct {
        struct copse_slot_range *at;
        size_t count, room;
    } parts, sums;
    size_t half; /* steps of a run; those behind them are of copse__exchange_finish */
    bool is_used;
};

struct copse_exchange {
    struct copse_exchange_params params; /* ranks = those below */
    struct copse_mem *mem;
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
    copse_buffer *scratch[COPSE_MAX_REPLICAS]; /* inbox rows, then the row of the sum */
    size_t slot_bytes[COPSE_MAX_REPLICAS];
    unsigned char *staging[COPSE_MAX_REPLICAS]; /* two halves of message_bytes, where staged */
    copse_exchange_busy_fn *busy; /* of the present run */
    void *busy_user;
    const atomic_bool *stop; /* see copse__exchange_stop_by */
    uint64_t last[COPSE_MAX_REPLICAS];          /* ticket of the rank's newest play */
    uint64_t read[COPSE_MAX_REPLICAS][2];       /* ticket of the read into a half of the staging */
    struct copse_workers workers;               /* count 0: there is no other worker */
    struct copse_worker_messages messages;      /* of the present round */
    /* Host memory between workers: sums to send and values, by offset in the round; received sums,
       [worker][own share]. */
    unsigned char *sums_out, *values, *sums_in;
    size_t sums_out_room, values_room, sums_in_room;
    uint64_t host_read[COPSE_MAX_REPLICAS];       /* ticket of the rank's newest read */
    const struct copse_share *round;            /* shares of the present round */
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
void copse__piece_fini(copse_exchange *x, struct copse_piece *p);
/* Elements [first, first + count) of rank's row. */
struct copse_binding copse__piece_range(const struct copse_piece *p, copse_buffer *const *buffers,
                                        uint32_t rank, uint64_t first, uint64_t count);
/* Scratch memory of at least `bytes`. Earlier recordings keep their memory. */
copse_status copse__scratch_grow(copse_exchange *x, uint32_t rank, size_t bytes);
copse_status copse__staging_make(copse_exchange *x);

/* exchange_workers.c: steps between workers */
copse_status copse__exchange_workers_step(copse_exchange *x, const struct copse_bucket *b, uint32_t bucket,
                                          const struct copse_exchange_step *step);
copse_status copse__exchange_workers_room(copse_exchange *x, size_t round, size_t own);
void copse__exchange_workers_fini(copse_exchange *x); /* drops all messages */

/* record.c */
void copse__bucket_fini(copse_exchange *x, struct copse_bucket *b);

/* staged_messages.c */
copse_status copse__messages_send(copse_exchange *x, const struct copse_bucket *b, size_t first,
                                  size_t count);
/* Wait with the library's deadline; the text names the rank that did not answer. */
copse_status copse__rank_wait(copse_exchange *x, uint32_t rank, uint64_t ticket, const char *what);
/* The same; ends when *stop is true; NULL = never. */
copse_status copse__rank_wait_unless(copse_exchange *x, uint32_t rank, uint64_t ticket, const char *what,
                                     const atomic_bool *stop);

#endif
