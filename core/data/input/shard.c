/* SPDX-License-Identifier: MIT */
/* Division of a global batch's rows into one shard per replica. Pure arithmetic. */
#include "core/data/input/shard.h"

#include <math.h>

#include "core/base/base.h"

#define STEPS (1u << 20) /* of the largest weight */

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
    for (uint32_t r = 0; r < replicas; r++)
        out[r] = copse__shard_of(rule, rows, global, replicas, r);
    return COPSE_OK;
}

/* Whole numbers, so that the remaining arithmetic is exact. */
static copse_status whole_weights(const double *weights, uint32_t replicas, uint32_t *whole,
                                  uint64_t *sum)
{
    double largest = 0.0;
    *sum = 0;
    for (uint32_t r = 0; r < replicas; r++) {
        if (!(weights[r] >= 0.0) || !isfinite(weights[r]))
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "shard: the weight of replica %u is %g: a finite number >= 0 is needed", r,
                weights[r]);
        largest = COPSE_MAX(largest, weights[r]);
    }
    if (largest == 0.0)
        return copse_fail(COPSE_ERR_ARGUMENT, "shard: no replica has a weight above 0");
    for (uint32_t r = 0; r < replicas; r++) {
        const double steps = rint(weights[r] / largest * STEPS);
        whole[r] = weights[r] > 0.0 && steps < 1.0 ? 1 : (uint32_t)steps;
        *sum += whole[r];
    }
    return COPSE_OK;
}

copse_status copse__shard_weighted(size_t rows, const double *weights, uint32_t replicas,
                                   struct copse_shard *out)
{
    uint32_t whole[COPSE_SHARD_MAX_REPLICAS];
    uint64_t rest[COPSE_SHARD_MAX_REPLICAS], sum;
    size_t left = rows, first = 0;

    if (replicas < 1 || replicas > COPSE_SHARD_MAX_REPLICAS || (uint64_t)rows >> 32)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "shard: %zu rows for %u replicas, must be less than "
                          "2^32 for 1 to %u",
                          rows, replicas, COPSE_SHARD_MAX_REPLICAS);
    COPSE_TRY(whole_weights(weights, replicas, whole, &sum));
    for (uint32_t r = 0; r < replicas; r++) {
        out[r].count = (size_t)((uint64_t)rows * whole[r] / sum);
        rest[r] = (uint64_t)rows * whole[r] % sum;
        left -= out[r].count;
    }
    for (; left > 0; left--) { /* at most as many as there are remainders above 0 */
        uint32_t best = 0;
        for (uint32_t r = 1; r < replicas; r++)
            if (rest[r] > rest[best])
                best = r;
        out[best].count++;
        rest[best] = 0;
    }
    for (uint32_t r = 0; r < replicas; r++) {
        out[r].first = first;
        first += out[r].count;
    }
    return COPSE_OK;
}
