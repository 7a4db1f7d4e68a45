/* SPDX-License-Identifier: MIT */
/* How the rows of a global batch are shared out among replicas. Pure arithmetic. */
#ifndef COPSE_SHARD_H
#define COPSE_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "copse/status.h"

#define COPSE_SHARD_MAX_REPLICAS 64u

enum copse_shard_rule {
    COPSE_SHARD_BALANCED, /* sizes differ by at most one, earlier replicas have more */
    COPSE_SHARD_CEIL,     /* ceil(rows / replicas) each until the rows are used up */
    COPSE_SHARD_FIXED,    /* global / replicas each until the rows are used up */
};

struct copse_shard {
    size_t first, count; /* an empty share has count 0 and first == rows */
};

/* Fill `out` (one entry per replica) for a batch of `rows` rows. `global` is the size of a full
   batch: rows <= global; FIXED needs it to be a multiple of `replicas`. */
copse_status copse__shard(enum copse_shard_rule rule, size_t rows, size_t global, uint32_t replicas,
                          struct copse_shard *out);

#endif
