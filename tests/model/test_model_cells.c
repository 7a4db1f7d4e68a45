/* SPDX-License-Identifier: MIT */
/* Predictions for cells in memory are the predictions for a CSV file of the same rows, for any number of rows and
   replicas, with and without names; cells that training did not have; no memory that grows. */
#include "copse/train/predict_cells.h"

#include "core/data/array.h"
#include "tests/rig/train/model_rig.h"

enum { ROWS = 400, COLUMNS = 4, MANY = 66000 };

static char texts[ROWS][COLUMNS][16];
static const char *cells[ROWS * COLUMNS];
static const char *const names[COLUMNS] = { "length", "colour", "width", "kind" };
static copse_context *finder; /* owns the names of the devices */
static copse_strategy *st;
static copse_model *model;
static char warnings[1000];

static void take_log(void *user, copse_log_level level, const char *line)
{
    (void)user;
    const size_t used = strlen(warnings);
    if (level == COPSE_LOG_WARN)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", line);
}

static copse_model *model_of_cells(bool is_regression)
{
    copse_dataset *data = NULL;
    const struct copse_cells from = {
        .names = names, .columns = COLUMNS, .rows = ROWS, .cells = cells
    };
    const struct copse_dataset_params params = { .csv = { .label_name =
                                                              is_regression ? "width" : "kind" } };
    OK(copse_dataset_cells(ctx, &from, &params, &data));
    copse_model *m = make_model(st, data, "dense 8 relu; dense out", is_regression ? "r" : NULL);
    copse_trainer *t = train(m, data, 4);
    copse_trainer_release(&t);
    copse_dataset_release(&data);
    return m;
}

static int setup(void **state)
{
    for (int i = 0; i < ROWS; i++) {
        const int kind = i % 2;
        snprintf(texts[i][0], 16, "%.3f", 2 * kind + i * 37 % 101 / 101.0);
        snprintf(texts[i][1], 16, "%s", i % 5 == 0 ? "green" : kind ? "red" : "blue");
        snprintf(texts[i][2], 16, "%.3f", 5 - kind + i * 53 % 97 / 97.0);
        snprintf(texts[i][3], 16, "%s", kind ? "tulip" : "crocus");
        for (int k = 0; k < COLUMNS; k++)
            cells[i * COLUMNS + k] = texts[i][k];
    }
    temp_begin();
    if (open_context(state)) /* it finds the devices */
        return 1;
    finder = ctx;
    OK(copse_context_create(&(struct copse_context_params){ .log = take_log }, &ctx));
    st = strategy_of(ctx, 3);
    model = model_of_cells(false);
    return 0;
}

static int teardown(void **state)
{
    copse_model_release(&model);
    copse_strategy_release(&st);
    temp_end();
    copse_context_release(&finder);
    return close_context(state);
}

static copse_status predict(const char *const *its_names, size_t columns, const char *const *from,
                            size_t rows, float *values)
{
    warnings[0] = 0;
    return copse_model_predict_cells(
        model,
        &(struct copse_cells){
            .names = its_names, .columns = columns, .rows = rows, .cells = from },
        NULL, values);
}

static void assert_close(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-6f))
            fail_msg("number %zu is %g instead of %g", i, (double)a[i], (double)b[i]);
}

/* ---- the same as from a file ---- */

static void predict_file(copse_model *m, float *values)
{
    static char text[ROWS * 80];
    size_t used = (size_t)snprintf(text, sizeof text, "length,colour,width,kind\n");
    copse_dataset *data = NULL;
    for (int i = 0; i < ROWS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s,%s,%s,%s\n", texts[i][0],
                                 texts[i][1], texts[i][2], texts[i][3]);
    OK(copse_dataset_open(ctx, temp_text("rows.csv", text),
                          &(struct copse_dataset_params){ .schema = copse_model_schema(m) },
                          &data));
    OK(copse_model_predict(m, data, values));
    copse_dataset_release(&data);
}

static void cells_predict_as_a_file(void **state)
{
    static float by_file[ROWS * 2], values[ROWS * 2], one[2];
    (void)state;
    predict_file(model, by_file);
    OK(predict(names, COLUMNS, cells, ROWS, values));
    assert_close(values, by_file, 2 * ROWS);
    OK(predict(NULL, COLUMNS, cells, ROWS, values));
    assert_close(values, by_file, 2 * ROWS);
    for (int i = 0; i < 5; i++) {
        OK(predict(names, COLUMNS, cells + i * COLUMNS, 1, one));
        assert_close(one, by_file + 2 * i, 2);
    }
    assert_string_equal(warnings, "");
    copse_model *m = model_of_cells(true);
    predict_file(m, by_file);
    OK(copse_model_predict_cells(
        m,
        &(struct copse_cells){ .names = names, .columns = COLUMNS, .rows = ROWS, .cells = cells },
        NULL, values));
    assert_close(values, by_file, ROWS);
    copse_model_release(&m);
}

/* Other orders of columns, and names that change from call to call. */
/* Columns of numbers beside columns of texts, and a prediction that allocates nothing. */
static void numbers_predict_as_their_texts(void **state)
{
    static float by_text[ROWS * 2], values[ROWS * 2];
    static double length[ROWS], width[ROWS];
    const double *const numbers[COLUMNS] = { length, NULL, width, NULL };
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        length[i] = strtod(texts[i][0], NULL);
        width[i] = strtod(texts[i][2], NULL);
    }
    OK(predict(names, COLUMNS, cells, ROWS, by_text));
    const struct copse_cells from = {
        .names = names, .columns = COLUMNS, .rows = ROWS, .cells = cells, .numbers = numbers
    };
    const unsigned long long before = atomic_load(&copse__base(ctx)->mem.calls);
    OK(copse_model_predict_cells(model, &from, NULL, values));
    assert_int_equal(atomic_load(&copse__base(ctx)->mem.calls), before);
    assert_memory_equal(values, by_text, sizeof values);
    length[7] = INFINITY;
    FAILS(COPSE_ERR_FORMAT, copse_model_predict_cells(model, &from, NULL, values),
          "row 8, column 1 (\"length\"): inf is too large");
}

static void columns_are_found_by_name(void **state)
{
    static const char *const other[] = { "colour", "when", "width", "length" };
    static const char *const half[] = { "colour", "width" };
    const char *const row[] = { texts[7][1], "now", texts[7][2], texts[7][0] };
    float a[2], b[2];
    (void)state;
    OK(predict(names, COLUMNS, cells + 7 * COLUMNS, 1, a));
    OK(predict(other, 4, row, 1, b));
    assert_close(a, b, 2);
    FAILS(COPSE_ERR_SHAPE, predict(half, 2, row, 1, b), "there is no column \"length\", which");
    FAILS(COPSE_ERR_SHAPE, predict(half + 1, 1, row, 1, b),
          "there is no column \"length\", \"colour\", which");
    OK(predict(other, 4, row, 1, b));
    assert_close(a, b, 2);
    FAILS(COPSE_ERR_SHAPE, predict(NULL, 2, row, 1, b), "2 columns, training had 4");
}

static void many_rows(void **state)
{
    const char **from = malloc((size_t)MANY * COLUMNS * sizeof *from);
    float *values = malloc((size_t)MANY * 2 * sizeof *values);
    static float few[ROWS * 2];
    (void)state;
    assert_true(from && values);
    for (size_t i = 0; i < (size_t)MANY * COLUMNS; i++)
        from[i] = cells[i % (ROWS * COLUMNS)];
    OK(predict(names, COLUMNS, cells, ROWS, few));
    OK(predict(names, COLUMNS, from, MANY, values));
    for (size_t i = 0; i < MANY; i += ROWS)
        assert_close(values + 2 * i, few, 2 * (MANY - i < ROWS ? MANY - i : ROWS));
    free(from);
    free(values);
}

/* ---- cells that training did not have ---- */

static void unknown_cells_are_counted_and_told(void **state)
{
    const char *const row[] = { "1.5", "violet", NULL, NULL, "?", "red", "4.5", "tulip" };
    struct copse_cell_counts counts = { .missing = 99 };
    struct copse_predict_cells_params p = { .counts = &counts };
    const struct copse_cells from = { .names = names, .columns = COLUMNS, .rows = 2, .cells = row };
    float values[4];
    (void)state;
    warnings[0] = 0;
    OK(copse_model_predict_cells(model, &from, &p, values));
    assert_int_equal(counts.missing, 2); /* the label is not looked at */
    assert_int_equal(counts.unknown, 1);
    for (int i = 0; i < 4; i++)
        assert_true(values[i] >= 0.0f && values[i] <= 1.0f);
    assert_non_null(strstr(warnings, "missing cells: 2, the first is row 1, column 3 (\"width\")"));
    assert_non_null(strstr(warnings, "\"violet\" in row 1, column 2 (\"colour\")"));
    p.unknown = COPSE_UNKNOWN_REFUSE;
    FAILS(COPSE_ERR_FORMAT, copse_model_predict_cells(model, &from, &p, values),
          "row 1, column 2 (\"colour\"): \"violet\" is not one of the 3 categories");
    assert_int_equal(counts.unknown, 0);
    p.unknown = COPSE_UNKNOWN_IGNORE;
    p.missing = COPSE_MISSING_REFUSE;
    FAILS(COPSE_ERR_FORMAT, copse_model_predict_cells(model, &from, &p, values),
          "row 1, column 3 (\"width\"): the cell is empty");
    assert_int_equal(counts.unknown, 1);
    p.missing = COPSE_MISSING_MEAN;
    warnings[0] = 0;
    OK(copse_model_predict_cells(model, &from, &p, values));
    assert_null(strstr(warnings, "missing cells"));
    p.missing = (copse_missing)7;
    FAILS(COPSE_ERR_ARGUMENT, copse_model_predict_cells(model, &from, &p, values),
          "unknown treatment of missing cells 7");
}

static void what_is_no_row_is_refused(void **state)
{
    const char *const bad[] = { "1.5", "red", "x", "tulip" };
    const char *const bytes[] = { "1.5", "\xff", "1", "tulip" };
    float values[2];
    (void)state;
    FAILS(COPSE_ERR_FORMAT, predict(names, COLUMNS, bad, 1, values),
          "cells, row 1, column 3 (\"width\"): \"x\" is not a number");
    FAILS(COPSE_ERR_FORMAT, predict(names, COLUMNS, bytes, 1, values),
          "row 1, column 2: invalid UTF-8");
    FAILS(COPSE_ERR_SHAPE, predict(names, COLUMNS, bad, 0, values), "0 rows of 4 columns");
    copse_dataset *data = NULL;
    static const float numbers[4] = { 1, 2, 3, 4 };
    const struct copse_array_view x = { COPSE_F32, 2, { 2, 2 }, numbers };
    OK(copse_dataset_create(ctx, &x, &(struct copse_array_view){ COPSE_F32, 1, { 2 }, numbers },
                            &(struct copse_dataset_params){ .task = COPSE_TASK_REGRESSION },
                            &data));
    copse_model *m = make_model(st, data, "dense out", "array");
    FAILS(COPSE_ERR_ARGUMENT,
          copse_model_predict_cells(
              m,
              &(struct copse_cells){ .names = names, .columns = COLUMNS, .rows = 1, .cells = bad },
              NULL, values),
          "not of a table");
    copse_model_release(&m);
    copse_dataset_release(&data);
}

/* Rows of numbers that the caller encoded by the schema need none; raw ones cannot be told from them
   if there is no text. */
static void encoded_rows_need_no_schema(void **state)
{
    enum { WIDTH = 5 };
    static float x[ROWS * WIDTH], by_file[ROWS * 2], values[ROWS * 2];
    const struct copse_cells from = {
        .names = names, .columns = COLUMNS, .rows = ROWS, .cells = cells
    };
    const struct copse_array_view rows = { COPSE_F32, 2, { ROWS, WIDTH }, x },
                                  numbers = { COPSE_F32, 2, { 2, 2 }, x },
                                  labels = { COPSE_F32, 1, { 2 }, x };
    copse_dataset *data = NULL, *encoded = NULL;
    (void)state;
    OK(copse_dataset_cells(
        ctx, &from,
        &(struct copse_dataset_params){ .schema = copse_model_schema(model), .no_labels = true },
        &data));
    OK(copse_dataset_gather(data, "x", NULL, ROWS, x));
    OK(copse_model_predict(model, data, by_file));
    OK(copse_dataset_create(ctx, &rows, NULL, NULL, &encoded));
    OK(copse_model_predict(model, encoded, values));
    assert_close(values, by_file, 2 * ROWS);
    copse_dataset_release(&encoded);
    FAILS(COPSE_ERR_SHAPE,
          copse_dataset_create(
              ctx, &rows, NULL,
              &(struct copse_dataset_params){ .schema = copse_model_schema(model) }, &encoded),
          "give cells (copse_dataset_cells, copse_model_predict_cells), or rows that are encoded");
    /* scaled: not as the network takes them */
    OK(copse_dataset_create(ctx, &rows, NULL,
                            &(struct copse_dataset_params){ .scale = COPSE_SCALE_STANDARD },
                            &encoded));
    FAILS(COPSE_ERR_ARGUMENT, copse_model_predict(model, encoded, values), "a schema of its own");
    copse_dataset_release(&encoded);
    copse_dataset_release(&data);
    for (int is_scaled = 0; is_scaled < 2; is_scaled++) { /* arrays, and a table of numbers */
        copse_dataset *other = NULL;
        const struct copse_dataset_params how = { .scale = is_scaled ? COPSE_SCALE_STANDARD
                                                                     : COPSE_SCALE_NONE,
                                                  .task = COPSE_TASK_REGRESSION };
        OK(copse_dataset_create(ctx, &numbers, &labels, &how, &data));
        OK(copse_dataset_create(ctx, &numbers, NULL, NULL, &other));
        copse_model *m = make_model(st, data, "dense out", is_scaled ? "scaled" : "plain");
        if (is_scaled)
            FAILS(COPSE_ERR_ARGUMENT, copse_model_predict(m, other, values), "schema of its own");
        else
            OK(copse_model_predict(m, other, values));
        copse_model_release(&m);
        copse_dataset_release(&data);
        copse_dataset_release(&other);
    }
}

/* A loop over single rows calls the allocator of the context for nothing. */
static void a_loop_allocates_nothing(void **state)
{
    const char *const odd[] = { "1.5", "violet", NULL, "tulip" };
    float values[2];
    (void)state;
    OK(predict(names, COLUMNS, cells, 1, values));
    const unsigned long long before = atomic_load(&copse__base(ctx)->mem.calls);
    for (int i = 0; i < 100; i++)
        OK(predict(names, COLUMNS, i % 2 ? odd : cells + i * COLUMNS, 1, values));
    assert_int_equal(atomic_load(&copse__base(ctx)->mem.calls), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_predict_as_a_file),
        cmocka_unit_test(numbers_predict_as_their_texts),
        cmocka_unit_test(columns_are_found_by_name),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(unknown_cells_are_counted_and_told),
        cmocka_unit_test(what_is_no_row_is_refused),
        cmocka_unit_test(encoded_rows_need_no_schema),
        cmocka_unit_test(a_loop_allocates_nothing),
    };
    return cmocka_run_group_tests_name("model_cells", tests, setup, teardown);
}
