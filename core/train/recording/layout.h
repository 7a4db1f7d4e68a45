/* SPDX-License-Identifier: MIT */
/* The layout of a pass: the all-reduces inside a loss function, the order in which they and the
   buckets of the optimizer are exchanged, and the assignments at the end. */
#ifndef COPSE_TRAIN_LAYOUT_H
#define COPSE_TRAIN_LAYOUT_H

#include "core/data/input/shard.h"
#include "core/replica/strategy.h"

/* An all-reduce inside the loss function: a bucket of the exchange. The operands are the gradients
   of its piece, the results are the values. */
struct copse_graph_all_reduce {
    copse_shape shape;
    uint32_t piece, bucket; /* of the exchange */
};

/* A variable that each step assigns to (copse_update). */
struct copse_layout_update {
    copse_variable *variable;
    /* the value is the result of an all-reduce, on replicas without examples too */
    bool is_shared;
    uint32_t all_reduce;                      /* number of that one */
    copse_buffer *values[COPSE_MAX_REPLICAS]; /* else: what each replica has computed */
    /* memory for the values, where the variable has no memory on replicas; else NULL */
    void *host;
    bool is_stuck; /* a device may still write to it: it is not freed */
};

/* What is exchanged between the segments of a pass; the same on every replica and for every shard.
   The first recording makes it, all others must have the same. */
struct copse_layout {
    bool is_known;
    struct {
        struct copse_graph_all_reduce *at;
        size_t count, room;
    } all_reduces;
    /* behind each segment: number of an all-reduce, or COPSE_NO_ALL_REDUCE for the next bucket */
    struct {
        uint32_t *at;
        size_t count, room;
    } events;
    struct {
        struct copse_layout_update *at;
        size_t count, room;
    } updates;
};

void copse__layout_fini(struct copse_layout *l, copse_strategy *st);

/* ---- updates.c ---- */

/* Assign what the step has computed for these shards of the replicas. Queued; where servers have
   the variables, sent. */
copse_status copse__updates_commit(struct copse_layout *l, copse_strategy *st,
                                   const struct copse_shard *shards);
void copse__updates_fini(struct copse_layout *l, copse_strategy *st);

#endif
