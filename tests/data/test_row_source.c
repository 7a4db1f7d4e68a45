/* SPDX-License-Identifier: MIT */
/* A dataset whose rows are not in memory: which rows it asks for, which it announces, and what
   becomes of a failure. */
#include "core/data/dataset/dataset.h"
#include "tests/rig/data/data_rig.h"

/* Row r is the number r; a row can be broken. */
struct counted {
    struct copse_row_source rows;
    atomic_int broken; /* a row, or -1 */
    atomic_uint announced[64], read[64];
    atomic_bool *is_released;
};

static copse_status read_counted(struct copse_row_source *self, const uint32_t *rows, size_t count,
                                 void *out)
{
    struct counted *c = (struct counted *)self;
    for (size_t i = 0; i < count; i++) {
        const uint32_t row = rows != NULL ? rows[i] : (uint32_t)i;
        if ((int)row == atomic_load(&c->broken))
            return copse_fail(COPSE_ERR_FORMAT, "file%u.png: it is damaged", row);
        atomic_fetch_add(&c->read[row], 1);
        ((int32_t *)out)[i] = (int32_t)row;
    }
    return COPSE_OK;
}

static void count_ahead(struct copse_row_source *self, const uint32_t *rows, size_t count)
{
    struct counted *c = (struct counted *)self;
    for (size_t i = 0; i < count; i++)
        atomic_fetch_add(&c->announced[rows[i]], 1);
}

static void release_counted(struct copse_row_source *self)
{
    atomic_store(((struct counted *)self)->is_released, true);
    free(self);
}

static const struct copse_row_table table = { read_counted, count_ahead, release_counted };

static struct counted *make(size_t rows, atomic_bool *is_released, copse_dataset **out)
{
    struct counted *c = calloc(1, sizeof *c);
    assert_non_null(c);
    copse__row_source_init(&c->rows, &table);
    atomic_init(&c->broken, -1);
    c->is_released = is_released;
    atomic_init(is_released, false);
    OK(copse__dataset_new(ctx, rows, out));
    OK(copse__dataset_add_rows(*out, "x", COPSE_I32, COPSE_SCALAR, &c->rows));
    return c;
}

static void test_gather_maps_the_rows_of_a_part(void **state)
{
    atomic_bool is_released;
    copse_dataset *ds, *train, *test;
    int32_t x[64] = { 0 }, seen[64] = { 0 };
    uint32_t back[64];

    (void)state;
    make(64, &is_released, &ds);
    OK(copse_dataset_split(ds, NULL, &train, &test));
    copse_dataset_release(&ds);
    OK(copse_dataset_gather(train, "x", NULL, 51, x));
    OK(copse_dataset_gather(test, "x", NULL, 13, x + 51));
    for (int i = 0; i < 64; i++)
        seen[x[i]]++;
    for (int i = 0; i < 64; i++)
        assert_int_equal(seen[i], 1);
    for (uint32_t i = 0; i < 51; i++)
        back[i] = 50 - i;
    int32_t y[51];
    OK(copse_dataset_gather(train, "x", back, 51, y));
    for (int i = 0; i < 51; i++)
        assert_int_equal(y[i], x[50 - i]);
    copse_dataset_release(&train);
    assert_false(is_released);
    copse_dataset_release(&test);
    assert_true(is_released);
}

static void test_rows_are_announced_once_and_before_they_are_read(void **state)
{
    atomic_bool is_released;
    copse_dataset *ds;
    copse_loader *b;
    struct copse_host_batch t;

    (void)state;
    for (uint32_t prefetch = 0; prefetch < 3; prefetch += 2) {
        struct counted *c = make(64, &is_released, &ds);
        OK(copse_loader_create(
            ds, &(struct copse_loader_params){ .batch = 4, .prefetch = prefetch }, &b));
        for (size_t i = 0; i < 16; i++) {
            OK(copse_loader_next(b, &t));
            for (size_t k = 0; k < t.count; k++) /* the first batch is read at once */
                assert_int_equal(atomic_load(&c->announced[t.rows[k]]), i > 0);
        }
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(atomic_load(&c->read[i]), 1);
        copse_loader_release(&b);
        copse_dataset_release(&ds);
    }
}

/* The batches before it are delivered; then a call fails with the text, and a later one tries
   again. */
static void test_failure_reaches_the_caller(void **state)
{
    atomic_bool is_released;
    copse_dataset *ds;
    copse_loader *b;
    struct copse_host_batch t;
    int32_t x;

    (void)state;
    for (uint32_t prefetch = 0; prefetch < 3; prefetch += 2) {
        struct counted *c = make(12, &is_released, &ds);
        atomic_store(&c->broken, 7);
        FAILS(COPSE_ERR_FORMAT, copse_dataset_gather(ds, "x", (const uint32_t[]){ 7 }, 1, &x),
              "file7.png: it is damaged");
        OK(copse_loader_create(
            ds,
            &(struct copse_loader_params){ .batch = 2, .no_shuffle = true, .prefetch = prefetch },
            &b));
        for (int i = 0; i < 3; i++)
            OK(copse_loader_next(b, &t));
        for (int i = 0; i < 3; i++) {
            FAILS(COPSE_ERR_FORMAT, copse_loader_next(b, &t), "file7.png: it is damaged");
            assert_null(t.columns);
        }
        size_t index;
        copse_loader_position(b, NULL, &index);
        assert_int_equal(index, 3);
        OK(copse_loader_start(b, 1, 4)); /* behind it */
        OK(copse_loader_next(b, &t));
        assert_int_equal(((const int32_t *)t.columns[0].data)[0], 8);
        OK(copse_loader_start(b, 1, 2));
        OK(copse_loader_next(b, &t));
        FAILS(COPSE_ERR_FORMAT, copse_loader_next(b, &t), "file7.png: it is damaged");
        atomic_store(&c->broken, -1);
        copse_status s;
        /* the thread may have read it before it was repaired */
        while ((s = copse_loader_next(b, &t)) == COPSE_ERR_FORMAT)
            assert_int_not_equal(prefetch, 0);
        OK(s);
        assert_int_equal(t.index, 3);
        assert_int_equal(((const int32_t *)t.columns[0].data)[1], 7);
        copse_loader_release(&b);
        copse_dataset_release(&ds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather_maps_the_rows_of_a_part),
        cmocka_unit_test(test_rows_are_announced_once_and_before_they_are_read),
        cmocka_unit_test(test_failure_reaches_the_caller),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
