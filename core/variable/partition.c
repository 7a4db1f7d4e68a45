/* SPDX-License-Identifier: MIT */
/* How many parts a variable is cut into, and which rows are whose. Pure integers. */
#include "copse/distribute/partition.h"
#include "core/variable/flat_store.h"

static uint32_t rows_of(copse_shape s)
{
    return s.rank > 0 ? COPSE_MAX(s.dims[0], 1) : 1;
}

static uint64_t row_bytes(copse_shape s)
{
    uint64_t bytes = 4;
    for (uint32_t d = 1; d < s.rank; d++)
        bytes *= s.dims[d];
    return COPSE_MAX(bytes, 1);
}

static uint32_t partition_limited(uint64_t count, copse_shape s, uint32_t most)
{
    if (most > 0)
        count = COPSE_MIN(count, most);
    count = COPSE_MIN(count, rows_of(s));
    return (uint32_t)COPSE_MAX(count, 1);
}

uint32_t copse_partition_fixed_shards(copse_shape shape, uint32_t shards)
{
    return partition_limited(shards, shape, 0);
}

/* The smallest part has rows / n rows, rounded down: enough exactly when n <= rows / enough. */
uint32_t copse_partition_min_size(copse_shape shape, uint64_t min_bytes, uint32_t max_shards)
{
    const uint64_t row = row_bytes(shape),
                   enough = COPSE_MAX(min_bytes / row + (min_bytes % row > 0), 1);
    return partition_limited(rows_of(shape) / enough, shape, max_shards);
}

/* The largest has rows / n rows, rounded up. */
uint32_t copse_partition_max_size(copse_shape shape, uint64_t max_bytes, uint32_t max_shards)
{
    const uint64_t fit = COPSE_MAX(max_bytes / row_bytes(shape), 1), rows = rows_of(shape);
    return partition_limited(rows / fit + (rows % fit > 0), shape, max_shards);
}

uint32_t copse_partition_rows(uint32_t rows, uint32_t shards, uint32_t shard, uint32_t *first)
{
    if (first)
        *first = 0;
    if (shard >= shards)
        return 0;
    const uint32_t each = rows / shards, more = rows % shards;
    if (first)
        *first = shard * each + COPSE_MIN(shard, more);
    return each + (shard < more);
}
