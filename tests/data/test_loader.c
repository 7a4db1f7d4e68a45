/* SPDX-License-Identifier: MIT */
/* Batches of a dataset, with and without prefetch: order, partial ones, and how long they live. */
#include "core/base/platform.h"
#include "tests/rig/data/data_rig.h"

/* The rows of one epoch, in order; checks each batch against the dataset. */
static size_t walk(copse_loader *b, uint32_t *rows, size_t batch)
{
    struct copse_host_batch t;
    copse_status s;
    size_t n = 0, index = 0;

    while ((s = copse_loader_next(b, &t)) == COPSE_OK) {
        assert_int_equal(t.first, n);
        assert_int_equal(t.index, index++);
        assert_in_range(t.count, 1, batch);
        for (size_t i = 0; i < t.count; i++) {
            assert_true(rig_floats(&t)[2 * i] == (float)t.rows[i]);
            assert_true(rig_floats(&t)[2 * i + 1] == 2 * (float)t.rows[i]);
            assert_int_equal(rig_labels(&t)[i], t.rows[i] % 3);
            rows[n++] = t.rows[i];
        }
    }
    assert_int_equal(s, COPSE_ERR_END);
    assert_int_equal(copse_loader_next(b, &t), COPSE_ERR_END);
    assert_null(t.columns);
    return n;
}

static void test_batches_in_order_with_a_partial_one(void **state)
{
    copse_dataset *ds = numbered(5);
    copse_loader *b;
    struct copse_host_batch t;
    uint32_t rows[5];

    (void)state;
    OK(copse_loader_create(ds, &(struct copse_loader_params){ .batch = 2, .no_shuffle = true },
                           &b));
    assert_int_equal(copse_loader_count(b), 3);
    assert_int_equal(walk(b, rows, 2), 5);
    assert_memory_equal(rows, ((uint32_t[]){ 0, 1, 2, 3, 4 }), sizeof rows);
    OK(copse_loader_start(b, 0, 2));
    OK(copse_loader_next(b, &t));
    assert_int_equal(t.count, 1);
    assert_int_equal(t.first, 4);
    FAILS(COPSE_ERR_ARGUMENT, copse_loader_start(b, 0, 4), "no batch 4");
    copse_loader_release(&b);

    OK(copse_loader_create(
        ds, &(struct copse_loader_params){ .batch = 2, .no_shuffle = true, .drop_last = true },
        &b));
    assert_int_equal(copse_loader_count(b), 2);
    assert_int_equal(walk(b, rows, 2), 4);
    copse_loader_release(&b);
    copse_dataset_release(&ds);
}

static void test_batch_sizes_are_checked(void **state)
{
    copse_dataset *ds = numbered(5);
    copse_loader *b;

    (void)state;
    FAILS(COPSE_ERR_ARGUMENT,
          copse_loader_create(ds, &(struct copse_loader_params){ .batch = 6 }, &b),
          "batch size 6 is larger than the data, which has 5 rows");
    assert_null(b);
    FAILS(COPSE_ERR_ARGUMENT, copse_loader_create(ds, NULL, &b), "'params' is NULL");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_loader_create(ds, &(struct copse_loader_params){ .batch = 1, .prefetch = 65 }, &b),
          "at most 64");
    copse_dataset_release(&ds);
}

static void test_order_depends_on_seed_and_epoch_alone(void **state)
{
    copse_dataset *ds = numbered(101);
    uint32_t first[2][101], rows[101];
    uint8_t seen[101];

    (void)state;
    for (uint32_t prefetch = 0; prefetch < 20; prefetch += 1 + prefetch)
        for (size_t batch = 1; batch <= 101; batch += 1 + batch) {
            copse_loader *b;
            const struct copse_loader_params params = { .batch = batch,
                                                        .seed = 7,
                                                        .prefetch = prefetch };
            OK(copse_loader_create(ds, &params, &b));
            for (uint32_t epoch = 0; epoch < 2; epoch++) {
                OK(copse_loader_start(b, epoch, 0));
                assert_int_equal(walk(b, rows, batch), 101);
                if (batch == 1 && prefetch == 0)
                    memcpy(first[epoch], rows, sizeof rows);
                assert_memory_equal(rows, first[epoch], sizeof rows);
            }
            /* and back, from the middle of an epoch */
            struct copse_host_batch t;
            OK(copse_loader_start(b, 1, 0));
            OK(copse_loader_next(b, &t));
            OK(copse_loader_start(b, 0, 0));
            walk(b, rows, batch);
            assert_memory_equal(rows, first[0], sizeof rows);
            copse_loader_release(&b);
        }
    for (int epoch = 0; epoch < 2; epoch++) {
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < 101; i++)
            seen[first[epoch][i]]++;
        for (int i = 0; i < 101; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(first[0], first[1], sizeof rows);
    copse_dataset_release(&ds);
}

static void test_prefetching_walk_may_be_released_at_any_time(void **state)
{
    copse_dataset *ds = numbered(64);

    (void)state;
    for (int taken = 0; taken < 20; taken++) {
        copse_loader *b;
        struct copse_host_batch t;
        OK(copse_loader_create(ds, &(struct copse_loader_params){ .batch = 4, .prefetch = 3 }, &b));
        for (int i = 0; i < taken; i++)
            assert_int_equal(copse_loader_next(b, &t), i < 16 ? COPSE_OK : COPSE_ERR_END);
        copse_loader_release(&b);
    }
    copse_dataset_release(&ds);
}

static void test_batch_stays_valid_while_others_are_prepared(void **state)
{
    copse_dataset *ds = numbered(256);
    copse_loader *b;
    struct copse_host_batch t;
    copse_status s;

    (void)state;
    OK(copse_loader_create(ds, &(struct copse_loader_params){ .batch = 4, .prefetch = 2 }, &b));
    while ((s = copse_loader_next(b, &t)) == COPSE_OK) {
        copse__sleep_ns(500000);
        for (size_t i = 0; i < t.count; i++)
            assert_true(rig_floats(&t)[2 * i] == (float)t.rows[i]);
    }
    assert_int_equal(s, COPSE_ERR_END);
    copse_loader_release(&b);
    copse_dataset_release(&ds);
}

static void test_start_waits_for_the_batch_being_prepared(void **state)
{
    copse_dataset *ds = numbered(20000);
    copse_loader *b;
    struct copse_host_batch t;

    (void)state;
    OK(copse_loader_create(ds, &(struct copse_loader_params){ .batch = 10000, .prefetch = 1 }, &b));
    for (uint32_t epoch = 0; epoch < 100; epoch++) {
        OK(copse_loader_start(b, epoch, 0));
        copse__sleep_ns(epoch * 3000);
        OK(copse_loader_start(b, epoch, 1));
        OK(copse_loader_next(b, &t));
        assert_int_equal(t.index, 1);
        for (size_t i = 0; i < t.count; i++)
            if (rig_floats(&t)[2 * i] != (float)t.rows[i])
                fail_msg("epoch %u, example %zu", epoch, i);
    }
    copse_loader_release(&b);
    copse_dataset_release(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_in_order_with_a_partial_one),
        cmocka_unit_test(test_batch_sizes_are_checked),
        cmocka_unit_test(test_order_depends_on_seed_and_epoch_alone),
        cmocka_unit_test(test_prefetching_walk_may_be_released_at_any_time),
        cmocka_unit_test(test_batch_stays_valid_while_others_are_prepared),
        cmocka_unit_test(test_start_waits_for_the_batch_being_prepared),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
