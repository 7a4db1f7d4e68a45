/* SPDX-License-Identifier: MIT */
/* The flat store: trained variables that are not sparse, one behind another, in reverse order of
   creation, so that the gradients that are complete first come first. Pieces are no larger than any
   replica can bind. Variables that are made after the first trainer get further pieces. */
#ifndef COPSE_FLAT_STORE_H
#define COPSE_FLAT_STORE_H

#include "core/reduce/exchange/exchange.h"
#include "core/variable/variable.h"

struct copse_store {
    copse_exchange *exchange; /* NULL until built */
    struct {
        copse_variable **at;
        size_t count, room;
    } order; /* piece by piece */
    uint32_t piece_count;
    uint32_t accumulators; /* trainers that accumulate gradients of micro-batches */
};

/* Give the strategy an empty store. */
copse_status copse__store_create(copse_strategy *st);
/* Lay out the trained variables that have no place yet, give them memory on every replica and write
   their values there. */
copse_status copse__store_build(copse_strategy *st);
/* Release the store with its memory on the replicas; NULL is fine. */
void copse__store_release(copse_strategy *st);

/* Memory of a variable, and of its gradient, on a replica; no buffer where the store has none. */
struct copse_binding copse__variable_values(const copse_variable *v, uint32_t replica);
struct copse_binding copse__variable_gradient(const copse_variable *v, uint32_t replica);

#endif
