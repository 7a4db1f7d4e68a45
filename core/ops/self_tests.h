/* SPDX-License-Identifier: MIT */
/* What the self-tests of kernels have in common: see struct copse_self_test. */
#ifndef COPSE_CORE_OPS_SELF_TESTS_H
#define COPSE_CORE_OPS_SELF_TESTS_H

#include "core/ops/ops.h"

#define COPSE_SELF_TEST_SLACK 1e-3f /* of functions that devices round in their own ways */

/* Groups for n elements, one invocation each. */
static inline uint64_t copse__test_groups(const struct copse_kernel *k, uint64_t n)
{
    const uint32_t size = k->group_x * k->group_y;
    return (n + size - 1) / size;
}

/* The launch: COPSE_SELF_TEST(t, params, groups, words of each buffer...). */
#define COPSE_SELF_TEST(t, p, groups_, ...)                                                        \
    do {                                                                                           \
        const uint32_t counts_[] = { __VA_ARGS__ };                                                \
        memcpy((t)->params, &(p), sizeof(p));                                                      \
        memcpy((t)->counts, counts_, sizeof counts_);                                              \
        (t)->groups = (groups_);                                                                   \
    } while (0)

static inline void copse__test_set(struct copse_self_test *t, uint32_t buffer, uint32_t word,
                                   float value)
{
    memcpy(&t->words[buffer][word], &value, sizeof value);
}

/* Quarters from 1/4 to 2: where functions are defined and products still exact. */
static inline void copse__test_quarters(struct copse_self_test *t, uint32_t buffer)
{
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++)
        copse__test_set(t, buffer, i, 0.25f * (float)(1 + (i + i / 8) % 8));
}

#endif
