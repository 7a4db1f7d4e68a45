/* SPDX-License-Identifier: MIT */
/* Tables as people have them: columns of numbers and text, labels of any kind, missing cells;
   reading by a schema. */
#include <math.h>

#include "copse/data/schema.h"

#include "core/base/base.h"
#include "tests/rig/data/reader_rig.h"

static copse_dataset *data;
static struct copse_dataset_info info;
static struct copse_schema_info about;
static float x[64];
static int32_t y[64];

/* Open a table and take its first rows into x and y. */
static copse_status table(const char *text, const struct copse_dataset_params *params)
{
    copse_dataset_release(&data);
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    COPSE_TRY(copse_dataset_open(ctx, temp_text("t.csv", text), params, &data));
    copse_dataset_describe(data, &info);
    COPSE_TRY(copse_schema_describe(copse_dataset_schema(data), &about));
    const size_t rows = COPSE_MIN(info.rows, 64 / COPSE_MAX(info.row_size, (size_t)1));
    COPSE_TRY(copse_dataset_gather(data, "x", NULL, rows, x));
    return info.has_labels ? copse_dataset_gather(data, "y", NULL, rows, y) : COPSE_OK;
}

static void refused(copse_status code, const char *text, const struct copse_dataset_params *params,
                    const char *error)
{
    FAILS(code, table(text, params), error);
    assert_null(data);
}

static const char *class_of(uint32_t i)
{
    return copse_schema_class(copse_dataset_schema(data), i);
}

static void assert_x(const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fabsf(x[i] - expected[i]) > 1e-6f)
            fail_msg("number %zu is %g instead of %g", i, (double)x[i], (double)expected[i]);
}
#define X(...) \
    assert_x((const float[]){ __VA_ARGS__ }, sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float))

static const struct copse_dataset_params unscaled = { .scale = COPSE_SCALE_NONE };
static const struct copse_dataset_params mean_fills = { .missing = COPSE_MISSING_MEAN };

/* ---- columns ---- */

static void test_columns_of_numbers_and_text(void **state)
{
    (void)state;
    OK(table("\xef\xbb\xbf\"length\",colour, flat,kind\r\n1,red,5,\"b, or "
             "c\"\r\n3,\"blue\",5,a\r\n2,red,5,a\r\n\r\n",
             NULL));
    assert_int_equal(info.rows, 3);
    assert_int_equal(info.row_size, 4);
    assert_int_equal(info.classes, 2);
    const float d = 1 / sqrtf(2.0f / 3);
    X(-d, 0, 1, 0, d, 1, 0, 0, 0, 0, 1, 0); /* a constant column is 0 */
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0);
    assert_string_equal(class_of(0), "a");
    assert_string_equal(class_of(1), "b, or c");
}

static void test_order_of_rows_does_not_matter(void **state)
{
    char first[2000];

    (void)state;
    OK(table("a,b,c\n1,x,u\n2,y,v\n4,z,u\n", &unscaled));
    snprintf(first, sizeof first, "%s", copse_schema_text(copse_dataset_schema(data)));
    OK(table("a,b,c\n4,z,u\n2,y,v\n1,x,u\n", &unscaled));
    const char *at = strstr(copse_schema_text(copse_dataset_schema(data)), "\"classes\"");
    assert_string_equal(strstr(first, "\"numbered\""), strstr(at, "\"numbered\""));
}

static void test_scaling(void **state)
{
    static const char text[] = "1,100,a,0\n3,100,b,1\n5,-400,a,0\n";

    (void)state;
    OK(table(text, &unscaled));
    X(1, 100, 1, 0, 3, 100, 0, 1, 5, -400, 1, 0);
    OK(table(text, &(struct copse_dataset_params){ .scale = COPSE_SCALE_MAX }));
    X(0.0025f, 0.25f, 1, 0, 0.0075f, 0.25f, 0, 1, 0.0125f, -1, 1, 0);
    assert_true(info.scale == 400);
    OK(table(text, &(struct copse_dataset_params){ .scale = COPSE_SCALE_STANDARD }));
    assert_true(info.scale == 1);
    const float d = 1 / sqrtf(8.0f / 3);
    X(-2 * d, 0.70710678f, 1, 0, 0, 0.70710678f, 0, 1, 2 * d, -1.41421356f, 1, 0);
    /* far from 0, and nearly equal: more digits than f32 has */
    OK(table("1600000000.25,0\n1600000000.75,1\n", NULL));
    X(-1, 1);
}

static void test_label_and_columns_that_are_left_out(void **state)
{
    static const char text[] = "id,class,size\n17,u,1\n18,v,2\n";
    const struct {
        struct copse_dataset_params p;
        size_t width;
        const char *first;
    } cases[] = {
        { { .csv = { .label_name = "class" } }, 2, "u" },
        { { .csv = { .label_column = 2 } }, 2, "u" },
        { { .csv = { .label_column = 2 }, .ignore = "id" }, 1, "u" },
        { { .csv = { .label_name = "class" }, .ignore = " 1 , size" }, 0, "" },
        { { .ignore = "3" }, 1, "u" }, /* the last of the others */
        { { .ignore = "id,class" }, 0, "" },
        { { 0 }, 3, "1" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        if (cases[i].width == 0) {
            refused(COPSE_ERR_FORMAT, text, &cases[i].p, "no column but the label");
            continue;
        }
        OK(table(text, &cases[i].p));
        assert_int_equal(info.row_size, cases[i].width);
        assert_string_equal(class_of(0), cases[i].first);
    }
    OK(table(text, &(struct copse_dataset_params){ .no_labels = true }));
    assert_int_equal(info.row_size, 4);
    assert_false(info.has_labels);
    assert_int_equal(about.task, COPSE_TASK_AUTO);
}

static void test_header(void **state)
{
    (void)state;
    /* text whose first line occurs again is data */
    OK(table("e,w,p\ne,w,q\ne,v,p\nf,w,p\n", NULL));
    assert_int_equal(info.rows, 4);
    OK(table("e,w,p\na,w,q\nb,v,r\na,u,q\n", NULL)); /* a single cell may occur again */
    assert_int_equal(info.rows, 3);
    OK(table("e,w,p\ne,w,q\ne,v,p\n",
             &(struct copse_dataset_params){ .csv = { .header = COPSE_CSV_HEADER_YES } }));
    assert_int_equal(info.rows, 2);
    OK(table("a,w,p\nb,w,q\n",
             &(struct copse_dataset_params){ .csv = { .header = COPSE_CSV_HEADER_NO } }));
    assert_int_equal(info.rows, 2);
    /* the index that pandas writes */
    OK(table(",size,class\n0,5,u\n1,7,v\n2,6,u\n", NULL));
    assert_int_equal(info.row_size, 1);
    OK(table(",size,class\n1,5,u\n3,7,v\n2,6,u\n", NULL));
    assert_int_equal(info.row_size, 2);
}

static void test_mixed_columns(void **state)
{
    (void)state;
    OK(table("n,c\n0,a\n1,b\n3+,a\n3+,b\n2,a\n", &unscaled));
    assert_int_equal(info.row_size, 4);
    X(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0);
}

/* ---- labels ---- */

/* A table of one constant feature and labels; `more` lines repeat them. */
static const char *labelled(const char *list, int times)
{
    static char text[60000];
    size_t used = 0;

    for (int n = 0; n < times; n++)
        for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
            used += (size_t)snprintf(text + used, sizeof text - used, "1,%.*s\n",
                                     (int)strcspn(at, " "), at);
    return text;
}

static void test_labels_become_classes(void **state)
{
    static const struct {
        const char *labels;
        uint32_t classes;
        const char *first, *last;
    } cases[] = {
        { "0 1 2 1", 3, "0", "2" },     { "1 2 3 1", 3, "1", "3" },
        { "-1 1 -1 1", 2, "-1", "1" },  { "-0 1 0", 2, "0", "1" },
        { "7 700 70", 3, "7", "700" },  { "2 10 9", 3, "2", "10" },
        { "1.0 2.0 1", 2, "1", "2" },   { "no yes no", 2, "no", "yes" },
        { "b a 2 2 a b", 3, "2", "b" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        OK(table(labelled(cases[i].labels, 1), NULL));
        assert_int_equal(about.task, COPSE_TASK_CLASSIFICATION);
        if (about.outputs != cases[i].classes || strcmp(class_of(0), cases[i].first) != 0 ||
            strcmp(class_of(about.outputs - 1), cases[i].last) != 0)
            fail_msg("'%s': %u classes, %s to %s", cases[i].labels, about.outputs, class_of(0),
                     class_of(about.outputs - 1));
    }
    OK(table(labelled("3 1 2 1", 1), NULL));
    assert_true(y[0] == 2 && y[1] == 0 && y[2] == 1 && y[3] == 0);
    OK(table(labelled("3 1 2 1", 1), &(struct copse_dataset_params){ .classes = 5 }));
    assert_int_equal(info.classes, 5);
    assert_int_equal(y[0], 3);
}

static void test_task_is_recognised(void **state)
{
    static const char few[] = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 25";
    static const char many[] = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21";
    static const char gap[] = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 22";
    const struct {
        const char *labels;
        int times;
        copse_task forced, task;
    } cases[] = {
        { few, 1, COPSE_TASK_AUTO, COPSE_TASK_CLASSIFICATION },
        { many, 1, COPSE_TASK_AUTO, COPSE_TASK_REGRESSION },
        { many, 19, COPSE_TASK_AUTO, COPSE_TASK_REGRESSION },
        { many, 20, COPSE_TASK_AUTO, COPSE_TASK_CLASSIFICATION },
        { gap, 20, COPSE_TASK_AUTO, COPSE_TASK_REGRESSION },
        { many, 1, COPSE_TASK_CLASSIFICATION, COPSE_TASK_CLASSIFICATION },
        { few, 1, COPSE_TASK_REGRESSION, COPSE_TASK_REGRESSION },
        { "0 1 0.5", 1, COPSE_TASK_AUTO, COPSE_TASK_REGRESSION },
        { "1e20 1", 1, COPSE_TASK_AUTO, COPSE_TASK_REGRESSION },
    };
    const char *name;
    double mean, scale;
    float target[4];

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        OK(table(labelled(cases[i].labels, cases[i].times),
                 &(struct copse_dataset_params){ .task = cases[i].forced }));
        if (about.task != cases[i].task)
            fail_msg("case %zu: task %d", i, (int)about.task);
    }
    OK(table("n,price\n1,10.5\n1,20.5\n", NULL));
    assert_int_equal(info.classes, 0);
    assert_int_equal(about.outputs, 1);
    OK(copse_schema_target(copse_dataset_schema(data), 0, &name, &mean, &scale));
    assert_string_equal(name, "price");
    assert_true(mean == 15.5 && scale == 5);
    OK(copse_dataset_gather(data, "y", NULL, 2, target));
    assert_true(target[0] == -1 && target[1] == 1);
    OK(table("n,price\n1,10.5\n1,20.5\n", &unscaled));
    OK(copse_dataset_gather(data, "y", NULL, 2, target));
    assert_true(target[0] == 10.5f && target[1] == 20.5f);
}

/* ---- missing cells ---- */

static void test_missing_cells(void **state)
{
    static const char *const cells[] = { "",     "NA",   "na", "N/A",  "NaN",
                                         "null", "NULL", "?",  "\"\"", " " };
    char text[100];

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cells); i++) {
        snprintf(text, sizeof text, "age,c,l\n1,u,0\n%s,v,1\n4,u,0\n", cells[i]);
        refused(COPSE_ERR_FORMAT, text, NULL, "row 3, column 1 (\"age\"): ");
        OK(table(text, &mean_fills));
        assert_true(x[3] == 0); /* the mean */
        snprintf(text, sizeof text, "age,c,l\n1,u,0\n2,%s,1\n3,w,0\n", cells[i]);
        refused(COPSE_ERR_FORMAT, text, NULL, "row 3, column 2 (\"c\"): ");
        OK(table(text, &mean_fills));
        assert_int_equal(info.row_size, 4);
        /* a category of its own, the last */
        assert_true(x[4 + 1] == 0 && x[4 + 2] == 0 && x[4 + 3] == 1);
        snprintf(text, sizeof text, "age,c,l\n1,u,0\n2,v,%s\n3,w,0\n", cells[i]);
        refused(COPSE_ERR_FORMAT, text, &mean_fills, "row 3, column 3 (\"l\"): ");
    }
    OK(table("1,a\n,b\n4,c\n", &(struct copse_dataset_params){ .missing = COPSE_MISSING_MEAN,
                                                               .scale = COPSE_SCALE_NONE }));
    X(1, 2.5f, 4);
}

/* ---- hostile tables ---- */

static void test_hostile_tables(void **state)
{
    static char ids[4000], words[40000];
    size_t used = 0, more = 0;
    for (int i = 0; i < 40; i++)
        used += (size_t)snprintf(ids + used, sizeof ids - used, "person %d,%d,%d\n", i, i, i % 2);
    for (int i = 0; i < 3000; i++)
        more += (size_t)snprintf(words + more, sizeof words - more, "w%d,%d\n", i / 2, i % 2);
    const struct {
        const char *text;
        const struct copse_dataset_params *params;
        copse_status code;
        const char *error;
    } cases[] = {
        { ids, NULL, COPSE_ERR_FORMAT,
          "row 1, column 1: \"person 0\" is one of 40 different texts in 40 rows" },
        { words, NULL, COPSE_ERR_FORMAT,
          "row 2001, column 1: the column has more than 1000 different texts" },
        { "a,b\n1,2\n3\n", NULL, COPSE_ERR_FORMAT, "row 3: fewer cells than the 2 columns" },
        { "a,b\n1,2\n3,4,5\n", NULL, COPSE_ERR_FORMAT, "row 3: more cells than the 2 columns" },
        { "a,b,a\n1,2,3\n", NULL, COPSE_ERR_FORMAT, "row 1: columns 1 and 3 are both named \"a\"" },
        { "a,,\n1,2,3\n", NULL, COPSE_ERR_FORMAT, "row 1: columns 2 and 3 have no name" },
        { "a,b\n1,2\ninf,4\n", NULL, COPSE_ERR_FORMAT,
          "row 3, column 1 (\"a\"): \"inf\" is not a number" },
        { "a,b\n1e39,2\n", NULL, COPSE_ERR_FORMAT, "row 2, column 1 (\"a\"): 1e39 is too large" },
        { "1,2,0\n2,3,1\n5,1O,0\n", NULL, COPSE_ERR_FORMAT,
          "row 3, column 2: \"1O\" is not a number" },
        { "a;b\n1,5;x\n2,25;y\n", NULL, COPSE_ERR_FORMAT,
          "row 2, column 1 (\"a\"): \"1,5\" is not a number; numbers are written" },
        { "a,b\n\"1,2\n3,4\n", NULL, COPSE_ERR_FORMAT,
          "row 2, column 1: the quote is not closed in this line" },
        { "a,b\n1,\"2\"x\n", NULL, COPSE_ERR_FORMAT, "row 2, column 2: text after the quote" },
        { "a,b\n1,2\n\xc3(,4\n", NULL, COPSE_ERR_FORMAT, "row 3: invalid UTF-8 at byte 8" },
        { "a,b\n", NULL, COPSE_ERR_FORMAT, "no rows of data" },
        { "", NULL, COPSE_ERR_FORMAT, "no rows of data" },
        { "\n\n", NULL, COPSE_ERR_FORMAT, "no rows of data" },
        { "l\n1\n", NULL, COPSE_ERR_FORMAT, "label column only" },
        { "a,b\nNA,1\nNA,2\n", &mean_fills, COPSE_ERR_FORMAT,
          "column 1 (\"a\"): all cells are missing" },
        { "a,b\n1,x\n2,y\n", &(struct copse_dataset_params){ .task = COPSE_TASK_REGRESSION },
          COPSE_ERR_FORMAT,
          "row 2, column 2 (\"b\"): \"x\" is not a number, and the labels of a regression are "
          "numbers" },
        { "a,b\n1,2\n2,1.5\n", &(struct copse_dataset_params){ .task = COPSE_TASK_CLASSIFICATION },
          COPSE_ERR_FORMAT, "row 3, column 2 (\"b\"): the label is not a class" },
        { "a,b\n1,2\n2,1.5\n", &(struct copse_dataset_params){ .classes = 3 }, COPSE_ERR_FORMAT,
          "row 3, column 2 (\"b\"): the label 1.5 is not a class" },
        { "a,b\n1,x\n2,y\n", &(struct copse_dataset_params){ .classes = 3 }, COPSE_ERR_ARGUMENT,
          "2 different texts, not 3" },
        { "a,b\n1,2\n",
          &(struct copse_dataset_params){ .classes = 3, .task = COPSE_TASK_REGRESSION },
          COPSE_ERR_ARGUMENT, "a regression has no classes" },
        { "a,b\n1,2\n", &(struct copse_dataset_params){ .ignore = "c" }, COPSE_ERR_ARGUMENT,
          "no column \"c\" to leave out" },
        { "a,b\n1,2\n", &(struct copse_dataset_params){ .ignore = "3" }, COPSE_ERR_ARGUMENT,
          "no column \"3\" to leave out" },
        { "a,b\n1,2\n",
          &(struct copse_dataset_params){ .ignore = "b", .csv = { .label_name = "b" } },
          COPSE_ERR_ARGUMENT, "column 2 is left out, so it cannot be the label" },
        { "a,b\n1,2\n", &(struct copse_dataset_params){ .ignore = "a,b" }, COPSE_ERR_ARGUMENT,
          "all columns are left out" },
        { "# note\na,b\n1,2\n", NULL, COPSE_ERR_FORMAT, "the first line begins with '#'" },
        { "a,b\r1,2\r", NULL, COPSE_ERR_FORMAT, "row 1: a carriage return inside" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        refused(cases[i].code, cases[i].text, cases[i].params, cases[i].error);
}

/* ---- by a schema ---- */

static copse_schema *trained;

static void train_on(const char *text, const struct copse_dataset_params *params)
{
    OK(table(text, params));
    copse_schema_release(&trained);
    OK(copse_schema_parse(ctx, copse_schema_text(copse_dataset_schema(data)), &trained));
}

static copse_status by_schema(const char *text)
{
    return table(text, &(struct copse_dataset_params){ .schema = trained });
}

/* What the schema does not know is refused; test_cells.c has the replacements. */
static copse_status by_schema_alone(const char *text)
{
    return table(text, &(struct copse_dataset_params){ .schema = trained,
                                                       .missing = COPSE_MISSING_REFUSE,
                                                       .unknown = COPSE_UNKNOWN_REFUSE });
}

static void test_rows_are_read_by_a_schema(void **state)
{
    (void)state;
    train_on("id,size,colour,kind\n17,1,red,b\n18,3,blue,a\n19,5,red,b\n",
             &(struct copse_dataset_params){ .ignore = "id" });
    const float d = 1 / sqrtf(8.0f / 3);
    OK(by_schema("id,size,colour,kind\n1,3,red,a\n2,9,blue,b\n"));
    X(0, 0, 1, 6 * d, 1, 0);
    assert_true(info.has_labels && y[0] == 0 && y[1] == 1 && info.classes == 2);
    OK(by_schema("kind,extra,colour,size\nb,what,red,3\n")); /* other order, one more, one less */
    X(0, 0, 1);
    assert_int_equal(y[0], 1);
    OK(by_schema("colour;size\nblue;1\n")); /* no label, other delimiter */
    X(-2 * d, 1, 0);
    assert_false(info.has_labels);
    assert_int_equal(info.classes, 0);
    OK(by_schema("4,3,red,b\n")); /* by position */
    X(0, 0, 1);
    OK(by_schema("4,3,red\n"));
    assert_false(info.has_labels);
    OK(table("id,size,colour,kind\n1,3,red,?\n",
             /* not looked at */
             &(struct copse_dataset_params){ .schema = trained, .no_labels = true }));
    FAILS(COPSE_ERR_FORMAT, by_schema_alone("size,colour\n1,red\n2,green\n"),
          "row 3, column 2 (\"colour\"): \"green\" is not one of the 2 categories");
    FAILS(COPSE_ERR_FORMAT, by_schema_alone("size,colour\n1,red\n,red\n"),
          "row 3, column 1 (\"size\"): the cell is empty");
    FAILS(COPSE_ERR_FORMAT, by_schema_alone("size,colour\n1,\n"),
          "row 2, column 2 (\"colour\"): the cell is empty");
    FAILS(COPSE_ERR_FORMAT, by_schema("size,colour\nx,red\n"),
          "row 2, column 1 (\"size\"): \"x\" is not a number");
    FAILS(COPSE_ERR_FORMAT, by_schema("size,colour,kind\n1,red,c\n"),
          "row 2, column 3 (\"kind\"): the label \"c\" is none of the 2 classes");
    FAILS(COPSE_ERR_SHAPE, by_schema("size,kind\n1,a\n"), "row 1: there is no column \"colour\"");
    FAILS(COPSE_ERR_SHAPE, by_schema("weight,age\n1,a\n"), "row 1: there is no column \"size\"");
    FAILS(COPSE_ERR_FORMAT, by_schema("size,size,colour\n1,1,red\n"),
          "row 1: 2 columns are named \"size\"");
    FAILS(COPSE_ERR_SHAPE, by_schema("1,2\n"), "row 1: 2 columns, training had 4 with the label");
    OK(table("size,colour\n,red\n",
             &(struct copse_dataset_params){ .schema = trained, .missing = COPSE_MISSING_MEAN }));
    X(0, 0, 1);
    assert_null(strstr(copse_schema_text(copse_dataset_schema(data)), "green"));
}

static void test_numbers_and_classes_by_a_schema(void **state)
{
    const double rows[] = { 1, 5 }, classes[] = { 7, 5 };
    const struct copse_array_view array_x = { COPSE_F64, 2, { 2, 1 }, rows };
    const struct copse_array_view array_y = { COPSE_F64, 1, { 2 }, classes };

    (void)state;
    train_on("1,5\n3,7\n5,7\n", NULL);
    OK(by_schema("3,7.0\n3,5\n"));
    assert_true(y[0] == 1 && y[1] == 0);
    FAILS(COPSE_ERR_FORMAT, by_schema("3,7\n3,6\n"),
          "row 2, column 2: the label 6 is none of the 2 classes");
    copse_dataset_release(&data);
    OK(copse_dataset_create(ctx, &array_x, &array_y,
                            &(struct copse_dataset_params){ .schema = trained }, &data));
    OK(copse_dataset_gather(data, "x", NULL, 2, x));
    OK(copse_dataset_gather(data, "y", NULL, 2, y));
    const float d = 1 / sqrtf(8.0f / 3);
    X(-2 * d, 2 * d);
    assert_true(y[0] == 1 && y[1] == 0);
    /* a missing cell becomes the mean of the training data */
    train_on("a,l\n1,0.5\n?,1.5\n5,2.5\n", &mean_fills);
    OK(by_schema("a,l\n?,2.5\n"));
    X(0);
    float target;
    OK(copse_dataset_gather(data, "y", NULL, 1, &target));
    assert_true(fabsf(target - 1 / sqrtf(2.0f / 3)) < 1e-6f);
    /* text without a header */
    train_on("e,w,p\ne,w,q\ne,v,p\n", NULL);
    OK(by_schema("e,v,p\n"));
    assert_int_equal(info.rows, 1);
}

/* ---- several targets ---- */

static void assert_target(uint32_t i, const char *name, double mean, double scale)
{
    const char *found;
    double m, s;

    OK(copse_schema_target(copse_dataset_schema(data), i, &found, &m, &s));
    assert_string_equal(found, name);
    assert_true(fabs(m - mean) < 1e-12 && fabs(s - scale) < 1e-12);
}

/* "y" of the first two rows, in units of the targets: what the cells say. */
static void assert_targets(double a, double b, double c, double d)
{
    const double expected[] = { a, b, c, d };
    float found[4];
    const char *name;
    double mean, scale;

    OK(copse_dataset_gather(data, "y", NULL, 2, found));
    for (uint32_t i = 0; i < 4; i++) {
        OK(copse_schema_target(copse_dataset_schema(data), i % 2, &name, &mean, &scale));
        const double value = (double)found[i] * scale + mean;
        if (fabs(value - expected[i]) > 1e-5)
            fail_msg("target %u of row %u is %g, not %g", i % 2, i / 2, value, expected[i]);
    }
}

static void test_several_label_columns_are_targets(void **state)
{
    static const char text[] = "u,a,v,b\n1,5,10,p\n2,6,30,q\n6,8,80,p\n";
    const struct {
        const char *labels, *ignore;
    } same[] = { { "u,v", NULL }, { " v , u", NULL }, { "1,3", NULL }, { "\"u\",3", NULL } };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(same); i++) {
        train_on(text, &(struct copse_dataset_params){ .csv = { .label_name = same[i].labels } });
        assert_true(about.task == COPSE_TASK_REGRESSION && about.outputs == 2);
        assert_true(info.row_size == 3 && info.has_labels && info.classes == 0);
        assert_target(0, "u", 3, sqrt(14.0 / 3)); /* in the order of the columns */
        assert_target(1, "v", 40, sqrt(2600.0 / 3));
        assert_targets(1, 10, 2, 30);
        assert_non_null(strstr(copse_schema_text(trained), "{\"version\":3,"));
    }
    OK(table(text, &(struct copse_dataset_params){ .csv = { .label_name = "u,v" },
                                                   .scale = COPSE_SCALE_NONE }));
    assert_target(1, "v", 0, 1);
    /* positions without a header; a name needs one */
    struct copse_dataset_params bare = { .csv = { .label_name = "2,3",
                                                  .header = COPSE_CSV_HEADER_NO } };
    OK(table("7,1.5,2\n8,2.5,4\n", &bare));
    assert_true(about.outputs == 2 && info.rows == 2 && info.row_size == 1);
    bare.csv.label_name = "u";
    refused(COPSE_ERR_ARGUMENT, "7,1.5,2\n8,2.5,4\n", &bare, "label_name needs a header line");
    /* whole numbers that would be classes alone */
    OK(table("a,c,d\n1,0,1\n2,1,0\n",
             &(struct copse_dataset_params){ .csv = { .label_name = "c,d" } }));
    assert_int_equal(about.task, COPSE_TASK_REGRESSION);
    /* by the schema: by name, by position, without labels, with one of them */
    OK(by_schema("b,v,a,u\nq,3,5,4\np,7,5,9\n"));
    assert_targets(4, 3, 9, 7);
    OK(by_schema("4,5,3,q\n9,5,7,p\n"));
    assert_targets(4, 3, 9, 7);
    OK(by_schema("a,b\n5,q\n"));
    assert_false(info.has_labels);
    OK(by_schema("5,q\n"));
    assert_true(!info.has_labels && info.row_size == 3);
    FAILS(COPSE_ERR_SHAPE, by_schema("a,b,u\n5,q,1\n"),
          "row 1: there is no column \"v\", a target of the training, while other targets");
    OK(table("a,b,u\n5,q,1\n",
             &(struct copse_dataset_params){ .schema = trained, .no_labels = true }));
    FAILS(COPSE_ERR_SHAPE, by_schema("5,q,1\n"), "3 columns, training had 4 with the labels");
    FAILS(COPSE_ERR_FORMAT, by_schema("a,b,u,v\n5,q,1,\n"), "every row needs a label");
}

/* A name with a comma is in quotes in a list, and alone needs none; also of columns left out. */
static void test_names_with_commas(void **state)
{
    static const char text[] = "\"u, m\",v,\"say \"\"w\"\"\",a\n1,5,10,3\n2,6,30,4\n6,8,80,4\n";
    const struct {
        struct copse_dataset_params p;
        uint32_t outputs;
        size_t width;
        const char *first;
    } cases[] = {
        { { .csv = { .label_name = "u, m" }, .task = COPSE_TASK_REGRESSION }, 1, 3, "u, m" },
        { { .csv = { .label_name = "v,\"u, m\"" } }, 2, 2, "u, m" },
        { { .csv = { .label_name = "\"say \"\"w\"\"\" , v" } }, 2, 2, "v" },
        { { .csv = { .label_name = "v,4" }, .ignore = "\"u, m\"" }, 2, 1, "v" },
        { { .csv = { .label_name = "v,4" }, .ignore = " \"say \"\"w\"\"\",1" }, 2, 0, NULL },
    };
    const char *name;
    double mean, scale;

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        if (cases[i].first == NULL) {
            refused(COPSE_ERR_FORMAT, text, &cases[i].p, "no column but the label");
            continue;
        }
        OK(table(text, &cases[i].p));
        assert_int_equal(about.outputs, cases[i].outputs);
        assert_int_equal(info.row_size, cases[i].width);
        OK(copse_schema_target(copse_dataset_schema(data), 0, &name, &mean, &scale));
        assert_string_equal(name, cases[i].first);
    }
}

static void test_hostile_targets(void **state)
{
    static const char text[] = "a,b,c\n1,2,p\n3,4,q\n";
    static const struct {
        struct copse_dataset_params p;
        copse_status code;
        const char *error;
    } cases[] = {
        { { .csv = { .label_name = "b,d" } },
          COPSE_ERR_ARGUMENT,
          "no column named \"d\" in its first row; it has 3 columns; a comma is between the "
          "columns" },
        { { .csv = { .label_name = "\"a\"b,c" } },
          COPSE_ERR_ARGUMENT,
          "a quote and then a comma must end the name \"a\"" },
        { { .csv = { .label_name = "a" }, .ignore = "\"b" },
          COPSE_ERR_ARGUMENT,
          "a quote and then a comma must end the name \"b\"" },
        { { .csv = { .label_name = "b,9" } },
          COPSE_ERR_ARGUMENT,
          "no column named \"9\" in its first row; it has 3 columns" },
        { { .csv = { .label_name = "b,b" } },
          COPSE_ERR_ARGUMENT,
          "column 2 is named twice in the list of labels" },
        { { .csv = { .label_name = "a,b" }, .ignore = "b" },
          COPSE_ERR_ARGUMENT,
          "column 2 is left out, so it cannot be the label" },
        { { .csv = { .label_name = "a,b,c" } }, COPSE_ERR_FORMAT, "has label columns only" },
        { { .csv = { .label_name = "b,c" } },
          COPSE_ERR_FORMAT,
          "row 2, column 3 (\"c\"): \"p\" is not a number, and the targets of a regression" },
        { { .csv = { .label_name = "a,b" }, .task = COPSE_TASK_CLASSIFICATION },
          COPSE_ERR_ARGUMENT,
          "2 label columns are targets of a regression, and have no classes" },
        { { .csv = { .label_name = "a,b" }, .classes = 2 },
          COPSE_ERR_ARGUMENT,
          "2 label columns are targets of a regression, and have no classes" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        refused(cases[i].code, text, &cases[i].p, cases[i].error);
}

static int finish(void **state)
{
    copse_dataset_release(&data);
    copse_schema_release(&trained);
    return end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_of_numbers_and_text),
        cmocka_unit_test(test_order_of_rows_does_not_matter),
        cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_label_and_columns_that_are_left_out),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_mixed_columns),
        cmocka_unit_test(test_labels_become_classes),
        cmocka_unit_test(test_task_is_recognised),
        cmocka_unit_test(test_missing_cells),
        cmocka_unit_test(test_hostile_tables),
        cmocka_unit_test(test_rows_are_read_by_a_schema),
        cmocka_unit_test(test_numbers_and_classes_by_a_schema),
        cmocka_unit_test(test_several_label_columns_are_targets),
        cmocka_unit_test(test_names_with_commas),
        cmocka_unit_test(test_hostile_targets),
    };

    return cmocka_run_group_tests(tests, begin, finish);
}
