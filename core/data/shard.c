/* SPDX-License-Identifier: MIT */
/* How the rows of a global batch are shared out among replicas. Pure arithmetic. */
#include "core/data/shard.h"

#include "core/base/base.h"

copse_status copse__shard(enum copse_shard_rule rule, size_t rows, size_t global, uint32_t replicas,
                          struct copse_shard *out)
{
    if (replicas < 1 || replicas > COPSE_SHARD_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "shard: %u replicas, must be 1 to %u", replicas,
                          COPSE_SHARD_MAX_REPLICAS);
    if (rows > global)
        return copse_fail(COPSE_ERR_ARGUMENT, "shard: %zu rows in a batch of at most %zu", rows,
                          global);
    if (rule == COPSE_SHARD_FIXED && global % replicas != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "shard: a batch of %zu cannot be shared evenly by %u replicas", global,
                          replicas);
    size_t first = 0;
    for (uint32_t r = 0; r < replicas; r++) {
        size_t share = rows / replicas;
        if (rule == COPSE_SHARD_FIXED)
            share = global / replicas;
        else if (rule == COPSE_SHARD_CEIL)
            share += rows % replicas != 0;
        else
            share += r < rows % replicas;
        out[r].first = first;
        out[r].count = COPSE_MIN(share, rows - first);
        first += out[r].count;
    }
    return COPSE_OK;
}
