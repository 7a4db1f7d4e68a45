/* SPDX-License-Identifier: MIT */
/* How long a run is, and what is kept of it, by the rows and the kind of its data. */
#include "copse/data/source.h"
#include "copse/data/text.h"
#include "copse/train/defaults.h"

#include "core/base/base.h"
#include "tests/rig/data/reader_rig.h"

static float x[100000 * 2];

/* Rows of numbers, with classes or targets. */
static copse_dataset *rows_of(size_t rows, bool is_regression)
{
    static int32_t y[100000];
    copse_dataset *data;
    for (size_t i = 0; i < rows; i++)
        y[i] = (int32_t)(i % 2);
    const struct copse_array_view features = {
        .type = COPSE_F32, .rank = 2, .shape = { rows, 2 }, .data = x
    };
    const struct copse_array_view kinds = {
        .type = COPSE_I32, .rank = 1, .shape = { rows }, .data = y
    };
    OK(copse_dataset_create(ctx, &features, &kinds,
                            &(struct copse_dataset_params){
                                .task = is_regression ? COPSE_TASK_REGRESSION : COPSE_TASK_AUTO },
                            &data));
    return data;
}

static struct copse_training_defaults of_rows(size_t rows, bool is_regression, size_t held_out,
                                              uint32_t batch)
{
    copse_dataset *data = rows_of(rows, is_regression),
                  *judges = held_out > 0 ? rows_of(held_out, is_regression) : NULL;
    struct copse_training_defaults got;
    OK(copse_training_defaults(data, judges, batch, &got));
    copse_dataset_release(&data);
    copse_dataset_release(&judges);
    return got;
}

static void test_length_of_a_run(void **state)
{
    static const struct {
        size_t rows;
        uint32_t batch, is_batch, epochs;
    } cases[] = {
        { 1, 0, 1, 1000 },   { 63, 0, 63, 1000 },       { 64, 0, 64, 1000 },
        { 65, 0, 64, 500 },  { 999, 0, 64, 63 },        { 1000, 0, 64, 125 },
        { 3200, 0, 64, 40 }, { 3136, 0, 64, 41 },       { 80000, 0, 64, 16 },
        { 80000, 8, 8, 5 },  { 80000, 1000, 1000, 40 }, { 100000, 64, 64, 12 },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        const struct copse_training_defaults got = of_rows(cases[i].rows, false, 0, cases[i].batch);
        if (got.batch != cases[i].is_batch || got.epochs != cases[i].epochs)
            fail_msg("%zu rows in batches of %u: batch %u, %u epochs", cases[i].rows,
                     cases[i].batch, got.batch, got.epochs);
    }
}

static void test_who_chooses_the_epoch(void **state)
{
    (void)state;
    struct copse_training_defaults got = of_rows(4000, false, 999, 0);
    assert_true(got.keep_last && got.patience == 0);
    got = of_rows(4000, false, 1000, 0);
    assert_true(!got.keep_last && got.patience == 10);
    got = of_rows(100, false, 1000, 0);
    assert_true(!got.keep_last && got.patience == 125);
    got = of_rows(100000, false, 0, 0);
    assert_true(got.keep_last && got.patience == 0);
}

static void test_dropout_and_decay(void **state)
{
    (void)state;
    for (int is_regression = 0; is_regression < 2; is_regression++) {
        const struct copse_training_defaults small = of_rows(999, is_regression, 0, 0),
                                             medium = of_rows(9999, is_regression, 0, 0),
                                             large = of_rows(10000, is_regression, 0, 0);
        assert_true(small.dropout == 0.2f && small.weight_decay == 0.02f);
        assert_true(medium.dropout == (is_regression ? 0.1f : 0.2f));
        assert_true(medium.weight_decay == 0.003f);
        assert_true(large.dropout == 0 && large.weight_decay == 0);
    }
}

static void test_other_data(void **state)
{
    static unsigned char pixels[30 * 4 * 4];
    static int32_t y[30];
    struct copse_training_defaults got;
    copse_dataset *pictures, *text, *none;
    (void)state;
    for (int i = 0; i < 30; i++)
        y[i] = i % 3;
    const struct copse_array_view
        features = { .type = COPSE_U8, .rank = 3, .shape = { 30, 4, 4 }, .data = pixels },
        kinds = { .type = COPSE_I32, .rank = 1, .shape = { 30 }, .data = y };
    OK(copse_dataset_create(ctx, &features, &kinds, NULL, &pictures));
    OK(copse_training_defaults(pictures, pictures, 0, &got));
    assert_true(got.batch == 30 && got.epochs == 40 && got.patience == 10 && !got.keep_last);
    assert_true(got.dropout == 0 && got.weight_decay == 0);
    const struct copse_text_params as = { .tokens = COPSE_TOKENS_BYTES, .context = 2, .stride = 2 };
    const struct copse_source_params source = { .text = &as };
    OK(copse_dataset_open(ctx, temp_text("t.txt", "a text of some tokens, that is short"),
                          &(struct copse_dataset_params){ .source = &source }, &text));
    OK(copse_training_defaults(text, text, 0, &got));
    assert_true(got.epochs == 40 && got.patience == 10 && !got.keep_last && got.dropout == 0);
    OK(copse_dataset_columns(
        ctx,
        &(struct copse_column){ .name = "x", .type = COPSE_F32, .shape = COPSE_SCALAR, .data = x },
        1, 10, &none));
    FAILS(COPSE_ERR_ARGUMENT, copse_training_defaults(none, NULL, 0, &got),
          "the data has no schema");
    copse_dataset_release(&none);
    copse_dataset_release(&text);
    copse_dataset_release(&pictures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length_of_a_run),
        cmocka_unit_test(test_who_chooses_the_epoch),
        cmocka_unit_test(test_dropout_and_decay),
        cmocka_unit_test(test_other_data),
    };
    return cmocka_run_group_tests_name("training_defaults", tests, begin, end);
}
