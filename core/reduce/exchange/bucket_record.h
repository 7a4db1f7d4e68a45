/* SPDX-License-Identifier: MIT */
/* Recording of a bucket: bucket_record.c for the moves between ranks of this worker, bucket_record_workers.c for
   those between workers. */
#ifndef COPSE_RECORD_H
#define COPSE_RECORD_H

#include "core/reduce/exchange/exchange_internal.h"
#include "core/reduce/tree.h"

/* The chunks of a rule that measures are recorded twice. */
enum copse_half {
    COPSE_HALF_BOTH,
    COPSE_HALF_SUM,    /* up to the sums and their measures */
    COPSE_HALF_UPDATE, /* from there on */
};

struct copse_recorder {
    copse_exchange *x;
    const struct copse_piece *piece;
    struct copse_bucket *bucket;
    const struct copse_schedule *schedule;
    const struct copse_exchange_rule *rule;
    enum copse_half half;
    uint64_t chunk;              /* first element of the chunk */
    struct copse_binding *total; /* by slice: the sum, at its owner */
    struct {
        struct copse_command *at;
        size_t count, room;
        struct copse_move move;    /* the first of them */
    } pending[COPSE_MAX_REPLICAS]; /* commands that a rank has not played yet */
    bool has_played[COPSE_MAX_REPLICAS];
    /* several workers: the host has waited for its gradients */
    bool is_ready[COPSE_MAX_REPLICAS];
    /* several workers: offset of the workers' rows in the inbox */
    size_t join_at[COPSE_MAX_REPLICAS];
};

copse_status copse__record_no_memory(void);
copse_status copse__record_step(struct copse_recorder *r, const struct copse_exchange_step *step);
/* A command on the destination of a move. */
copse_status copse__record_command(struct copse_recorder *r, const struct copse_move *m,
                                   const struct copse_command *c);
copse_status copse__record_copy(struct copse_recorder *r, const struct copse_move *m,
                                struct copse_binding from, struct copse_binding to);
/* A sum by the tree on the destination of a move. */
copse_status copse__record_tree(struct copse_recorder *r, const struct copse_move *m,
                                const struct copse_tree_sum *t);
struct copse_binding copse__record_values(const struct copse_recorder *r, uint32_t rank,
                                          const struct copse_move *m);
struct copse_binding copse__record_gradients(const struct copse_recorder *r, uint32_t rank,
                                             const struct copse_move *m);
/* Elements of a row of the inbox: those of the move, padded; bytes of the move; bytes of a row. */
static inline uint64_t copse__record_row(const struct copse_move *m)
{
    return copse__round_up((size_t)m->count, COPSE_UNIT);
}
static inline size_t copse__record_bytes(const struct copse_move *m)
{
    return COPSE_WORD_BYTES * (size_t)m->count;
}
static inline size_t copse__record_row_bytes(const struct copse_move *m)
{
    return COPSE_WORD_BYTES * (size_t)copse__record_row(m);
}

/* Memory at the move's destination that the bucket keeps for its elements: made by the first call,
   found by later ones. copse__kept: NULL if there is none. */
copse_status copse__record_keep(struct copse_recorder *r, struct copse_kept *list,
                                const struct copse_move *m, size_t bytes,
                                struct copse_binding *out);
copse_buffer *copse__kept(const struct copse_kept *list, const struct copse_move *m);

/* bucket_record_workers.c */
copse_status copse__record_workers_begin(struct copse_recorder *r, uint64_t count);
/* Bytes of the inbox of a rank beyond `bytes`, which are used otherwise. */
copse_status copse__record_workers_inbox(struct copse_recorder *r, const size_t *bytes);
/* Row of a worker's sum in the join. */
struct copse_binding copse__record_workers_row(const struct copse_recorder *r,
                                               const struct copse_move *m, uint32_t worker);
copse_status copse__record_workers_join(struct copse_recorder *r, const struct copse_move *m);
/* The moves of one phase between workers. */
copse_status copse__record_workers_phase(struct copse_recorder *r, const struct copse_move *moves,
                                         size_t count);

#endif
