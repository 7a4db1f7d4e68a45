/* SPDX-License-Identifier: MIT */
/* Shared by the tests of cross-device operations: settings of every algorithm, numbers whose sum
   depends on the order, and the result of the canonical tree. */
#ifndef COPSE_CROSS_RIG_H
#define COPSE_CROSS_RIG_H

#include <math.h>

#include "core/base/random.h"
#include "tests/rig/value/value_run.h"

static const uint32_t counts[] = { 1, 2, 3, 4, 5, 8 };

static const struct copse_cross_device_params settings[] = {
    { .kind = COPSE_CROSS_AUTO },
    { .kind = COPSE_CROSS_TO_ONE },
    { .kind = COPSE_CROSS_TO_ONE, .has_root = true, .root = COPSE_HOST },
    { .kind = COPSE_CROSS_TO_ONE, .has_root = true, .root = 0 },
    { .kind = COPSE_CROSS_ALL_REDUCE },
    { .kind = COPSE_CROSS_ALL_REDUCE, .packs = 3 },
    { .kind = COPSE_CROSS_ALL_REDUCE, .small_bytes = 64, .small_group = 3 },
    { .kind = COPSE_CROSS_ALL_REDUCE, .pack_bytes = 4096 },
    { .kind = COPSE_CROSS_HIERARCHICAL },
    { .kind = COPSE_CROSS_HIERARCHICAL, .packs = 5 },
    { .kind = COPSE_CROSS_HIERARCHICAL, .small_bytes = 1 << 20, .small_group = 1 },
};

/* ---- numbers ---- */

static inline float number(uint32_t rank, uint32_t tensor, uint32_t i)
{
    const uint32_t counter[4] = { i, rank, tensor, 11 }, key[2] = { 3, 4 };
    uint32_t word[4];
    copse__philox(counter, key, word);
    if (word[3] % 17 == 0)
        return word[2] % 2 ? -0.0f : 0.0f;
    return ldexpf((float)(int32_t)word[0], (int)(word[1] % 41) - 51); /* exponents -20 to 20 */
}

/* The definition of the tree, top down. */
static inline float canonical(uint32_t first, uint32_t count, uint32_t tensor, uint32_t i)
{
    uint32_t half = 1;
    if (count == 1)
        return number(first, tensor, i);
    while (half * 2 < count)
        half *= 2;
    return canonical(first, half, tensor, i) + canonical(first + half, count - half, tensor, i);
}

static inline float expected(copse_reduce_op op, uint32_t ranks, uint32_t tensor, uint32_t i)
{
    const float sum = canonical(0, ranks, tensor, i);
    return op == COPSE_REDUCE_MEAN && ranks > 1 ? sum / (float)ranks : sum;
}

static inline copse_value *random_value(copse_strategy *st, uint32_t tensor, uint32_t elements)
{
    copse_value *parts[MAX_RANKS];
    float *x = malloc(4 * (size_t)elements + 4);
    assert_non_null(x);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        for (uint32_t i = 0; i < elements; i++)
            x[i] = number(r, tensor, i);
        /* One in seven is on the host. */
        parts[r] = floats_on(st, (r + tensor) % 7 == 6 ? COPSE_HOST : r, elements, x);
    }
    free(x);
    return per_replica(st, parts);
}

static inline void check_component(const copse_value *v, copse_reduce_op op, uint32_t ranks,
                                   uint32_t tensor, uint32_t elements, const char *what)
{
    float *x = malloc(4 * (size_t)elements + 4);
    assert_non_null(x);
    assert_int_equal(copse_value_kind_of(v), COPSE_VALUE_ARRAY);
    assert_int_equal(copse_value_shape(v).rank, 1);
    assert_int_equal(copse_value_shape(v).dims[0], elements);
    OK(copse_value_read(v, x));
    for (uint32_t i = 0; i < elements; i++) {
        const float want = expected(op, ranks, tensor, i);
        if (memcmp(&x[i], &want, 4) != 0)
            fail_msg("%s: %u ranks, tensor %u on %d, element %u: %a, not %a", what, ranks, tensor,
                     (int)copse_value_rank(v), i, (double)x[i], (double)want);
    }
    free(x);
}

/* ---- sparse values ---- */

static inline copse_value *sparse_on(copse_strategy *st, uint32_t rank, uint32_t count,
                                     const int32_t *rows, const float *values)
{
    const struct copse_sparse_params p = { COPSE_SHAPE(5, 2), count, rows, values };
    copse_value *v;
    OK(copse__value_sparse(ctx, st, rank, &p, &v));
    return v;
}

static inline void check_sparse(const copse_value *v, uint32_t count, const int32_t *rows,
                                const float *values)
{
    int32_t got_rows[16];
    float got[32];
    assert_int_equal(copse_value_kind_of(v), COPSE_VALUE_SPARSE);
    assert_int_equal(copse_value_count(v), count);
    assert_int_equal(copse_value_shape(v).dims[0], 5);
    OK(copse_value_read_sparse(v, got_rows, got));
    assert_memory_equal(got_rows, rows, count * sizeof *rows);
    assert_memory_equal(got, values, count * 2 * sizeof *values);
}

/* ---- mixtures ---- */

typedef void check_fn(copse_strategy *st);

/* Every number of replicas over every mixture of devices; large numbers only over all devices. */
static inline void over_mixtures(check_fn *check)
{
    for (size_t c = 0; c < COPSE_COUNT(counts); c++)
        for (uint32_t mix = 1; mix < 1u << found_count; mix++) {
            const bool is_all = mix == (1u << found_count) - 1;
            copse_strategy *st =
                counts[c] <= 3 || is_all ? open_mixture(ctx, mix, counts[c]) : NULL;
            if (!st)
                continue;
            check(st);
            copse_strategy_release(&st);
        }
}

#endif
