/* SPDX-License-Identifier: MIT */
/* Shared by the self-tests of kernels: see struct copse_self_test. A self-test is next to the
   kernel's host function, in the op's file or in one for it. */
#ifndef COPSE_CORE_OPS_SELF_TESTS_H
#define COPSE_CORE_OPS_SELF_TESTS_H

#include "core/ops/ops.h"

#define COPSE_SELF_TEST_SLACK 1e-3f /* for functions that devices round differently */
#define COPSE_TEST_N          100u  /* elements of an elementwise test */
#define COPSE_TEST_LINE       70u   /* elements of an axis: two chunks */
#define COPSE_TEST_ROWS       3u
#define COPSE_TEST_COLS       9u

/* Groups for n elements, one invocation each. */
static inline uint64_t copse__test_groups(const struct copse_kernel *k, uint64_t n)
{
    const uint32_t size = k->group_x * k->group_y;
    return (n + size - 1) / size;
}

/* The launch: COPSE_SELF_TEST(t, params, groups, words of each buffer...). */
#define COPSE_SELF_TEST(t, p, groups_, ...)           \
    do {                                              \
        const uint32_t counts_[] = { __VA_ARGS__ };   \
        memcpy((t)->params, &(p), sizeof(p));         \
        memcpy((t)->counts, counts_, sizeof counts_); \
        (t)->groups = (groups_);                      \
    } while (0)

static inline void copse__test_set(struct copse_self_test *t, uint32_t buffer, uint32_t word,
                                   float value)
{
    memcpy(&t->words[buffer][word], &value, sizeof value);
}

/* Multiples of 1/4 up to 2: all functions are defined there and products are exact. */
static inline void copse__test_quarters(struct copse_self_test *t, uint32_t buffer)
{
    for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++)
        copse__test_set(t, buffer, i, 0.25f * (float)(1 + (i + i / 8) % 8));
}

/* Tolerance for a row of the tables: an op within 1 ULP is exact for numbers of a few bits. */
static inline float copse__test_slack(double ulp)
{
    return ulp > 1 ? COPSE_SELF_TEST_SLACK : 0.0f;
}

/* ---- a tensor of as many axes as a strided kernel was made for ---- */

/* Its two operands: the first is constant along the innermost axis, the second is transposed. */
#define COPSE_TEST_WALK 120u /* maximum of elements of an operand */

static inline uint32_t copse__test_rank(int32_t spec)
{
    return (uint32_t)COPSE_MIN(COPSE_MAX(spec, 1), COPSE_MAX_RANK);
}

static inline uint32_t copse__test_elements(uint32_t rank)
{
    static const uint32_t counts[COPSE_MAX_RANK] = { 5, 20, 60, 120, 120, 120 };
    return counts[rank - 1];
}

static inline struct copse_walk copse__test_walk(uint32_t rank)
{
    struct copse_walk w = {
        .rank = rank,
        .dims = { 5, 4, 3, 2, 1, 1 }, /* from the innermost axis */
        .a = { 0, 1, 4, 12, 24, 24 },
        .b = { 24, 6, 2, 1, 0, 0 },
    };
    for (uint32_t i = 0; i < COPSE_MAX_RANK; i++)
        copse__divisor(w.dims[i], &w.m[i], &w.h[i]);
    return w;
}

#endif
