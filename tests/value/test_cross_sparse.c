/* SPDX-License-Identifier: MIT */
/* Cross-device operations on sparse values. */
#include "tests/rig/value/cross_rig.h"

static void ops_5(void **unused)
{
    copse_strategy *st = open_all(ctx, 2);
    copse_value *parts[] = {
        sparse_on(st, 0, 1, (const int32_t[]){ 1 }, (const float[]){ 1, 2 }),
        sparse_on(st, 1, 2, (const int32_t[]){ 3, 1 }, (const float[]){ 5, 6, 3, 4 }),
    };
    copse_value *v = per_replica(st, parts), *sum, *mean, *dense;
    float x[10];
    (void)unused;
    for (size_t s = 0; s < COPSE_COUNT(settings); s++) {
        copse_cross_device *c;
        OK(copse_cross_device_create(ctx, &settings[s], &c));
        OK(copse_cross_reduce(c, st, COPSE_REDUCE_SUM, v, NULL, &sum));
        OK(copse_cross_reduce(c, st, COPSE_REDUCE_MEAN, v, NULL, &mean));
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(copse_value_rank(copse_value_item(sum, r)), r);
            check_sparse(copse_value_item(sum, r), 2, (const int32_t[]){ 1, 3 },
                         (const float[]){ 4, 6, 5, 6 });
            check_sparse(copse_value_item(mean, r), 2, (const int32_t[]){ 1, 3 },
                         (const float[]){ 2, 3, 2.5f, 3 });
        }
        copse_value_release(&sum);
        copse_value_release(&mean);
        copse_cross_device_release(&c);
    }
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, v,
                          &(struct copse_destinations){ .ranks = &(uint32_t){ 1 }, .count = 1 },
                          &sum));
    OK(copse_value_densify(copse_value_item(sum, 0), &dense));
    OK(copse_value_read(dense, x));
    assert_memory_equal(x, ((const float[]){ 0, 0, 4, 6, 0, 0, 5, 6, 0, 0 }), sizeof x);
    copse_value_release(&dense);
    copse_value_release(&sum);
    copse_value_release(&v);

    /* Rows that repeat within a replica, a replica without slices, and nobody with any. */
    parts[0] =
        sparse_on(st, 0, 3, (const int32_t[]){ 4, 0, 4 }, (const float[]){ 1, 1, 2, 2, 3, 3 });
    parts[1] = sparse_on(st, 1, 0, NULL, NULL);
    v = per_replica(st, parts);
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, v, NULL, &sum));
    check_sparse(copse_value_item(sum, 1), 2, (const int32_t[]){ 0, 4 },
                 (const float[]){ 2, 2, 4, 4 });
    copse_value_release(&sum);
    copse_value_release(&v);
    parts[0] = sparse_on(st, 0, 0, NULL, NULL);
    parts[1] = sparse_on(st, 1, 0, NULL, NULL);
    v = per_replica(st, parts);
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_MEAN, v, NULL, &mean));
    check_sparse(copse_value_item(mean, 0), 0, NULL, NULL);
    copse_value_release(&mean);
    copse_value_release(&v);
    copse_strategy_release(&st);
}

/* Rows are added in the order of the ranks, and come back in ascending order, for many slices. */
static void sparse_rows_are_added_in_rank_order(void **unused)
{
    enum { ROWS = 50, SLICES = 333, N = 3 };
    copse_strategy *st = open_all(ctx, N);
    copse_value *parts[N], *v, *sum;
    static float want[ROWS], got[ROWS], x[SLICES];
    static int32_t rows[SLICES], got_rows[ROWS];
    bool is_there[ROWS] = { false };
    (void)unused;
    for (uint32_t r = 0; r < N; r++) {
        for (uint32_t i = 0; i < SLICES; i++) {
            rows[i] = (int32_t)((i * 37 + r * 11) % 45);
            x[i] = number(r, 0, i);
            want[rows[i]] = is_there[rows[i]] ? want[rows[i]] + x[i] : x[i];
            is_there[rows[i]] = true;
        }
        const struct copse_sparse_params p = { COPSE_SHAPE(ROWS), SLICES, rows, x };
        OK(copse__value_sparse(ctx, st, r, &p, &parts[r]));
    }
    v = per_replica(st, parts);
    OK(copse_cross_reduce(NULL, st, COPSE_REDUCE_SUM, v, NULL, &sum));
    assert_int_equal(copse_value_count(copse_value_item(sum, 1)), 45);
    OK(copse_value_read_sparse(copse_value_item(sum, 1), got_rows, got));
    for (int32_t i = 0; i < 45; i++)
        assert_int_equal(got_rows[i], i);
    assert_memory_equal(got, want, 45 * sizeof *got);
    copse_value_release(&sum);
    copse_value_release(&v);
    copse_strategy_release(&st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ops_5),
        TEST(sparse_rows_are_added_in_rank_order),
    };
    return cmocka_run_group_tests_name("cross_sparse", tests, open_context, close_context);
}
