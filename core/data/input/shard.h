/* SPDX-License-Identifier: MIT */
/* Division of a global batch's rows into one shard per replica. Pure arithmetic. */
#ifndef COPSE_SHARD_H
#define COPSE_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "copse/distribute/input.h"
#include "core/base/base.h"

#define COPSE_SHARD_MAX_REPLICAS 64u

struct copse_shard {
    size_t first, count; /* an empty shard has count 0 and first == rows */
};

/* The shard of one replica; rules as below, not checked. */
static inline struct copse_shard copse__shard_of(enum copse_shard_rule rule, size_t rows,
                                                 size_t global, uint32_t replicas, uint32_t replica)
{
    size_t shard = rows / replicas, more = rows % replicas;

    if (rule == COPSE_SHARD_BALANCED)
        return (struct copse_shard){ replica * shard + COPSE_MIN(replica, more),
                                     shard + (replica < more) };
    shard = rule == COPSE_SHARD_FIXED ? global / replicas : shard + (more != 0);
    /* Avoids a product that may overflow. */
    size_t first = shard == 0 || replica > rows / shard ? rows : replica * shard;
    return (struct copse_shard){ first, COPSE_MIN(shard, rows - first) };
}

/* Fill `out` (one entry per replica) for a batch of `rows` rows. `global` is the size of a full
   batch: rows <= global; FIXED requires a multiple of `replicas`. */
copse_status copse__shard(enum copse_shard_rule rule, size_t rows, size_t global, uint32_t replicas,
                          struct copse_shard *out);

/* Shards in proportion to `weights`: replica r gets rows * weight / sum, rounded down. The
   remaining rows go one each to the largest remainders, of equal ones to the lowest rank. A weight
   of 0 gets none. Weights are finite, >= 0 and not all 0; they are used relative to the largest, in
   steps of 2^-20 of it (a smaller one counts as one step). */
copse_status copse__shard_weighted(size_t rows, const double *weights, uint32_t replicas,
                                   struct copse_shard *out);

#endif
