/* SPDX-License-Identifier: MIT */
/* How a global batch is shared out among replicas. */
#include "tests/rig/rig.h"

#include "core/base/base.h"
#include "core/data/input/shard.h"

static void assert_shards(enum copse_shard_rule rule, size_t rows, size_t global, uint32_t replicas,
                          const size_t *counts)
{
    struct copse_shard s[COPSE_SHARD_MAX_REPLICAS];
    size_t first = 0;

    OK(copse__shard(rule, rows, global, replicas, s));
    for (uint32_t r = 0; r < replicas; r++) {
        if (s[r].first != first || s[r].count != counts[r])
            fail_msg("rule %d, %zu rows, replica %u of %u: %zu+%zu", rule, rows, r, replicas,
                     s[r].first, s[r].count);
        first += s[r].count;
    }
    assert_int_equal(first, rows);
}

static void test_shard_rules(void **state)
{
#define COUNTS(...) ((const size_t[]){ __VA_ARGS__ })
    (void)state;
    assert_shards(COPSE_SHARD_CEIL, 4, 4, 2, COUNTS(2, 2));
    assert_shards(COPSE_SHARD_CEIL, 2, 4, 2, COUNTS(1, 1));
    assert_shards(COPSE_SHARD_CEIL, 4, 4, 5, COUNTS(1, 1, 1, 1, 0));
    assert_shards(COPSE_SHARD_CEIL, 4, 4, 3, COUNTS(2, 2, 0));
    assert_shards(COPSE_SHARD_CEIL, 6, 6, 4, COUNTS(2, 2, 2, 0));
    assert_shards(COPSE_SHARD_CEIL, 7, 7, 3, COUNTS(3, 3, 1));
    assert_shards(COPSE_SHARD_CEIL, 1, 7, 3, COUNTS(1, 0, 0));
    assert_shards(COPSE_SHARD_BALANCED, 7, 7, 3, COUNTS(3, 2, 2));
    assert_shards(COPSE_SHARD_BALANCED, 4, 4, 3, COUNTS(2, 1, 1));
    assert_shards(COPSE_SHARD_BALANCED, 6, 8, 4, COUNTS(2, 2, 1, 1));
    assert_shards(COPSE_SHARD_BALANCED, 2, 8, 4, COUNTS(1, 1, 0, 0));
    assert_shards(COPSE_SHARD_FIXED, 8, 8, 2, COUNTS(4, 4));
    assert_shards(COPSE_SHARD_FIXED, 5, 8, 2, COUNTS(4, 1));
    assert_shards(COPSE_SHARD_FIXED, 3, 8, 4, COUNTS(2, 1, 0, 0));
    for (int rule = COPSE_SHARD_BALANCED; rule <= COPSE_SHARD_FIXED; rule++)
        assert_shards((enum copse_shard_rule)rule, 0, 6, 3, COUNTS(0, 0, 0));
}

static void test_balanced_shards_cover_every_batch(void **state)
{
    struct copse_shard s[COPSE_SHARD_MAX_REPLICAS];

    (void)state;
    for (uint32_t replicas = 1; replicas <= COPSE_SHARD_MAX_REPLICAS; replicas++)
        for (size_t rows = 0; rows <= 200; rows++) {
            size_t first = 0;
            OK(copse__shard(COPSE_SHARD_BALANCED, rows, 200, replicas, s));
            for (uint32_t r = 0; r < replicas; r++) {
                assert_int_equal(s[r].first, first);
                assert_in_range(s[r].count, rows / replicas, rows / replicas + 1);
                assert_true(r == 0 || s[r].count <= s[r - 1].count);
                first += s[r].count;
            }
            assert_int_equal(first, rows);
        }
    FAILS(COPSE_ERR_ARGUMENT, copse__shard(COPSE_SHARD_FIXED, 7, 7, 2, s), "evenly");
    FAILS(COPSE_ERR_ARGUMENT, copse__shard(COPSE_SHARD_CEIL, 7, 7, 0, s), "0 replicas");
    FAILS(COPSE_ERR_ARGUMENT, copse__shard(COPSE_SHARD_CEIL, 7, 7, 65, s), "65 replicas");
    FAILS(COPSE_ERR_ARGUMENT, copse__shard(COPSE_SHARD_CEIL, 8, 7, 2, s), "at most 7");
}

static void assert_weighted(size_t rows, const double *weights, uint32_t replicas,
                            const size_t *counts)
{
    struct copse_shard s[COPSE_SHARD_MAX_REPLICAS];
    size_t first = 0;

    OK(copse__shard_weighted(rows, weights, replicas, s));
    for (uint32_t r = 0; r < replicas; r++) {
        if (s[r].first != first || s[r].count != counts[r])
            fail_msg("%zu rows, replica %u of %u: %zu+%zu, not %zu", rows, r, replicas, s[r].first,
                     s[r].count, counts[r]);
        first += s[r].count;
    }
    assert_int_equal(first, rows);
}

static void test_weighted_shards(void **state)
{
#define WEIGHTS(...) ((const double[]){ __VA_ARGS__ })
    struct copse_shard s[COPSE_SHARD_MAX_REPLICAS];

    (void)state;
    assert_weighted(7, WEIGHTS(1, 1, 1), 3, COUNTS(3, 2, 2)); /* equal ones are balanced */
    assert_weighted(8, WEIGHTS(1, 3), 2, COUNTS(2, 6));
    assert_weighted(9, WEIGHTS(1, 3), 2, COUNTS(2, 7)); /* 2.25 and 6.75 */
    assert_weighted(10, WEIGHTS(0, 1, 0), 3, COUNTS(0, 10, 0));
    assert_weighted(10, WEIGHTS(1e-30, 1e-30), 2, COUNTS(5, 5));
    assert_weighted(5, WEIGHTS(1e-9, 1), 2, COUNTS(0, 5));
    assert_weighted(0, WEIGHTS(2, 1), 2, COUNTS(0, 0));
    assert_weighted(1, WEIGHTS(2, 5, 3), 3, COUNTS(0, 1, 0));
    for (uint32_t replicas = 1; replicas <= COPSE_SHARD_MAX_REPLICAS; replicas++) {
        double weights[COPSE_SHARD_MAX_REPLICAS], sum = 0.0;
        for (uint32_t r = 0; r < replicas; r++)
            sum += weights[r] = 1.0 + (double)(r * 7 % 5);
        for (size_t rows = 0; rows < 300; rows += 7) {
            size_t first = 0;
            OK(copse__shard_weighted(rows, weights, replicas, s));
            for (uint32_t r = 0; r < replicas; r++) { /* within one row of the exact shard */
                const double exact = (double)rows * weights[r] / sum;
                assert_true((double)s[r].count > exact - 1.0 && (double)s[r].count < exact + 1.0);
                assert_int_equal(s[r].first, first);
                first += s[r].count;
            }
            assert_int_equal(first, rows);
        }
    }
    FAILS(COPSE_ERR_ARGUMENT, copse__shard_weighted(5, WEIGHTS(0, 0), 2, s), "above 0");
    FAILS(COPSE_ERR_ARGUMENT, copse__shard_weighted(5, WEIGHTS(1, -1), 2, s), "replica 1");
    FAILS(COPSE_ERR_ARGUMENT, copse__shard_weighted(5, WEIGHTS(1.0 / 0.0), 1, s), "inf");
    FAILS(COPSE_ERR_ARGUMENT, copse__shard_weighted(5, WEIGHTS(1), 0, s), "0 replicas");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_rules),
        cmocka_unit_test(test_balanced_shards_cover_every_batch),
        cmocka_unit_test(test_weighted_shards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
