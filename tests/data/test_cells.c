/* SPDX-License-Identifier: MIT */
/* Cells in memory: the same dataset as a CSV file of these rows, as texts and as numbers; cells that a schema does not know are
   replaced with a warning, or refused; what the texts of a column and the bytes of a file are. */
#include <float.h>
#include <math.h>

#include "copse/data/cells.h"
#include "copse/data/schema.h"
#include "copse/data/source.h"

#include "core/base/base.h"
#include "core/data/reader/number.h"
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
    const size_t rows_here = COPSE_MIN(info.rows, 64 / info.row_size);
    OK(copse_dataset_gather(data, "x", NULL, rows_here, x));
    if (info.has_labels)
        OK(copse_dataset_gather(data, "y", NULL, rows_here, y));
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
          "(ignore, --ignore), or let the mean replace it (missing: mean, --missing mean)");
    OK(of_cells(names, 3, empty, 2,
                &(struct copse_dataset_params){ .missing = COPSE_MISSING_MEAN }));
    FAILS(COPSE_ERR_ARGUMENT, of_cells(no_name, 3, rows, 3, NULL), "column 2 has no name");
    FAILS(COPSE_ERR_SHAPE, of_cells(names, 3, rows, 0, NULL), "0 rows of 3 columns");
    FAILS(COPSE_ERR_SHAPE, of_cells(names, 0, rows, 3, NULL), "3 rows of 0 columns");
    FAILS(COPSE_ERR_ARGUMENT, of_cells(names, 3, NULL, 3, NULL), "`cells` is NULL");
    FAILS(COPSE_ERR_ARGUMENT,
          of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .labels = "y.npy" }),
          "give no labels");
    const struct copse_source_params pictures = { .resize = "8x8" },
                                     weighted = { .is_weighted = true };
    FAILS(COPSE_ERR_ARGUMENT,
          of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .source = &pictures }),
          "give no resize");
    OK(of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .source = &weighted }));
    FAILS(COPSE_ERR_ARGUMENT,
          of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .missing = 3 }),
          "unknown treatment of missing cells");
    FAILS(COPSE_ERR_ARGUMENT,
          of_cells(names, 3, rows, 3, &(struct copse_dataset_params){ .unknown = 2 }),
          "unknown treatment of unknown categories");
}

/* ---- helpers ---- */

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

/* ---- numbers ---- */

static copse_status of_numbers(const char *const *its_names, size_t columns,
                               const double *const *numbers, const char *const *cells, size_t count,
                               const struct copse_dataset_params *params)
{
    copse_dataset_release(&data);
    warnings[0] = infos[0] = 0;
    const struct copse_cells from = {
        .names = its_names, .columns = columns, .rows = count, .cells = cells, .numbers = numbers
    };
    COPSE_TRY(copse_dataset_cells(ctx, &from, params, &data));
    take_rows();
    return COPSE_OK;
}

/* Columns as numbers, or as the texts of these numbers: the same bits, schema and warnings. */
static void test_numbers_are_their_texts(void **state)
{
    enum { N = 24 };
    static const char *const titles[] = { "row_id", "wide", "colour", "same", "y" };
    static char texts[N][5][COPSE_NUMBER_TEXT];
    static const char *cells[N * 5];
    static double column[5][N];
    const double *const numbers[] = { column[0], column[1], NULL, column[3], column[4] };
    const double special[] = { NAN,    -0.0,  0.1,     -1e-300, 3e38, 9007199254740993.0,
                               5e-324, 1e-39, 1.5e-45, 1e17,    -7,   123456.789012345 };
    static const double targets[][2] = { { 0, 1 }, { 7, 3 }, { 0.25, -1 } };
    float by_text[64];
    int32_t class_by_text[64];
    char schema[3000], warned[2000];

    (void)state;
    for (size_t k = 0; k < COPSE_COUNT(targets); k++) {
        for (size_t i = 0; i < N; i++) {
            const double row[] = { 10.0 + (double)i, special[i % COPSE_COUNT(special)], 0, 4,
                                   targets[k][i % 3 == 0] };
            for (size_t c = 0; c < 5; c++) {
                column[c][i] = row[c];
                copse__number_print(row[c], texts[i][c]);
                cells[5 * i + c] = texts[i][c];
            }
            snprintf(texts[i][2], sizeof texts[i][2], "%s", i % 2 ? "red" : "blue");
        }
        const struct copse_dataset_params params = { .missing = COPSE_MISSING_MEAN };
        OK(of_cells(titles, 5, cells, N, &params));
        memcpy(by_text, x, sizeof x);
        memcpy(class_by_text, y, sizeof y);
        snprintf(schema, sizeof schema, "%s", copse_schema_text(copse_dataset_schema(data)));
        snprintf(warned, sizeof warned, "%s", warnings);
        assert_non_null(strstr(warned, "(\"row_id\"): it numbers the rows"));
        OK(of_numbers(titles, 5, numbers, cells, N, &params));
        assert_memory_equal(x, by_text, sizeof x);
        assert_memory_equal(y, class_by_text, sizeof y);
        assert_string_equal(copse_schema_text(copse_dataset_schema(data)), schema);
        assert_string_equal(warnings, warned);
    }
    /* no texts, no names */
    const double *const plain[] = { column[3], column[0], column[4] };
    OK(of_numbers(NULL, 3, plain, NULL, N,
                  &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE }));
    X(4, 10, 4, 11, 4, 12);
}

static void test_numbers_that_are_refused(void **state)
{
    static const char *const titles[] = { "a", "b", "y" };
    static const double good[] = { 1, 2, 3 };
    static const struct {
        double cell;
        const char *text;
    } bad[] = { { NAN, "row 2, column 2 (\"b\"): the cell is empty; fill it in" },
                { INFINITY, "row 2, column 2 (\"b\"): inf is too large" },
                { -INFINITY, "row 2, column 2 (\"b\"): -inf is too large" },
                { 1e39, "row 2, column 2 (\"b\"): 1e+39 is too large" },
                { -DBL_MAX, "row 2, column 2 (\"b\"): -1.7976931348623157e+308 is too large" } };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        const double column[] = { 1, bad[i].cell, 2 };
        const double *const feature[] = { good, column, good }, *const label[] = { good, column };
        FAILS(COPSE_ERR_FORMAT, of_numbers(titles, 3, feature, NULL, 3, NULL), bad[i].text);
        FAILS(COPSE_ERR_FORMAT, of_numbers(titles, 2, label, NULL, 3, NULL),
              i == 0 ? "every row needs a label" : bad[i].text);
    }
    const double *const partly[] = { good, NULL, good };
    FAILS(COPSE_ERR_ARGUMENT, of_numbers(titles, 3, partly, NULL, 3, NULL),
          "`cells` is NULL, and column 2 has no `numbers`");
}

/* Numbers where training had texts that look like them. */
static void test_numbers_by_a_schema(void **state)
{
    static const char *const titles[] = { "size", "mark", "day", "kind" };
    static const double size[] = { 1, 3, 5, 7, NAN }, mark[] = { -0.0, 2, 8, NAN, 0.5 },
                        day[] = { NAN, 20200101, NAN, NAN, NAN },
                        none[] = { NAN, NAN, NAN, NAN, NAN }, kind[] = { 4, 2, 4, 4, 2 },
                        odd[] = { 4, 2.5, 4, 4, 2 };
    const double *const dated[] = { size, mark, day, kind },
                        *const numbers[] = { size, mark, none, kind },
                        *const wrong[] = { size, mark, none, odd };
    const char *const days[] = { NULL, NULL, "2020-01-01", NULL };
    char texts[12][40], file[600] = "size,mark,day,kind\n";

    (void)state;
    for (int i = 0; i < 12; i++) {
        snprintf(texts[i], sizeof texts[i], "%d,%s,2020-01-%02d,%s\n", 1 + i % 3 * 2,
                 i % 3 == 0   ? "0"
                 : i % 3 == 1 ? "2.0"
                              : "x",
                 1 + i, i % 2 ? "2" : "4");
        strcat(file, texts[i]);
    }
    train_on(file, &(struct copse_dataset_params){ .scale = COPSE_SCALE_NONE });
    /* a number is found as 0, also -0, and as 2.0; another is named as any text */
    OK(of_numbers(titles, 4, numbers, NULL, 5, BY));
    const size_t width = 1 + 3 + 11;
    for (size_t i = 0; i < 5 && i < 64 / width; i++) {
        assert_true(x[i * width] == (i < 4 ? (float)size[i] : 3));
        assert_true(x[i * width + 1] == (i == 0) && x[i * width + 2] == (i == 1));
        assert_true(x[i * width + 3] == 0);
    }
    assert_true(y[0] == 1 && y[1] == 0 && y[3] == 1);
    assert_non_null(strstr(warnings, "training did not have: 2, the first is \"8\" in row 3, "
                                     "column 2 (\"mark\")"));
    FAILS(COPSE_ERR_FORMAT, of_numbers(titles, 4, dated, NULL, 5, BY),
          "row 2, column 3 (\"day\"): the cell is no date, and no cell of the column is a date");
    FAILS(COPSE_ERR_FORMAT, of_numbers(titles, 4, wrong, NULL, 5, BY),
          "row 2, column 4 (\"kind\"): the label 2.5 is none of the 2 classes");
    /* columns of numbers and of texts in one row */
    const double *const mixed[] = { size, mark, NULL, kind };
    OK(of_numbers(titles, 4, mixed, days, 1, BY));
    assert_true(x[0] == 1 && x[1] == 1 && x[6] < 0);
}

/* ---- columns by a schema ---- */

static void test_columns_by_name(void **state)
{
    static const char *const other[] = { "colour", "id", "size", "when" };
    static const char *const cells[] = { "blue", "7", "3", "now" };

    (void)state;
    train_on("size,colour,kind\n1,red,b\n3,blue,a\n5,red,b\n", NULL);
    OK(of_cells(other, 4, cells, 1, BY));
    X(0, 1, 0);
    assert_string_equal(warnings, "");
    assert_string_equal(infos, "csv: cells: 2 columns that training did not have are passed over: "
                               "\"id\", \"when\"\n");
    FAILS(COPSE_ERR_SHAPE, of_cells(other + 1, 1, cells, 1, BY),
          "csv: cells: there is no column \"size\", \"colour\", which training had");
    FAILS(COPSE_ERR_SHAPE, of_file("age\n1\n", BY),
          "t.csv, row 1: there is no column \"size\", \"colour\", which training had");
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
          "replace it (missing: mean, --missing mean)");
    FAILS(COPSE_ERR_FORMAT, of_file("size,colour\n1,NA\n", &p),
          "row 2, column 2 (\"colour\"): \"NA\" means a missing value");
    p = (struct copse_dataset_params){ .schema = trained, .unknown = COPSE_UNKNOWN_REFUSE };
    FAILS(COPSE_ERR_FORMAT, of_file("size,colour\n1,green\n", &p),
          "\"green\" is not one of the 2 categories that training had; correct it, or let it count "
          "as none "
          "of them (unknown: ignore, --unknown ignore)");
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

/* ---- what texts are ---- */

/* A column with these texts, again and again, and a label. */
static copse_status of_texts(const char *const *texts, size_t count)
{
    static char text[8000];
    size_t used = (size_t)snprintf(text, sizeof text, "when,y\n");
    for (size_t i = 0; i < 60; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "\"%s\",%zu\n", texts[i % count],
                                 i % 2);
    return of_file(text, NULL);
}

static void test_texts_that_are_numbers_or_dates(void **state)
{
    static const struct {
        const char *texts[3];
        const char *warning; /* NULL: none */
    } cases[] = {
        { { "45%", "4.5 %", "-1,000%" }, "they are numbers with '%'" },
        { { "$5", "$1,234.50", "$ 7" }, "they are amounts of money" },
        { { "$598", "-$5",
            "\xe2\x82\xac"
            "5" },
          "they are amounts of money" },
        { { "-$", "$5", "$6" }, NULL },
        { { "5 \xe2\x82\xac", "1000\xe2\x82\xac", "-2\xe2\x82\xac" }, "they are amounts of money" },
        { { "2024-01-31", "2024-02-30 10:30", "2023-12-01T00:00:00Z" }, "they are dates; write" },
        { { "01/31/24", "02/28/24", "12/01/23" }, "they are dates" },
        { { "45%", "4.5%", "high" }, NULL },
        { { "1.2.3", "1.2.4", "10.0.1" }, NULL }, /* versions */
        { { "2024-01-31", "2024-02-29", "never" }, NULL },
        { { "%", "$", "a%" }, NULL },
        { { "192.168.1.1", "10.0.0.1", "127.0.0.1" }, NULL },
        { { "555-1234", "12-34", "1-2-3-4" }, NULL },
        { { "2024-01-31x", "2024-02-29x", "2024-03-01x" }, NULL },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        OK(of_texts(cases[i].texts, 3));
        if (cases[i].warning == NULL) {
            assert_string_equal(warnings, "");
            continue;
        }
        if (!strstr(warnings, cases[i].warning) ||
            !strstr(warnings, "column 1 (\"when\"): its 3 different texts become categories"))
            fail_msg("case %zu: %s", i, warnings);
    }
    /* too many for categories, with the same words; and as a label */
    FAILS(COPSE_ERR_FORMAT,
          of_file("a,b\n1%,0\n2%,1\n3%,0\n4%,1\n5%,0\n6%,1\n7%,0\n8%,1\n9%,0\n10%,1\n11%,0\n"
                  "12%,1\n13%,0\n14%,1\n15%,0\n16%,1\n17%,0\n18%,1\n19%,0\n20%,1\n21%,0\n",
                  NULL),
          "\"1%\" is one of 21 different texts in 21 rows: these are numbers with '%'; without");
    OK(of_file("a,b\n1,5%\n2,6%\n3,5%\n4,6%\n", NULL));
    assert_non_null(strstr(warnings, "column 2 (\"b\"): its 2 different texts become classes"));
}

/* A decimal comma with empty cells between (the delimiter is ';'). */
static void test_commas_are_named(void **state)
{
    static char text[40000];
    size_t used = (size_t)snprintf(text, sizeof text, "n;y\n");

    (void)state;
    for (int i = 0; i < 1500; i++)
        used += i % 10 == 3 ? (size_t)snprintf(text + used, sizeof text - used, ";%d\n", i % 2)
                            : (size_t)snprintf(text + used, sizeof text - used, "%d,%03d;%d\n", i,
                                               i * 7 % 1000, i % 2);
    FAILS(COPSE_ERR_FORMAT,
          of_file(text, &(struct copse_dataset_params){ .missing = COPSE_MISSING_MEAN }),
          "more than 1000 different texts: these are numbers with a decimal comma or separators");
}

static void test_encodings_are_named(void **state)
{
    static const char little[] = "\xff\xfe"
                                 "a\0,\0b\0\n\0001\0,\0x\0\n",
                      big[] = "\xfe\xff\0a\0,\0b\0\n\0001\0,\0x\0\n",
                      bare[] = "\0a\0,\0b\0\n\0001\0,\0x\0\n\0", latin[] = "a,b\n1,caf\xe9\n",
                      other[] = "a,b\n1,\x01\xe9\n", zero[] = "a,b\n1,x\0y\n";
    const struct {
        const char *bytes;
        size_t size;
        const char *error;
    } cases[] = {
        { little, sizeof little - 1, "is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8" },
        { big, sizeof big - 1, "is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8" },
        { bare, sizeof bare - 2, "is text in UTF-16; convert it: iconv -f UTF-16BE -t UTF-8" },
        { bare + 1, sizeof bare - 2, "iconv -f UTF-16LE -t UTF-8" },
        { latin, sizeof latin - 1,
          "row 2: invalid UTF-8 at byte 9 of the file; text in Latin-1 or of Windows becomes UTF-8 "
          "by: iconv -f WINDOWS-1252 -t UTF-8" },
        { other, sizeof other - 1, "row 2: invalid UTF-8 at byte 7 of the file; CSV is text" },
        { zero, sizeof zero - 1, "row 2: a NUL at byte 7 of the file; CSV is text" },
    };

    (void)state;
    copse_dataset_release(&data);
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        FAILS(COPSE_ERR_FORMAT,
              copse_dataset_open(ctx, temp_write("e.csv", cases[i].bytes, cases[i].size), NULL,
                                 &data),
              cases[i].error);
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
        cmocka_unit_test(test_numbers_are_their_texts),
        cmocka_unit_test(test_numbers_that_are_refused),
        cmocka_unit_test(test_numbers_by_a_schema),
        cmocka_unit_test(test_columns_by_name),
        cmocka_unit_test(test_cells_that_training_did_not_have),
        cmocka_unit_test(test_missing_cells_that_training_had),
        cmocka_unit_test(test_texts_that_are_numbers_or_dates),
        cmocka_unit_test(test_commas_are_named),
        cmocka_unit_test(test_encodings_are_named),
        cmocka_unit_test(test_many_cells),
    };
    return cmocka_run_group_tests_name("cells", tests, setup, finish);
}
