/* SPDX-License-Identifier: MIT */
/* Folds: each row is held out once, each class is spread evenly, and what is refused. */
#include "copse/data/folds.h"
#include "copse/data/source.h"
#include "copse/data/text.h"

#include "core/base/base.h"
#include "tests/rig/data/reader_rig.h"

enum { MOST = 70000 };

static float x[MOST];
static int32_t y[MOST];

/* Row i has x = i, and a class by `classes`; 0: values. */
static copse_dataset *make_rows(size_t rows, int classes)
{
    copse_dataset *data;
    for (size_t i = 0; i < rows; i++) {
        x[i] = (float)i;
        y[i] = classes > 0 ? (int32_t)((i * i / 7) % (size_t)classes) : 0;
    }
    y[0] = classes > 0 ? classes - 1 : 0;
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { rows, 1 }, .data = x
    };
    const struct copse_array_view kinds = {
        .type = COPSE_I32, .rank = 1, .shape = { rows }, .data = y
    };
    const struct copse_array_view values = {
        .type = COPSE_F32, .rank = 1, .shape = { rows }, .data = x
    };
    OK(copse_dataset_create(ctx, &features, classes > 0 ? &kinds : &values,
                            &(struct copse_dataset_params){
                                .scale = COPSE_SCALE_NONE,
                                .task = classes > 0 ? COPSE_TASK_AUTO : COPSE_TASK_REGRESSION },
                            &data));
    return data;
}

/* Marks the rows of a part. */
static size_t mark(const copse_dataset *part, unsigned char *marks, unsigned char by)
{
    static float taken[MOST];
    struct copse_dataset_info info;
    copse_dataset_describe(part, &info);
    OK(copse_dataset_gather(part, "x", NULL, info.rows, taken));
    for (size_t i = 0; i < info.rows; i++)
        marks[(size_t)taken[i]] = (unsigned char)(marks[(size_t)taken[i]] + by);
    return info.rows;
}

static void check_folds(size_t rows, int classes, uint32_t folds, bool stratify)
{
    static unsigned char held[MOST], all[MOST];
    copse_dataset *data = make_rows(rows, classes), *train, *test;
    memset(held, 0, sizeof held);
    for (uint32_t k = 0; k < folds; k++) {
        size_t counts[16] = { 0 }, in_all[16] = { 0 };
        memset(all, 0, sizeof all);
        OK(copse_dataset_fold(data,
                              &(struct copse_fold_params){
                                  .folds = folds, .fold = k, .seed = 5, .stratify = stratify },
                              &train, &test));
        const size_t held_rows = mark(test, held, 1);
        assert_true(held_rows == rows / folds || held_rows == rows / folds + 1);
        (void)mark(test, all, 2);
        assert_int_equal(mark(train, all, 1), rows - held_rows);
        for (size_t i = 0; i < rows; i++) {
            assert_true(all[i] == 1 || all[i] == 2); /* in one part, once */
            counts[y[i]] += all[i] == 2;
            in_all[y[i]]++;
        }
        for (int c = 0; stratify && c < classes; c++)
            if (counts[c] != in_all[c] / folds && counts[c] != in_all[c] / folds + 1)
                fail_msg("class %d has %zu of %zu rows in a fold of %u", c, counts[c], in_all[c],
                         folds);
        copse_dataset_release(&train);
        copse_dataset_release(&test);
    }
    for (size_t i = 0; i < rows; i++)
        assert_int_equal(held[i], 1);
    copse_dataset_release(&data);
}

static void test_each_row_is_held_out_once(void **state)
{
    (void)state;
    for (int stratify = 0; stratify < 2; stratify++) {
        check_folds(10, 3, 2, stratify);
        check_folds(10, 3, 10, stratify);
        check_folds(1001, 7, 5, stratify);
        check_folds(MOST, 16, 3, stratify);
    }
    check_folds(50, 0, 4, false);
}

static void test_the_seed_decides(void **state)
{
    static const uint64_t seeds[] = { 1, 1, 2 };
    static unsigned char held[3][100];
    copse_dataset *data = make_rows(100, 4), *train, *test;
    (void)state;
    for (int i = 0; i < 3; i++) {
        OK(copse_dataset_fold(
            data, &(struct copse_fold_params){ .folds = 5, .seed = seeds[i], .stratify = true },
            &train, &test));
        (void)mark(test, held[i], 1);
        copse_dataset_release(&train);
        copse_dataset_release(&test);
    }
    assert_memory_equal(held[0], held[1], sizeof held[0]);
    assert_memory_not_equal(held[0], held[2], sizeof held[0]);
    copse_dataset_release(&data);
}

static void refused(copse_dataset *data, uint32_t folds, uint32_t fold, bool stratify,
                    const char *text)
{
    copse_dataset *train, *test;
    FAILS(COPSE_ERR_ARGUMENT,
          copse_dataset_fold(
              data,
              &(struct copse_fold_params){ .folds = folds, .fold = fold, .stratify = stratify },
              &train, &test),
          text);
    assert_null(train);
    assert_null(test);
}

static void test_what_is_refused(void **state)
{
    copse_dataset *data = make_rows(10, 3), *values = make_rows(10, 0), *text;
    const struct copse_text_params as = { .tokens = COPSE_TOKENS_BYTES, .context = 2 };
    const struct copse_source_params source = { .text = &as };
    (void)state;
    refused(data, 0, 0, false, "fold 0 (from 0) of 0 folds of 10 rows");
    refused(data, 1, 0, false, "of 1 folds");
    refused(data, 11, 0, false, "of 11 folds of 10 rows");
    refused(data, 5, 5, false, "fold 5 (from 0) of 5 folds");
    refused(values, 5, 0, true, "`stratify` needs a column \"y\" with a class for each row");
    OK(copse_dataset_open(ctx, temp_text("t.txt", "a text of some tokens"),
                          &(struct copse_dataset_params){ .source = &source }, &text));
    refused(text, 2, 0, false, "the windows of a text overlap");
    copse_dataset_release(&text);
    copse_dataset_release(&values);
    copse_dataset_release(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_is_held_out_once),
        cmocka_unit_test(test_the_seed_decides),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests_name("folds", tests, begin, end);
}
