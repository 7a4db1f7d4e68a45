/* SPDX-License-Identifier: MIT */
/* Shared by the tests of values and cross-device operations: devices found, strategies over
   mixtures of them, and short functions that make and compare values. */
#ifndef COPSE_VALUE_RIG_H
#define COPSE_VALUE_RIG_H

#include "core/value/cross_device.h"
#include "tests/rig/fake/kept.h"
#include "tests/rig/found.h"

#define MAX_RANKS 8

/* Without self-tests, because a context stores their results and its blocks are counted. */
static const struct copse_context_params with_kept = { .cache = { .get = get_kept, .put = keep },
                                                       .no_self_test = true };

/* `ranks` replicas over the devices of a set, in turn; NULL if the set does not fit. */
static inline copse_strategy *open_mixture(copse_context *ctx, uint32_t mix, uint32_t ranks)
{
    const char *chosen[3], *ids[MAX_RANKS];
    copse_strategy *st;
    uint32_t n = 0;
    for (uint32_t f = 0; f < found_count; f++)
        if (mix >> f & 1u)
            chosen[n++] = found[f];
    if (n == 0 || n > ranks)
        return NULL;
    for (uint32_t r = 0; r < ranks; r++)
        ids[r] = chosen[r % n];
    OK(copse_mirrored_create(ctx, ids, ranks, NULL, &st));
    return st;
}

/* Over every device found. */
static inline copse_strategy *open_all(copse_context *ctx, uint32_t ranks)
{
    return open_mixture(ctx, (1u << COPSE_MIN(found_count, ranks)) - 1, ranks);
}

static inline copse_value *floats_on(copse_strategy *st, uint32_t rank, uint32_t count,
                                     const float *values)
{
    copse_value *v;
    OK(copse_value_create_on(st, rank, COPSE_F32, COPSE_SHAPE(count), values, &v));
    return v;
}

static inline copse_value *scalar_on(copse_strategy *st, uint32_t rank, float value)
{
    copse_value *v;
    OK(copse_value_create_on(st, rank, COPSE_F32, COPSE_SCALAR, &value, &v));
    return v;
}

/* A per-replica value of the given values; takes ownership of the references. */
static inline copse_value *per_replica(copse_strategy *st, copse_value **components)
{
    copse_value *v;
    const uint32_t count = copse_strategy_replicas(st);
    OK(copse_value_per_replica(st, components, count, &v));
    for (uint32_t r = 0; r < count; r++)
        copse_value_release(&components[r]);
    return v;
}

static inline float scalar_of(const copse_value *v)
{
    float x;
    assert_non_null(v);
    OK(copse_value_read(v, &x));
    return x;
}

#endif
