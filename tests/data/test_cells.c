/* SPDX-License-Identifier: MIT */
/* Cells in memory: the same dataset as a CSV file of these rows; cells that a schema does not know are
   replaced with a warning, or refused. */
#include <math.h>

#include "copse/data/cells.h"
#include "copse/data/schema.h"

#include "core/base/base.h"
#include "tests/rig/data/reader_rig.h"

static copse_dataset *data;
static copse_schema *trained;
static float x[64];
static int32_t y[64];
static char warnings[2000], infos[2000];

static void take_log(void *user, copse_log_level level, const char *line)
{
    (void)user;
    char *to = level == COPSE_LOG_WARN ? warnings : infos;
    const size_t used = strlen(to);
    if (level <= COPSE_LOG_INFO)
        snprintf(to + used, sizeof warnings - used, "%s\n", line);
}

static int setup(void **state)
{
    (void)state;
    temp_begin();
    const struct copse_context_params p = { .log = take_log, .log_level = COPSE_LOG_INFO };
    return copse_context_create(&p, &ctx) != COPSE_OK;
}

static int finish(void **state)
{
    copse_dataset_release(&data);
    copse_schema_release(&trained);
    return end(state);
}

static void take_rows(void)
{
    struct copse_dataset_info info;
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    copse_dataset_describe(data, &info);
    OK(copse_dataset_gather(data, "x", NULL, info.rows, x));
    if (info.has_labels)
        OK(copse_dataset_gather(data, "y", NULL, info.rows, y));
}

static copse_status of_cells(const char *const *names, size_t columns, const char *const *cells,
                             size_t rows, const struct copse_dataset_params *params)
{
    copse_dataset_release(&data);
    warnings[0] = infos[0] = 0;
    const struct copse_cells from = {
        .names = names, .columns = columns, .rows = rows, .cells = cells
    };
    COPSE_TRY(copse_dataset_cells(ctx, &from, params, &data));
    take_rows();
    return COPSE_OK;
}

static copse_status of_file(const char *text, const struct copse_dataset_params *params)
{
    copse_dataset_release(&data);
    warnings[0] = infos[0] = 0;
    COPSE_TRY(copse_dataset_open(ctx, temp_text("t.csv", text), params, &data));
    take_rows();
    return COPSE_OK;
}

static const char *const names[] = { "size", "colour", "kind" };
static const char *const rows[] = { "1", "red", "b", " 3 ", "blue", "a", "5e0", "red\t", "b" };

static void test_cells_are_the_rows_of_a_file(void **state)
{
    float by_file[64];
    char text[2000];

    (void)state;
    OK(of_file("size,colour,kind\n1,red,b\n3,blue,a\n5,red,b\n", NULL));
    memcpy(by_file, x, sizeof x);
    snprintf(text, sizeof text, "%s", copse_schema_text(copse_dataset_schema(data)));
    OK(of_cells(names, 3, rows, 3, NULL));
    assert_memory_equal(x, by_file, sizeof x);
    assert_string_equal(copse_schema_text(copse_dataset_schema(data)), text);
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 1);
    /* by position: no header */
    OK(of_file("1,red,b\n3,blue,a\n5,red,b\n", NULL));
    snprintf(text, sizeof text, "%s", copse_schema_text(copse_dataset_schema(data)));
    OK(of_cells(NULL, 3, rows, 3, NULL));
    assert_memory_equal(x, by_file, sizeof x);
    assert_string_equal(copse_schema_text(copse_dataset_schema(data)), text);
    /* another label, and a column that is left out */
    OK(of_cells(
        names, 3, rows, 3,
        &(struct copse_dataset_params){ .csv = { .label_name = "colour" }, .ignore = "size" }));
    assert_true(x[0] == 0 && x[1] == 1 && y[0] == 1 && y[1] == 0);
}

static void test_cells_that_are_refused(void **state)
{
    static const char *const bad[] = { "1", "red", "b", "3", "\xff", "a" };
    static const char *const empty[] = { "1", "red", "b", NULL, "red", "a" };
    static const char *const no_name[] = { "size", NULL, "kind" };

    (void)state;
    FAILS(COPSE_ERR_FORMAT, of_cells(names, 3, bad, 2, NULL), "row 2, column 2: invalid UTF-8");
    FAILS(COPSE_ERR_FORMAT, of_cells(names, 3, empty, 2, NULL),
          "row 2, column 1 (\"size\"): the cell is empty; fill it in, leave the column out "
          "(--ignore), or let the mean replace it (--missing mean)");
    OK(of_cells(names, 3, empty, 2,
                &(struct copse_dataset_params){ .missing = COPSE_MISSING_MEAN }));
    FAILS(COPSE_ERR_ARGUMENT, of_cells(no_name, 3, rows, 3, NULL), "column 2 has no name");
    FAILS(COPSE_ERR_SHAPE, of_cells(names, 3, rows, 0, NULL), "0 rows of 3 columns");
    FAILS(COPSE_ERR_SHAPE, of_cells(names, 0, rows, 3, NULL), "3 rows of 0 columns");
    FAILS(COPSE_ERR_ARGUMENT, of_cells(names, 3, NULL, 3, NULL), "`cells` is NULL");
    FAILS(COPSE_ERR_ARGUMENT,
          of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .labels = "y.npy" }),
          "give no labels");
    FAILS(COPSE_ERR_ARGUMENT,
          of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .missing = 3 }),
          "unknown treatment of missing cells");
    FAILS(COPSE_ERR_ARGUMENT,
          of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .unknown = 2 }),
          "unknown treatment of unknown categories");
}

/* ---- by a schema ---- */

static void train_on(const char *text, const struct copse_dataset_params *params)
{
    OK(of_file(text, params));
    copse_schema_release(&trained);
    OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(data)), &trained));
}

#define BY                         \
    &(struct copse_dataset_params) \
    {                              \
        .schema = trained          \
    }
#define X(...) \
    assert_x((const float[]){ __VA_ARGS__ }, sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float))

static void assert_x(const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fabsf(x[i] - expected[i]) > 1e-6f)
            fail_msg("number %zu is %g instead of %g", i, (double)x[i], (double)expected[i]);
}

static void test_columns_by_name(void **state)
{
    static const char *const other[] = { "colour", "id", "size", "when" };
    static const char *const cells[] = { "blue", "7", "3", "now" };

    (void)state;
    train_on("size,colour,kind\n1,red,b\n3,blue,a\n5,red,b\n", NULL);
    OK(of_cells(other, 4, cells, 1, BY));
    X(0, 1, 0);
    assert_string_equal(warnings, "");
    assert_string_equal(infos, "csv: cells: 2 columns that the schema has not are passed over: "
                               "\"id\", \"when\"\n");
    FAILS(COPSE_ERR_SHAPE, of_cells(other + 1, 1, cells, 1, BY),
          "csv: cells: there is no column \"size\", \"colour\", which the schema has");
    FAILS(COPSE_ERR_SHAPE, of_file("age\n1\n", BY),
          "t.csv, row 1: there is no column \"size\", \"colour\", which the schema has");
}

/* A number becomes the mean that the schema knows, a category none of the column's. */
static void test_cells_that_training_did_not_have(void **state)
{
    const float d = 1 / sqrtf(8.0f / 3);
    const struct copse_dataset_params refuse = { .schema = trained,
                                                 .missing = COPSE_MISSING_REFUSE };
    struct copse_dataset_params p;

    (void)state;
    train_on("size,colour,kind\n1,red,b\n3,blue,a\n5,red,b\n", NULL);
    OK(of_file("size,colour\n5,red\n,green\nNA,\n5,violet\n", BY));
    X(2 * d, 0, 1, 0, 0, 0, 0, 0, 0, 2 * d, 0, 0);
    assert_non_null(strstr(warnings, "missing cells: 3, the first is row 3, column 1 (\"size\");"));
    assert_non_null(strstr(warnings, "training did not have: 2, the first is \"green\" in row 3, "
                                     "column 2 (\"colour\");"));
    /* without scaling the mean is not 0 */
    train_on("size,colour,kind\n1,red,b\n3,blue,a\n8,red,b\n",
             &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE });
    OK(of_file("size,colour\n?,red\n", BY));
    X(4, 0, 1);
    /* MEAN asks for it: no warning; REFUSE, and unknown ones */
    p = (struct copse_dataset_params){ .schema = trained, .missing = COPSE_MISSING_MEAN };
    OK(of_file("size,colour\n?,\n", &p));
    X(4, 0, 0);
    assert_string_equal(warnings, "");
    p = refuse;
    p.schema = trained;
    FAILS(COPSE_ERR_FORMAT, of_file("size,colour\n1,red\n,red\n", &p),
          "row 3, column 1 (\"size\"): the cell is empty; fill it in, or let the column's mean "
          "replace it (--missing mean)");
    FAILS(COPSE_ERR_FORMAT, of_file("size,colour\n1,NA\n", &p),
          "row 2, column 2 (\"colour\"): \"NA\" means a missing value");
    p = (struct copse_dataset_params){ .schema = trained, .unknown = COPSE_UNKNOWN_REFUSE };
    FAILS(
        COPSE_ERR_FORMAT, of_file("size,colour\n1,green\n", &p),
        "\"green\" is none of the 2 categories of the column; correct it, or let it count as none "
        "of them (--unknown ignore)");
    FAILS(COPSE_ERR_FORMAT, of_file("size,colour\nx,red\n", BY), "\"x\" is not a number");
    /* labels are never replaced */
    FAILS(COPSE_ERR_FORMAT, of_file("size,colour,kind\n1,red,\n", BY), "every row needs a label");
    FAILS(COPSE_ERR_FORMAT, of_file("size,colour,kind\n1,red,c\n", BY), "none of the 2 classes");
}

/* Where training had missing cells, they are no news, and an unknown category counts as one. */
static void test_missing_cells_that_training_had(void **state)
{
    (void)state;
    train_on("size,colour,kind\n1,red,b\n,blue,a\n5,,b\n",
             &(struct copse_dataset_params){ .missing = COPSE_MISSING_MEAN });
    OK(of_file("size,colour\n,\n", BY));
    X(0, 0, 0, 1);
    assert_string_equal(warnings, "");
    OK(of_file("size,colour\n,green\n", BY));
    X(0, 0, 0, 1);
    assert_null(strstr(warnings, "missing cells"));
    assert_non_null(strstr(warnings, "\"green\" in row 2"));
    FAILS(COPSE_ERR_FORMAT,
          of_file(
              "size,colour\n,red\n",
              &(struct copse_dataset_params){ .schema = trained, .missing = COPSE_MISSING_REFUSE }),
          "the cell is empty");
}

/* More rows and columns than any buffer begins with. */
static void test_many_cells(void **state)
{
    enum { COLUMNS = 70, ROWS = 70000 };
    static char texts[COLUMNS][8];
    const char *list[COLUMNS];
    const char **cells = malloc((size_t)COLUMNS * ROWS * sizeof *cells);
    struct copse_dataset_info info;
    float last[COLUMNS];

    (void)state;
    assert_non_null(cells);
    for (int i = 0; i < COLUMNS; i++) {
        snprintf(texts[i], sizeof texts[i], "c%d", i);
        list[i] = texts[i];
    }
    for (size_t i = 0; i < (size_t)COLUMNS * ROWS; i++)
        cells[i] = i % 3 == 0 ? "0" : i % 3 == 1 ? "0.5" : "1";
    const struct copse_cells from = {
        .names = list, .columns = COLUMNS, .rows = ROWS, .cells = cells
    };
    copse_dataset_release(&data);
    OK(copse_dataset_cells(
        ctx, &from, &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE, .no_labels = true },
        &data));
    copse_dataset_describe(data, &info);
    assert_int_equal(info.rows, ROWS);
    OK(copse_dataset_gather(data, "x", &(const uint32_t){ ROWS - 1 }, 1, last));
    for (size_t i = 0; i < COLUMNS; i++)
        assert_true(last[i] == (float)(((size_t)COLUMNS * (ROWS - 1) + i) % 3) / 2);
    free(cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_are_the_rows_of_a_file),
        cmocka_unit_test(test_cells_that_are_refused),
        cmocka_unit_test(test_columns_by_name),
        cmocka_unit_test(test_cells_that_training_did_not_have),
        cmocka_unit_test(test_missing_cells_that_training_had),
        cmocka_unit_test(test_many_cells),
    };
    return cmocka_run_group_tests_name("cells", tests, setup, finish);
}
