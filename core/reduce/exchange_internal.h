/* SPDX-License-Identifier: MIT */
/* Inside of the exchange: its memory (pieces.c), its recorded buckets (record.c) and its staged
   transfers (transfer.c). */
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

enum { COPSE_WAY_SUMS = 1, COPSE_WAY_VALUES = 2 }; /* bits of a BEGIN */

struct copse_exchange_step {
    enum {
        COPSE_STEP_AWAIT_READY, /* the host waits until the rank's gradients are complete */
        COPSE_STEP_AWAIT_LAST,  /* ... until the rank's newest play is done */
        COPSE_STEP_PLAY,        /* replay a segment and submit */
        COPSE_STEP_SEND,        /* staged messages */
        /* across workers, see exchange_workers.c */
        COPSE_STEP_BEGIN, /* all workers begin the same round */
        COPSE_STEP_READ,  /* crossings are read into a block of host memory */
        COPSE_STEP_SHIP,  /* a share of a block goes to a worker, once it has been read */
        COPSE_STEP_TAKE,  /* a worker's share has come and is written to crossings */
    } kind;
    uint32_t rank;
    struct copse_segment *segment;
    size_t first, count;    /* messages, those of a source one after the other; or crossings */
    uint32_t worker, way;   /* across workers: the other side; 0 = sums, 1 = values. BEGIN: bits of those to come */
    struct copse_move move; /* one that it is part of, for messages to people */
};

/* A range of a rank's memory, and where it stands in a block of host memory. */
struct copse_crossing {
    uint32_t rank;
    struct copse_binding at;
    size_t offset;
};

/* What a worker owns of a round: bytes, from the round's begin. */
struct copse_share {
    size_t offset, size;
};

struct copse_bucket {
    struct {
        struct copse_crossing *at;
        size_t count, room;
    } crossings;
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
    copse_exchange_busy_fn *busy; /* of the run that is under way */
    void *busy_user;
    const atomic_bool *stop; /* see copse__exchange_stop_by */
    uint64_t last[COPSE_MAX_REPLICAS];          /* ticket of the rank's newest play */
    uint64_t read[COPSE_MAX_REPLICAS][2];       /* ticket of the read into a half of the staging */
    struct copse_workers workers;               /* count 0: there is no other worker */
    struct copse_worker_messages messages;      /* of the round that is under way */
    /* Host memory across workers: sums to send and values, by place in the round; sums that came,
       [worker][own share]. */
    unsigned char *sums_out, *values, *sums_in;
    size_t sums_out_room, values_room, sums_in_room;
    uint64_t crossed[COPSE_MAX_REPLICAS];       /* ticket of the rank's newest read */
    const struct copse_share *round;            /* of the run that is under way */
};

static inline bool copse__is_across(const copse_exchange *x)
{
    return x->workers.count > 1;
}

static inline copse_device *copse__rank_device(const copse_exchange *x, uint32_t rank)
{
    return x->ranks[rank].queue->dev;
}

/* What goes between these ranks needs no host. */
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
/* Scratch memory of at least `bytes`. Earlier recordings keep what they were made with. */
copse_status copse__scratch_grow(copse_exchange *x, uint32_t rank, size_t bytes);
copse_status copse__staging_make(copse_exchange *x);

/* exchange_workers.c: steps between workers */
copse_status copse__across_take(copse_exchange *x, const struct copse_bucket *b, uint32_t bucket,
                                const struct copse_exchange_step *step);
copse_status copse__across_room(copse_exchange *x, size_t round, size_t own);
void copse__across_fini(copse_exchange *x); /* no message is under way afterwards */

/* record.c */
void copse__bucket_fini(copse_exchange *x, struct copse_bucket *b);

/* transfer.c */
copse_status copse__messages_send(copse_exchange *x, const struct copse_bucket *b, size_t first,
                                  size_t count);
/* Wait with the library's deadline; the text names the rank that did not answer. */
copse_status copse__rank_wait(copse_exchange *x, uint32_t rank, uint64_t ticket, const char *what);
/* The same, that ends when *stop is true; NULL = never. */
copse_status copse__rank_wait_unless(copse_exchange *x, uint32_t rank, uint64_t ticket, const char *what,
                                     const atomic_bool *stop);

#endif
