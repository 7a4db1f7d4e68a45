/* SPDX-License-Identifier: MIT */
/* The reader of CSV, and decimal numbers: good files, and what must be refused. */
#include <math.h>

#include "copse/data/readers.h"

#include "core/data/reader/number.h"
#include "tests/rig/data/reader_rig.h"

static copse_status csv(const char *text, const struct copse_csv_params *params)
{
    copse_array_release(&array);
    copse_array_release(&labels);
    return copse_read_csv(ctx, temp_text("t.csv", text), params, &array, &labels);
}

/* ---- numbers ---- */

static uint64_t bits(double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static void test_numbers_are_rounded_correctly(void **state)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "+1",
        "16",
        ".5",
        "5.",
        "0.1",
        "1e22",
        "1e23",
        "123456789012345678",
        "9007199254740993",
        "9007199254740992.99999999999999999",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "179769313486231580793e288",
        "0.000000000000000000000000000000000000000001e42",
        "6.631236846766476e-316",
        "3.237883913302901e-319",
        "1e-400",
        "1e400",
        "0e999999999",
        "8.988465674311579538646525e307",
        "100000000000000008388608",
        "1.00000005960464477539",
    };
    uint64_t random = 88172645463325252u;
    char text[64];

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(texts) + 200000; i++) {
        double v = 7, expected;
        if (i < COPSE_COUNT(texts)) {
            snprintf(text, sizeof text, "%s", texts[i]);
        } else {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            memcpy(&expected, &random, sizeof expected);
            if (!isfinite(expected))
                continue;
            snprintf(text, sizeof text, "%.*e", (int)(i % 25), expected);
        }
        expected = strtod(text, NULL); /* the test runs in the C locale */
        if (!copse__number_parse(text, strlen(text), &v) || bits(v) != bits(expected))
            fail_msg("\"%s\": %a instead of %a", text, v, expected);
    }
}

static void test_what_is_no_number_is_refused(void **state)
{
    static const char *const texts[] = { "",     "+",    ".",    "-.",  "e5",  "1e",      "1e+",
                                         "1..2", "0x10", "nan",  "inf", "1,5", "1 ",      " 1",
                                         "1f",   "--1",  "1e5.", "one", "1_0", "\xd9\xa3" };
    double v;

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(texts); i++)
        if (copse__number_parse(texts[i], strlen(texts[i]), &v))
            fail_msg("\"%s\" was taken", texts[i]);
}

/* ---- CSV ---- */

static void test_csv_takes_the_last_column_as_label(void **state)
{
    (void)state;
    OK(csv("1,2.5,0\n-3,4e2,2\r\n\n5,6,1", NULL));
    const struct copse_array_view *f = copse_array_view(array), *l = copse_array_view(labels);
    assert_int_equal(f->type, COPSE_F32);
    assert_int_equal(f->rank, 2);
    assert_int_equal(f->shape[0], 3);
    assert_int_equal(f->shape[1], 2);
    const float values[] = { 1, 2.5f, -3, 400, 5, 6 };
    assert_memory_equal(f->data, values, sizeof values);
    const int32_t classes[] = { 0, 2, 1 };
    assert_int_equal(l->type, COPSE_I32);
    assert_int_equal(l->rank, 1);
    assert_memory_equal(l->data, classes, sizeof classes);
}

static void test_csv_label_by_number_and_by_name(void **state)
{
    (void)state;
    OK(csv("7,1,2\n", &(struct copse_csv_params){ .label_column = 1 }));
    assert_int_equal(at(labels, 0), 7);
    assert_int_equal(at(array, 0), 1);
    OK(csv("a,\"the class\",b\n1,3,2\n", &(struct copse_csv_params){ .label_name = "the class" }));
    assert_int_equal(at(labels, 0), 3);
    assert_int_equal(at(array, 1), 2);
    assert_error(COPSE_ERR_ARGUMENT,
                 csv("a,b\n1,2\n", &(struct copse_csv_params){ .label_name = "c" }),
                 "no column named \"c\"");
    assert_error(COPSE_ERR_ARGUMENT, csv("1,2\n", &(struct copse_csv_params){ .label_column = 3 }),
                 "2 columns");
    assert_error(COPSE_ERR_ARGUMENT,
                 csv("a,a\n1,2\n", &(struct copse_csv_params){ .label_name = "a" }), "two columns");
}

static void test_csv_header_quotes_delimiter_and_mark(void **state)
{
    (void)state;
    OK(csv("\xef\xbb\xbf\"x \"\"1\"\"\";y\n \"1\" ; 2 \n",
           &(struct copse_csv_params){ .delimiter = ';' }));
    assert_int_equal(copse_array_view(array)->shape[0], 1);
    assert_int_equal(at(array, 0), 1);
    assert_int_equal(at(labels, 0), 2);
    OK(csv("1,2\n3,4\n", &(struct copse_csv_params){ .header = COPSE_CSV_HEADER_YES }));
    assert_int_equal(copse_array_view(array)->shape[0], 1);
    assert_error(COPSE_ERR_FORMAT,
                 csv("a,b\n3,4\n", &(struct copse_csv_params){ .header = COPSE_CSV_HEADER_NO }),
                 "row 1, column 1: \"a\" is not a number");
    assert_error(COPSE_ERR_ARGUMENT, csv("1", &(struct copse_csv_params){ .delimiter = 'x' }),
                 "delimiter");
}

static void test_csv_finds_the_delimiter(void **state)
{
    static const char *const tables[] = {
        "1,2,0\n3,4,1\n",
        "1;2;0\n3;4;1\n",
        "1\t2\t0\n3\t4\t1\n",
        "\n1|2|0\n3|4|1\n",
        "a|b;x|c;y\n1;2;0\n3;4;1\n",             /* ';' before '|' */
        "a\tb|x\tc|y\n1\t2\t0\n3\t4\t1\n",       /* tab before '|' */
        "a;x,b;y,c;z\n1,2,0\n3,4,1\n",           /* ',' before ';' */
        "\"a,x\"; \"b\"\",\";c\n1;2;0\n3;4;1\n", /* not inside quotes */
        "5\" a,b,c\n1,2,0\n3,4,1\n",             /* a quote inside a cell opens nothing */
    };
    const float values[] = { 1, 2, 3, 4 };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(tables); i++) {
        copse_status s = csv(tables[i], NULL);
        if (s != COPSE_OK)
            fail_msg("table %zu: %s", i, copse_last_error());
        assert_int_equal(copse_array_view(array)->shape[1], 2);
        assert_memory_equal(copse_array_view(array)->data, values, sizeof values);
        assert_int_equal(at(labels, 1), 1);
    }
    copse_array_release(&array);
    copse_array_release(&labels);
    OK(copse_read_csv(ctx, temp_text("t.csv", "1\n2\n"), NULL, &array, NULL));
    assert_int_equal(copse_array_view(array)->shape[1], 1);
    copse_array_release(&array);
    assert_error(COPSE_ERR_FORMAT,
                 csv("1;2\n3;4\n", &(struct copse_csv_params){ .delimiter = ',' }),
                 "is ';' the delimiter?");
    assert_error(COPSE_ERR_FORMAT, csv("1,5;2,5;0\n", NULL), "cells are split at ','");
    assert_error(COPSE_ERR_FORMAT,
                 csv("1\t2\n3\t4\n", &(struct copse_csv_params){ .delimiter = ';' }),
                 "is a tab the delimiter?");
    assert_error(COPSE_ERR_FORMAT, csv("a;b\n1,5;0\n", NULL), "a decimal comma?");
}

static void test_csv_comment_is_pointed_at(void **state)
{
    static const char hint[] = "the first line begins with '#'";

    (void)state;
    assert_error(COPSE_ERR_FORMAT, csv("# made by hand\n1,2,0\n", NULL), hint);
    assert_error(COPSE_ERR_FORMAT, csv("\n# 1,2,3\n1,2,0\n", NULL), hint);
    assert_error(COPSE_ERR_ARGUMENT,
                 csv("# by hand\na,b\n1,2\n", &(struct copse_csv_params){ .label_name = "b" }),
                 hint);
    /* a header may begin so, and then errors further down have nothing to do with it */
    OK(csv("# a,b,c\n1,2,0\n", NULL));
    assert_int_equal(copse_array_view(array)->shape[0], 1);
    assert_error(COPSE_ERR_FORMAT, csv("# a,b\n1,0\nx,1\n", NULL), "row 3, column 1");
    assert_null(strstr(copse_last_error(), hint));
}

static void test_csv_header_of_column_numbers(void **state)
{
    static const struct {
        const char *text;
        size_t rows;
    } cases[] = {
        { "0,1,2\n5,6,0\n", 1 },
        { "1,2,3,4\n5,6,7,0\n", 1 },
        { "\"0\",\"1\",\"2\"\n5,6,0\n", 1 },
        { "0,1,2,3,4,5,6,7,8,9,10\n1,1,1,1,1,1,1,1,1,1,1\n", 1 },
        { "0,1\n5,0\n", 2 },
        { "0,1,3\n5,6,0\n", 2 },
        { "0,1,2.0\n5,6,0\n", 2 },
        { "2,3,4\n5,6,0\n", 2 },
        { "0,1,1\n5,6,0\n", 2 },
        { "1,2,2\n5,6,0\n", 2 },
        { "00,1,2\n5,6,0\n", 2 },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
        OK(csv(cases[i].text, NULL));
        if (copse_array_view(array)->shape[0] != cases[i].rows)
            fail_msg("case %zu: %zu rows", i, copse_array_view(array)->shape[0]);
    }
    OK(csv("0,1,2\n5,6,0\n", &(struct copse_csv_params){ .header = COPSE_CSV_HEADER_NO }));
    assert_int_equal(copse_array_view(array)->shape[0], 2);
    OK(csv("0,1,2\n5,6,7\n", &(struct copse_csv_params){ .label_name = "1" }));
    assert_int_equal(at(labels, 0), 6);
    /* a column of row numbers is not guessed at */
    assert_error(COPSE_ERR_FORMAT, csv(",0,1,2\n0,5,6,1\n", NULL), "row 1, column 1");
}

static void test_csv_without_labels(void **state)
{
    (void)state;
    OK(copse_read_csv(ctx, temp_text("t.csv", "1,2\n3,4\n"), NULL, &array, NULL));
    assert_int_equal(copse_array_view(array)->shape[1], 2);
    copse_array_release(&array);
}

static void test_csv_names_row_and_column(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "1,2,0\n3,cat,1\n", "row 2, column 2: \"cat\" is not a number" },
        { "a,b,c\n1,2,0\n\n3,4,5,6\n", "row 4: more cells than the 3 columns" },
        { "1,2,0\n3,4\n", "row 2: fewer cells than the 3 columns" },
        { "1,2,0\n3,,1\n", "row 2, column 2: the cell is empty" },
        { "1,2,0,\n", "row 1, column 4: the cell is empty" },
        { "1,2,0\n3,1e39,1\n", "row 2, column 2: 1e39 is too large" },
        { "1,nan,0\n", "row 1, column 2: \"nan\" is not a number" },
        { "1,2,0\n1,2,1.5\n", "row 2, column 3: the label 1.5 is not a class" },
        { "1,2,-1\n", "row 1, column 3: the label -1 is not a class" },
        { "1,2,3000000000\n", "row 1, column 3: the label 3000000000 is not a class" },
        { "1,\"2,0\n", "row 1, column 2: the quote is not closed" },
        { "1,\"2\"3,0\n", "row 1, column 2: text after the quote" },
        { "", "no rows" },
        { "a,b\n", "no rows" },
        { "1\n", "label column only" },
        { "1,2\n3,\xff\n", "row 2: invalid UTF-8 at byte 6" },
        { "1,2\n\xef\xbb\xbf"
          "3,4\n",
          "row 2, column 1" },
    };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        assert_error(COPSE_ERR_FORMAT, csv(cases[i].text, NULL), cases[i].error);
    assert_error(COPSE_ERR_FORMAT, csv("1,0\n1,3\n", &(struct copse_csv_params){ .classes = 3 }),
                 "row 2, column 2: the label 3 is out of range, there are 3 classes (0 to 2)");
    assert_error(COPSE_ERR_FORMAT,
                 copse_read_csv(ctx, temp_write("n.csv", "1,0\n\0,1\n", 8), NULL, &array, &labels),
                 "row 2: a NUL at byte 4");
}

static void test_csv_line_has_a_limit(void **state)
{
    size_t size = (1 << 20) + 10;
    char *text = malloc(size + 1);

    (void)state;
    memset(text, '1', size);
    text[size] = 0;
    assert_error(COPSE_ERR_FORMAT, csv(text, NULL), "longer than 1 MiB");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_rounded_correctly),
        cmocka_unit_test(test_what_is_no_number_is_refused),
        cmocka_unit_test(test_csv_takes_the_last_column_as_label),
        cmocka_unit_test(test_csv_label_by_number_and_by_name),
        cmocka_unit_test(test_csv_header_quotes_delimiter_and_mark),
        cmocka_unit_test(test_csv_finds_the_delimiter),
        cmocka_unit_test(test_csv_comment_is_pointed_at),
        cmocka_unit_test(test_csv_header_of_column_numbers),
        cmocka_unit_test(test_csv_without_labels),
        cmocka_unit_test(test_csv_names_row_and_column),
        cmocka_unit_test(test_csv_line_has_a_limit),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
