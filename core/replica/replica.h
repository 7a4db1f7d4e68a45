/* SPDX-License-Identifier: MIT */
/* Strategies, replicas and variables from the inside, and the flat store that holds the variables. */
#ifndef COPSE_REPLICA_H
#define COPSE_REPLICA_H

#include "core/graph/graph.h"
#include "core/reduce/exchange.h"

struct copse_replica {
    copse_device *dev;
    copse_queue *queue;
    copse_buffer *step; /* COPSE_STEP_WORDS words: what changes from step to step */
};

struct copse_variable {
    struct copse_tensor tensor; /* graph NULL: legal in every graph */
    copse_strategy *strategy;   /* not a reference: variables die with it */
    char *name;
    uint64_t count;  /* elements */
    float *initial;  /* until the store is built */
    uint32_t piece;  /* place in the store: elements [first, first + count) of the piece */
    uint64_t first;
    uint32_t bucket; /* of the store, in the order in which gradients become ready */
};

/* All variables one behind another, in reverse order of creation, so that the gradients that are
   ready first come first. Pieces are no larger than any replica can bind. */
struct copse_store {
    copse_exchange *exchange; /* NULL until built */
    uint32_t piece_count, bucket_count;
};

struct copse_strategy {
    copse_refs refs;
    copse_context *ctx;
    struct copse_strategy_params params;
    char matmul[32];
    struct copse_choice choice; /* of the matrix product, when forced */
    uint32_t replica_count;
    struct copse_replica replicas[COPSE_MAX_REPLICAS];
    struct { copse_variable **at; size_t count, room; } variables; /* in order of creation */
    struct copse_store store;
    bool has_trainer;
};

/* What updates the store's ranges; core/optim fills it in. */
struct copse_store_rule {
    uint32_t slots;
    copse_status (*update)(void *user, copse_device *dev, const struct copse_update *u,
                           struct copse_command *out);
    void *user; /* lives as long as the store */
};

/* Lay the variables out, give them memory on every replica and write their values there; a store
   built earlier is taken apart first. */
copse_status copse__store_build(copse_strategy *st, const struct copse_store_rule *rule);
/* Values back to host memory, then the exchange and its memory are released. */
copse_status copse__store_unbuild(copse_strategy *st);
/* Release the exchange and its memory. */
void copse__store_fini(copse_strategy *st);

/* Where a variable stands on a replica. */
struct copse_binding copse__variable_values(const copse_variable *v, uint32_t replica);
struct copse_binding copse__variable_gradient(const copse_variable *v, uint32_t replica);

#endif
