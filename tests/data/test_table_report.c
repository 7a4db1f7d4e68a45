/* SPDX-License-Identifier: MIT */
/* What a table's reader warns of before training: columns that number or identify the rows, columns
   with one value, classes with few rows, one class that has most. */
#include "copse/data/schema.h"
#include "copse/data/source.h"

#include "core/base/base.h"
#include "tests/rig/data/reader_rig.h"

static copse_dataset *data;
static struct copse_source_params source;
static char warnings[4000];
static bool replaces_missing; /* of open_rows */

static void take_log(void *user, copse_log_level level, const char *line)
{
    (void)user;
    const size_t used = strlen(warnings);
    if (level <= COPSE_LOG_WARN)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", line);
}

static int setup(void **state)
{
    (void)state;
    temp_begin();
    const struct copse_context_params p = { .log = take_log };
    return copse_context_create(&p, &ctx) != COPSE_OK;
}

static int finish(void **state)
{
    copse_dataset_release(&data);
    return end(state);
}

/* A number between 0 and 999 that has nothing to do with i. */
static unsigned mixed(unsigned i)
{
    return (i * 2654435761u >> 7) % 1000;
}

/* Row i of a permutation of 0..rows-1, without order. */
static unsigned permuted(unsigned i, unsigned rows)
{
    return (unsigned)((uint64_t)i * 7919u % rows); /* 7919 is a prime */
}

static copse_status open_rows(const char *header, unsigned rows,
                              int (*row)(char *to, size_t room, unsigned i, unsigned rows),
                              const char *ignore)
{
    const size_t room = 64 * (size_t)rows + 200;
    char *text = malloc(room);
    size_t used = (size_t)snprintf(text, room, "%s\n", header);
    for (unsigned i = 0; i < rows; i++)
        used += (size_t)row(text + used, room - used, i, rows);
    copse_dataset_release(&data);
    warnings[0] = 0;
    const copse_status s = copse_dataset_open(
        ctx, temp_text("t.csv", text),
        &(struct copse_dataset_params){ .ignore = ignore,
                                        .missing = replaces_missing ? COPSE_MISSING_MEAN
                                                                    : COPSE_MISSING_AUTO,
                                        .source = &source },
        &data);
    free(text);
    return s;
}

static copse_column_role role_of(uint32_t column)
{
    struct copse_schema_column c;
    OK(copse_schema_column(copse_dataset_schema(data), column, &c));
    return c.role;
}

static void assert_warns(const char *text)
{
    if (!strstr(warnings, text))
        fail_msg("'%s' is not in: %s", text, warnings);
}

/* ---- numbers of rows ---- */

static int counted(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u,%u.5,%s\n", i, mixed(i), mixed(i + 1) % 2 ? "a" : "b");
}

static int rising(char *to, size_t room, unsigned i, unsigned rows)
{
    return snprintf(to, room, "%u,%u.5,%s\n", 10000 + 3 * i, mixed(i), 2 * i < rows ? "a" : "b");
}

static int shuffled(char *to, size_t room, unsigned i, unsigned rows)
{
    return snprintf(to, room, "%u,%u.5,%s\n", permuted(i, rows), mixed(i),
                    mixed(i + 1) % 2 ? "a" : "b");
}

/* The file has no order, and the label is sorted by the first column. */
static int leaking(char *to, size_t room, unsigned i, unsigned rows)
{
    const unsigned id = permuted(i, rows);
    return snprintf(to, room, "%u,%u.5,%s\n", id, mixed(i), 2 * id < rows ? "a" : "b");
}

static int twice(char *to, size_t room, unsigned i, unsigned rows)
{
    return snprintf(to, room, "%u,%u.5,%s\n", permuted(i, rows) / 2, mixed(i),
                    mixed(i + 1) % 2 ? "a" : "b");
}

static int fractions(char *to, size_t room, unsigned i, unsigned rows)
{
    return snprintf(to, room, "%u.25,%u.5,%s\n", permuted(i, rows), mixed(i),
                    mixed(i + 1) % 2 ? "a" : "b");
}

static int sparse(char *to, size_t room, unsigned i, unsigned rows)
{
    return snprintf(to, room, "%u,%u.5,%s\n", 100 * permuted(i, rows), mixed(i),
                    mixed(i + 1) % 2 ? "a" : "b");
}

/* Seconds of rows that were written class by class. */
static int stamps(char *to, size_t room, unsigned i, unsigned rows)
{
    return snprintf(to, room, "%u,%u.5,%s\n", 1700000000u + 100 * i + mixed(i) % 90, mixed(i),
                    2 * i < rows ? "a" : "b");
}

/* Far apart, in no order, and the label depends on the number. */
static int threshold(char *to, size_t room, unsigned i, unsigned rows)
{
    const unsigned amount = 100 * permuted(i, rows);
    return snprintf(to, room, "%u,%u.5,%s\n", amount, mixed(i), amount < 50 * rows ? "a" : "b");
}

static int rising_target(char *to, size_t room, unsigned i, unsigned rows)
{
    const unsigned id = permuted(i, rows);
    return snprintf(to, room, "%u,%u.5,%u.25\n", id, mixed(i), 3 * id);
}

static void test_row_numbers_are_left_out(void **state)
{
    (void)state;
    for (unsigned rows = 20; rows <= 70000; rows += 69980) {
        OK(open_rows("row,x,y", rows, counted, NULL));
        assert_int_equal(role_of(0), COPSE_COLUMN_IGNORED);
        assert_warns("column 1 (\"row\"): it numbers the rows, so it is left out; to use it: "
                     "ignore: none (--ignore none)");
        OK(open_rows("PassengerId,x,y", rows, rising, ""));
        assert_int_equal(role_of(0), COPSE_COLUMN_IGNORED);
        assert_warns("(\"PassengerId\"): it rises from row to row like a row number, and the "
                     "labels are sorted by it, so it is left out;");
    }
    /* without a name: in silence, as tools write it */
    OK(open_rows(",x,y", 3, counted, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_IGNORED);
    assert_string_equal(warnings, "");
    /* too few rows to say so */
    OK(open_rows("row,x,y", 19, counted, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_string_equal(warnings, "");
}

/* Names of row numbers that other columns have, too. */
static void test_features_are_no_row_numbers(void **state)
{
    static const char *const counting[] = { "no,x,y",
                                            "Nr,x,y",
                                            "number,x,y",
                                            "row_number,x,y",
                                            "record_number,x,y",
                                            "row_index,x,y" },
                             *const never[] = { "price_index,x,y", "atomic_number,x,y",
                                                "house_number,x,y" };

    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(counting); i++) {
        OK(open_rows(counting[i], 40, counted, NULL));
        assert_int_equal(role_of(0), COPSE_COLUMN_IGNORED);
        assert_warns("it numbers the rows, so it is left out");
        OK(open_rows(counting[i], 40, rising, NULL));
        assert_int_equal(role_of(0), i < 3 ? COPSE_COLUMN_NUMBER : COPSE_COLUMN_IGNORED);
    }
    for (size_t i = 0; i < COPSE_COUNT(never); i++) {
        OK(open_rows(never[i], 40, counted, NULL));
        assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
        assert_warns("if it is an identifier");
        OK(open_rows(never[i], 40, rising, NULL));
        assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
        assert_warns("if it is an identifier");
    }
}

static void test_row_numbers_are_kept_on_demand(void **state)
{
    (void)state;
    OK(open_rows("id,x,y", 40, counted, "none"));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_warns("(ignore, --ignore id)"); /* still an identifier */
    OK(open_rows(",x,y", 40, counted, "none"));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    /* a column of this name */
    OK(open_rows("n,none,y", 40, twice, "none"));
    assert_int_equal(role_of(1), COPSE_COLUMN_IGNORED);
    assert_string_equal(warnings, "");
    /* with another item */
    FAILS(COPSE_ERR_ARGUMENT, open_rows("id,x,y", 40, counted, "none,z"),
          "has no column \"z\" to leave out");
}

static int only_column(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u,%u.5\n", i, 2 * i);
}

/* Two columns of row numbers, and nothing else. */
static int numbers_alone(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u,%u,%s\n", i + 1, i + 1, mixed(i + 1) % 2 ? "a" : "b");
}

static void test_the_only_identifier_is_named(void **state)
{
    static const char warning[] = "it looks like an identifier, and it is used because no other";

    (void)state;
    OK(open_rows("id,y", 50, only_column, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_warns("t.csv, column 1 (\"id\"): it looks like an identifier");
    OK(open_rows("id,row,y", 50, numbers_alone, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_IGNORED);
    assert_int_equal(role_of(1), COPSE_COLUMN_NUMBER);
    assert_warns("(\"id\"): it numbers the rows");
    assert_warns("(\"row\"): it looks like an identifier");
    OK(open_rows("id,x,y", 50, counted, "x"));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_warns(warning);
    OK(open_rows("user_id,x,y", 50, shuffled, "x"));
    assert_warns(warning);
    OK(open_rows("id,y", 50, only_column, "none"));
    assert_string_equal(warnings, "");
}

static int counted_twice(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u,%u,%u.5,%s\n", i, i, mixed(i), mixed(i + 1) % 2 ? "a" : "b");
}

/* As pandas writes and reads them again. */
static void test_unnamed_numbers_of_pandas(void **state)
{
    (void)state;
    for (unsigned rows = 3; rows < 100; rows += 47) {
        OK(open_rows("Unnamed: 0,x,y", rows, counted, NULL));
        assert_int_equal(role_of(0), COPSE_COLUMN_IGNORED);
        assert_string_equal(warnings, "");
        OK(open_rows("Unnamed: 0.1,Unnamed: 0,x,y", rows, counted_twice, NULL));
        assert_int_equal(role_of(0), COPSE_COLUMN_IGNORED);
        assert_int_equal(role_of(1), COPSE_COLUMN_IGNORED);
        assert_string_equal(warnings, "");
    }
    OK(open_rows("Unnamed: 0,x,y", 40, rising, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_warns("if it is an identifier");
    OK(open_rows("Unnamed: 0,x,y", 40, counted, "none"));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
}

static int gaps(char *to, size_t room, unsigned i, unsigned rows)
{
    if (i == rows / 2)
        return snprintf(to, room, ",%u.5,a\n", mixed(i));
    return counted(to, room, i, rows);
}

static void test_identifiers_with_missing_cells(void **state)
{
    (void)state;
    replaces_missing = true;
    OK(open_rows("id,x,y", 40, gaps, NULL));
    replaces_missing = false;
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_warns("(\"id\"): almost every row has another whole number; if it is an identifier");
}

/* A time is warned of if the labels follow it. */
static void test_times(void **state)
{
    (void)state;
    OK(open_rows("year,x,y", 60, leaking, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_warns("and the labels are sorted by it");
    OK(open_rows("year,x,y", 60, counted, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_string_equal(warnings, "");
}

static void test_the_only_column_is_used(void **state)
{
    (void)state;
    OK(open_rows("x,y", 50, only_column, NULL));
    assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
    assert_string_equal(warnings, "");
}

static void test_identifiers(void **state)
{
    static const char id[] = "almost every row has another whole number; if it is an identifier",
                      leak[] = "almost every row has another whole number, and the labels are "
                               "sorted by it";
    static const struct {
        const char *header;
        int (*row)(char *to, size_t room, unsigned i, unsigned rows);
        const char *warning; /* NULL: none */
    } cases[] = {
        { "code,x,y", counted, id },         { "code,x,y", shuffled, id },
        { "code,x,y", leaking, leak },       { "code,x,y", rising, leak },
        { "code,x,y", rising_target, leak }, { "code,x,y", twice, NULL },
        { "user_id,x,y", twice, NULL },      { "code,x,y", fractions, NULL },
        { "user_id,x,y", fractions, NULL },  { "population,x,y", sparse, NULL },
        { "customerID,x,y", sparse, id },    { "customer id,x,y", sparse, id },
        { "valid,x,y", sparse, NULL },       { "Year,x,y", counted, NULL },
        { "t,x,y", shuffled, NULL },         { "timestamp,x,y", counted, NULL },
        { "age,x,y", counted, NULL },        { "clock,x,y", stamps, leak },
        { "created,x,y", stamps, leak },     { "income,x,y", threshold, NULL },
    };

    (void)state;
    for (unsigned rows = 20; rows <= 70000; rows = rows == 20 ? 400 : rows * 175)
        for (size_t i = 0; i < COPSE_COUNT(cases); i++) {
            OK(open_rows(cases[i].header, rows, cases[i].row, NULL));
            assert_int_equal(role_of(0), COPSE_COLUMN_NUMBER);
            if (cases[i].warning == NULL
                    ? warnings[0] != 0
                    : !strstr(warnings, cases[i].warning) ||
                          !strstr(warnings, strchr(cases[i].header, ' ') ? "--ignore 1)"
                                                                         : "(ignore, --ignore c"))
                fail_msg("case %zu, %u rows: %s", i, rows, warnings);
        }
}

/* ---- columns with one value, classes ---- */

static int constants(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "7,%u.5,kg,%s\n", mixed(i), mixed(i + 1) % 2 ? "a" : "b");
}

static int zeros(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "0,%u.5,-0.0,%s\n", mixed(i), mixed(i + 1) % 2 ? "a" : "b");
}

static void test_columns_with_one_value(void **state)
{
    (void)state;
    OK(open_rows("k,x,unit,y", 30, constants, NULL));
    assert_warns("t.csv: 2 columns have the same value in all rows; leave them out (ignore, "
                 "--ignore k,unit)");
    OK(open_rows("k,x,unit,y", 30, constants, "k"));
    assert_warns("t.csv: 1 column has the same value in all rows; leave it out (ignore, --ignore "
                 "unit)");
    OK(open_rows("k,x,unit,y", 30, constants, "k,unit"));
    assert_string_equal(warnings, "");
    OK(open_rows("k,x,\"a,b\",y", 30, constants, "k")); /* a name that the list cannot have */
    assert_warns("--ignore 3)");
    OK(open_rows("k,x,none,y", 30, zeros, NULL)); /* as pixels at the edge of pictures are */
    assert_string_equal(warnings, "");
    OK(open_rows("k,x,unit,y", 1, constants, NULL)); /* of one row nothing is known */
    assert_string_equal(warnings, "");
}

/* 3 rows of class 2, 1 in 20 of class 1. */
static int unequal(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u.5,%u\n", mixed(i), i % 100 == 99 ? 2 : i % 20 == 0);
}

static int unequal_texts(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u.5,%s\n", mixed(i),
                    i % 100 == 99 ? "odd"
                    : i % 20      ? "often"
                                  : "rare");
}

static int equal_classes(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u.5,%u\n", mixed(i), i % 3);
}

/* 6 rows of class 0, 147 of 1 and of 2. */
static int long_tail(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u.5,%u\n", mixed(i), i % 50 == 0 ? 0 : 1 + i % 2);
}

static int targets(char *to, size_t room, unsigned i, unsigned rows)
{
    (void)rows;
    return snprintf(to, room, "%u.5,%u.25\n", mixed(i), i % 20 ? 1 : mixed(i));
}

static void test_classes_with_few_rows(void **state)
{
    (void)state;
    OK(open_rows("x,y", 300, unequal, NULL));
    assert_warns("t.csv: 1 class has fewer than 5 rows: \"2\" (3); a network learns little");
    assert_warns("t.csv: class \"0\" has 282 of 300 rows, so that it alone as the answer is right "
                 "for 94.0 %;");
    assert_warns(
        "look at the recall of each class, and give rare classes weight in the loss (--loss "
        "\"cross_entropy weights=balanced\", in Python class_weight=\"balanced\")");
    source.is_weighted = true;
    OK(open_rows("x,y", 300, unequal, NULL));
    source.is_weighted = false;
    assert_warns("for 94.0 %; look at the recall of each class\n");
    OK(open_rows("x,y", 300, unequal_texts, NULL));
    assert_warns("fewer than 5 rows: \"odd\" (3);");
    assert_warns("class \"often\" has 282 of 300 rows");
    OK(open_rows("x,y", 300, long_tail, NULL)); /* no class has most rows */
    assert_string_equal(warnings, "");
    OK(open_rows("x,y", 300, equal_classes, NULL));
    assert_string_equal(warnings, "");
    OK(open_rows("x,y", 6, equal_classes, NULL)); /* all classes of a small table have few */
    assert_string_equal(warnings, "");
    OK(open_rows("x,y", 60, targets, NULL));
    assert_string_equal(warnings, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_numbers_are_left_out),
        cmocka_unit_test(test_features_are_no_row_numbers),
        cmocka_unit_test(test_row_numbers_are_kept_on_demand),
        cmocka_unit_test(test_the_only_column_is_used),
        cmocka_unit_test(test_the_only_identifier_is_named),
        cmocka_unit_test(test_unnamed_numbers_of_pandas),
        cmocka_unit_test(test_identifiers_with_missing_cells),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_identifiers),
        cmocka_unit_test(test_columns_with_one_value),
        cmocka_unit_test(test_classes_with_few_rows),
    };
    return cmocka_run_group_tests_name("table_report", tests, setup, finish);
}
