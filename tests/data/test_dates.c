/* SPDX-License-Identifier: MIT */
/* Columns of dates: the forms, the parts, cells that are no dates, the schema and its versions; and a
   model that learns an effect of the weekday. */
#include <math.h>

#include "copse/model.h"
#include "copse/train/evaluate.h"
#include "copse/train/model_file.h"
#include "core/data/table/table_dates.h"
#include "tests/rig/data/temp_files.h"
#include "tests/rig/rig.h"

static char warnings[4000];
static copse_context *of_dates;

static void keep(void *user, copse_log_level level, const char *line)
{
    (void)user;
    if (level == COPSE_LOG_WARN && strlen(warnings) + strlen(line) + 2 < sizeof warnings)
        strcat(strcat(warnings, line), "\n");
}

static int open_dates(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(&(struct copse_context_params){ .log = keep }, &of_dates);
}

static int close_dates(void **state)
{
    (void)state;
    copse_context_release(&of_dates);
    temp_end();
    return 0;
}

/* ---- forms ---- */

static void forms_and_impossible_dates(void **state)
{
    static const struct {
        const char *text;
        int order; /* -1: none */
        int year, month, day, hour, minute;
    } rows[] = {
        { "2024-12-31", COPSE_DATE_YMD, 2024, 12, 31, 0, 0 },
        { "2024/1/2", COPSE_DATE_YMD, 2024, 1, 2, 0, 0 },
        { "2024-02-29 10:30", COPSE_DATE_YMD, 2024, 2, 29, 10, 30 },
        { "2023-12-01T23:59:59.125Z", COPSE_DATE_YMD, 2023, 12, 1, 23, 59 },
        { "1999-01-01T1:05:00+01:00", COPSE_DATE_YMD, 1999, 1, 1, 1, 5 },
        { "2020-01-02 00:00:00", COPSE_DATE_YMD, 2020, 1, 2, 0, 0 },
        { "31.12.2024", COPSE_DATE_DMY, 2024, 12, 31, 0, 0 },
        { "12/31/2024 7:00", COPSE_DATE_MDY, 2024, 12, 31, 7, 0 },
        { "2024-13-01", -1, 0, 0, 0, 0, 0 },
        { "2023-02-29", -1, 0, 0, 0, 0, 0 },
        { "1900-02-29", -1, 0, 0, 0, 0, 0 },
        { "2024-00-10", -1, 0, 0, 0, 0, 0 },
        { "0000-01-10", -1, 0, 0, 0, 0, 0 },
        { "2024-01/02", -1, 0, 0, 0, 0, 0 },
        { "2024-01-02x", -1, 0, 0, 0, 0, 0 },
        { "2024-01-02 24:00", -1, 0, 0, 0, 0, 0 },
        { "2024-01-02T", -1, 0, 0, 0, 0, 0 },
        { "2024-01-02T10:30:00+", -1, 0, 0, 0, 0, 0 },
        { "20240102", -1, 0, 0, 0, 0, 0 },
        { "24-01-02", -1, 0, 0, 0, 0, 0 },
        { "", -1, 0, 0, 0, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        for (int order = 0; order < COPSE_DATE_ORDERS; order++) {
            struct copse_date d = { .has_time = false };
            const bool is =
                copse__date_parse(rows[i].text, strlen(rows[i].text), (copse_date_order)order, &d);
            if (is != (order == rows[i].order))
                fail_msg("'%s' in order %d: %d", rows[i].text, order, is);
            if (!is)
                continue;
            assert_int_equal((int)d.at[0], rows[i].year);
            assert_int_equal((int)d.at[1], rows[i].month);
            assert_int_equal((int)d.at[2], rows[i].day);
            assert_int_equal((int)d.at[COPSE_DATE_HOUR], rows[i].hour);
            assert_int_equal((int)d.at[COPSE_DATE_HOUR + 1], rows[i].minute);
        }
}

/* 1 January of year 1 was a Monday of this calendar; 400 years later all repeats. */
static void weekdays_and_days_of_the_year(void **state)
{
    int weekday = 0, years = 0;
    char text[32];
    (void)state;
    for (int year = 1; year <= 2100; year++) {
        int of_year = 0;
        for (int month = 1; month <= 12; month++)
            for (int day = 1; day <= 31; day++) {
                struct copse_date d;
                snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
                if (!copse__date_parse(text, strlen(text), COPSE_DATE_YMD, &d))
                    continue;
                assert_int_equal((int)d.at[3], ++of_year);
                assert_true(d.at[COPSE_DATE_WEEKDAY + weekday] == 1);
                weekday = (weekday + 1) % 7;
            }
        years += of_year == 366;
        assert_true(of_year == 365 || of_year == 366);
    }
    assert_int_equal(years, 509); /* leap years up to 2100 */
    struct copse_date d;
    assert_true(copse__date_parse("2026-11-29", 10, COPSE_DATE_YMD, &d));
    assert_true(d.at[COPSE_DATE_WEEKDAY + 6] == 1); /* a Sunday */
}

/* ---- columns ---- */

static copse_dataset *open_table(const char *text, const struct copse_dataset_params *params)
{
    copse_dataset *data = NULL;
    warnings[0] = '\0';
    OK(copse_dataset_open(of_dates, temp_text("t.csv", text), params, &data));
    return data;
}

static struct copse_schema_column column_of(const copse_schema *schema)
{
    struct copse_schema_column c;
    OK(copse_schema_column(schema, 0, &c));
    return c;
}

static void order_is_found_or_guessed(void **state)
{
    static const struct {
        const char *text;
        copse_column_role role;
        copse_date_order order;
        uint32_t width;
        const char *warning;
    } rows[] = {
        { "d,y\n2024-01-02,0\n2024-05-06,1\n", COPSE_COLUMN_DATE, COPSE_DATE_YMD, 11, NULL },
        { "d,y\n2024-01-02 00:00,0\n2024-05-06,1\n", COPSE_COLUMN_DATE, COPSE_DATE_YMD, 11, NULL },
        { "d,y\n2024-01-02 10:00,0\n2024-05-06,1\n", COPSE_COLUMN_DATE, COPSE_DATE_YMD, 13, NULL },
        { "d,y\n01/02/2024,0\n31/05/2024,1\n", COPSE_COLUMN_DATE, COPSE_DATE_DMY, 11, NULL },
        { "d,y\n01/02/2024,0\n05/31/2024,1\n", COPSE_COLUMN_DATE, COPSE_DATE_MDY, 11, NULL },
        { "d,y\n01.02.2024,0\n05.06.2024,1\n", COPSE_COLUMN_DATE, COPSE_DATE_DMY, 11, NULL },
        { "d,y\n01/02/2024,0\n05/06/2024,1\n", COPSE_COLUMN_DATE, COPSE_DATE_MDY, 11,
          "its dates are read with the month first; if the day is first, write them as "
          "2024-12-31" },
        { "d,y\n01/02/2024,0\n05.06.2024,1\n", COPSE_COLUMN_DATE, COPSE_DATE_MDY, 11,
          "its dates are read with the month first" },
        { "d,y\n01/02/2024,0\n31.05.2024,1\n", COPSE_COLUMN_DATE, COPSE_DATE_DMY, 11, NULL },
        { "d,y\n31/01/2024,0\n01/31/2024,1\n", COPSE_COLUMN_CATEGORY, COPSE_DATE_YMD, 2,
          "they are dates; write all of them as 2024-12-31" },
        { "d,y\n2024-01-02,0\nnever,1\n", COPSE_COLUMN_CATEGORY, COPSE_DATE_YMD, 2, NULL },
    };
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        copse_dataset *data = open_table(rows[i].text, NULL);
        const struct copse_schema_column c = column_of(copse_dataset_schema(data));
        if (c.role != rows[i].role || c.order != rows[i].order || c.width != rows[i].width ||
            (rows[i].warning ? !strstr(warnings, rows[i].warning)
                             : strstr(warnings, "date") != NULL))
            fail_msg("%zu: role %d, order %d, width %u: %s", i, (int)c.role, (int)c.order, c.width,
                     warnings);
        copse_dataset_release(&data);
    }
}

static void parts_are_scaled_and_missing_dates_are_means(void **state)
{
    static const char text[] =
        "day,n,y\n2024-01-01,1,0\n2026-03-05,2,1\n2024-01-01,1,0\n2026-03-05,2,1\n";
    static const struct copse_dataset_params none = { .scale = COPSE_SCALE_NONE };
    float x[5 * 12];
    (void)state;
    copse_dataset *data = open_table(text, &none), *more = NULL;
    OK(copse_dataset_gather(data, "x", NULL, 4, x));
    /* two values each: -1 and 1; Monday and Thursday; n is not scaled */
    const float first[12] = { -1, -1, -1, -1, 1, 0, 0, 0, 0, 0, 0, 1 },
                second[12] = { 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 2 };
    for (int i = 0; i < 12; i++)
        assert_true(fabsf(x[i] - first[i]) < 1e-6f && fabsf(x[12 + i] - second[i]) < 1e-6f);

    /* new data by the text of the schema: another form of the same day, a missing one, none */
    copse_schema *schema = NULL;
    const char *json = copse_schema_text(copse_dataset_schema(data));
    assert_non_null(strstr(json, "\"version\":2"));
    assert_non_null(strstr(json, "\"role\":\"date\",\"order\":\"ymd\",\"means\":["));
    OK(copse_schema_parse(of_dates, json, &schema));
    assert_string_equal(copse_schema_text(schema), json);
    warnings[0] = '\0';
    const char *path = temp_text("new.csv", "day,n\n2024/1/1,1\n,1\nsoon,1\n2026-03-05 11:00,1\n");
    struct copse_dataset_params by = { .schema = schema };
    OK(copse_dataset_open(of_dates, path, &by, &more));
    OK(copse_dataset_gather(more, "x", NULL, 4, x));
    assert_memory_equal(&x[0], first, sizeof first);
    for (int i = 12; i < 12 + 11; i++)
        assert_true(x[i] == 0 && x[12 + i] == 0);
    assert_memory_equal(&x[36], second, 11 * sizeof *second);
    assert_non_null(strstr(warnings, "missing cells: 1, the first is row 3, column 1 (\"day\")"));
    assert_non_null(strstr(warnings,
                           "cells of dates that cannot be read: 1, the first is \"soon\" in "
                           "row 4, column 1 (\"day\"), no date; training had dates as "
                           "2024-12-31; such a cell becomes the mean of its column"));
    copse_dataset_release(&more);
    by.unknown = COPSE_UNKNOWN_REFUSE;
    FAILS(
        COPSE_ERR_FORMAT, copse_dataset_open(of_dates, path, &by, &more),
        "row 4, column 1 (\"day\"): \"soon\" is no date; training had dates as 2024-12-31: correct "
        "it, or let it count as missing (unknown: ignore, --unknown ignore)");
    by.unknown = COPSE_UNKNOWN_IGNORE;
    by.missing = COPSE_MISSING_REFUSE;
    FAILS(
        COPSE_ERR_FORMAT,
        copse_dataset_open(of_dates, temp_text("r.csv", "day,n\nsoon,1\n"), &by, &more),
        "row 2, column 1 (\"day\"): \"soon\" is no date; training had dates as 2024-12-31: correct "
        "it, or let it count as missing (missing: mean, --missing mean)");
    copse_schema_release(&schema);
    copse_dataset_release(&data);
}

/* 60 rows of dates, with times or as 31/12/2024, where row 33 has another cell. */
static const char *table_with(bool is_iso, const char *odd)
{
    static char text[64 * 64];
    char date[32];
    size_t used = (size_t)snprintf(text, sizeof text, "day,y\n");

    for (int i = 0; i < 60; i++) {
        if (is_iso)
            snprintf(date, sizeof date, "2024-03-%02d 10:%02d", 1 + i % 28, 1 + i / 28);
        else
            snprintf(date, sizeof date, "%02d/%02d/2024", 1 + i % 28, 1 + i / 28);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s,%d\n", i == 31 ? odd : date,
                                 i % 2);
    }
    return text;
}

static void a_cell_among_dates_that_is_none_is_named(void **state)
{
    static const struct {
        bool is_iso;
        const char *odd, *error;
    } rows[] = {
        { true, "rubbish",
          "\"rubbish\" is no date; nearly all cells of the column are dates as "
          "2024-12-31T23:59: correct it, leave the column out (ignore, --ignore), "
          "or let the mean replace it (missing: mean, --missing mean)" },
        { true, "17", "\"17\" is no date; nearly all" },
        { true, "2024-13-45", "is no date: there is no such month; nearly all" },
        { true, "2024-02-30", "is no date: the month has no such day; nearly all" },
        { true, "2024-02-03T25:61", "is no date: there is no such time; nearly all" },
        { true, "3.1.2022", "\"3.1.2022\" is a date in another form; nearly all" },
        { false, "13/13/2024",
          "is no date: there is no such month; nearly all cells of the column "
          "are dates as 31.12.2024 or 31/12/2024: " },
    };
    static const struct copse_dataset_params mean = { .missing = COPSE_MISSING_MEAN };
    float x[60 * COPSE_DATE_PLACES];
    char warning[200];
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(rows); i++) {
        const char *text = table_with(rows[i].is_iso, rows[i].odd);
        copse_dataset *data = NULL;
        FAILS(COPSE_ERR_FORMAT, copse_dataset_open(of_dates, temp_text("o.csv", text), NULL, &data),
              rows[i].error);
        assert_non_null(strstr(copse_last_error(), "row 33, column 1 (\"day\")"));
        data = open_table(text, &mean);
        const uint32_t width = column_of(copse_dataset_schema(data)).width;
        assert_int_equal(column_of(copse_dataset_schema(data)).role, COPSE_COLUMN_DATE);
        snprintf(warning, sizeof warning, "cannot be read: 1, the first is \"%s\" in row 33",
                 rows[i].odd);
        if (!strstr(warnings, warning))
            fail_msg("%zu: %s", i, warnings);
        OK(copse_dataset_gather(data, "x", NULL, 60, x));
        for (uint32_t k = 0; k < width; k++)
            assert_true(x[31 * width + k] == 0);
        copse_dataset_release(&data);
    }
    /* an empty cell after it is not named first */
    copse_dataset *data = NULL;
    char *text = (char *)(uintptr_t)table_with(true, "rubbish");
    strcat(text, ",1\n");
    FAILS(COPSE_ERR_FORMAT, copse_dataset_open(of_dates, temp_text("o.csv", text), NULL, &data),
          "row 33, column 1 (\"day\"): \"rubbish\" is no date");
}

/* 9 of 10 are enough; with fewer the cells are categories, as they are with few different texts. */
static void nine_of_ten_cells_make_a_column_of_dates(void **state)
{
    static const struct copse_dataset_params mean = { .missing = COPSE_MISSING_MEAN };
    static char text[2000];
    (void)state;
    for (int odd = 1; odd <= 3; odd++) {
        size_t used = (size_t)snprintf(text, sizeof text, "day,y\n");
        for (int i = 0; i < 20; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%02d,%d\n",
                                     i < odd ? "soon" : "2024-01-", 1 + i, i % 2);
        copse_dataset *data = open_table(text, &mean);
        assert_int_equal(column_of(copse_dataset_schema(data)).role,
                         odd <= 2 ? COPSE_COLUMN_DATE : COPSE_COLUMN_CATEGORY);
        copse_dataset_release(&data);
        data = open_table(text, NULL);
        assert_int_equal(column_of(copse_dataset_schema(data)).role, COPSE_COLUMN_CATEGORY);
        assert_true((odd <= 2) == (strstr(warnings, "its 20 different texts become categories; "
                                                    "nearly all are dates, but \"soon01\" in row 2 "
                                                    "is no date: correct it") != NULL));
        copse_dataset_release(&data);
    }
}

static void new_dates_in_another_form_are_told_or_refused(void **state)
{
    static const char ask[] = "day\n3.1.2022\n01/10/2024\n";
    struct copse_dataset_params by = { .schema = NULL };
    copse_dataset *more = NULL;
    (void)state;
    copse_dataset *data = open_table("day,y\n2024-01-01 10:00,0\n2026-03-05 11:30,1\n", NULL);
    by.schema = copse_dataset_schema(data);
    FAILS(
        COPSE_ERR_FORMAT, copse_dataset_open(of_dates, temp_text("a.csv", ask), &by, &more),
        "row 2, column 1 (\"day\"): the cell is a date in another form, and no cell of the column "
        "is a date as 2024-12-31T23:59, which training had: write them so, or let the mean "
        "replace them (missing: mean, --missing mean)");
    by.missing = COPSE_MISSING_MEAN;
    warnings[0] = '\0';
    OK(copse_dataset_open(of_dates, temp_text("a.csv", ask), &by, &more));
    assert_non_null(strstr(warnings, "cells of dates that cannot be read: 2, the first is "
                                     "\"3.1.2022\" in row 2, column 1 (\"day\"), a date in another "
                                     "form; training had dates as 2024-12-31T23:59;"));
    copse_dataset_release(&more);
    by.missing = COPSE_MISSING_AUTO;
    warnings[0] = '\0';
    OK(copse_dataset_open(of_dates,
                          temp_text("a.csv", "day\n2024-01-01 00:00\n2024-01-01\n2024-01-02\n"),
                          &by, &more));
    assert_non_null(strstr(warnings,
                           "dates without a time, where training had times: 2, the first "
                           "is \"2024-01-01\" in row 3, column 1 (\"day\"); their time is "
                           "00:00"));
    copse_dataset_release(&more);
    copse_dataset_release(&data);
}

static void a_date_is_no_label(void **state)
{
    const struct copse_dataset_params label = { .csv = { .label_name = "day" } };
    copse_dataset *data = NULL;
    (void)state;
    FAILS(COPSE_ERR_FORMAT,
          copse_dataset_open(of_dates, temp_text("l.csv", table_with(false, "01/01/2025")), &label,
                             &data),
          "these are dates, and a date cannot be the label; is another column the label (label, "
          "--label)?");
}

/* Tables without dates stay readable by versions that know none. */
static void older_schemas_are_read_and_written(void **state)
{
    copse_schema *schema = NULL;
    char text[2000];
    (void)state;
    copse_dataset *data = open_table("a,y\n1,0\n2,1\n", NULL);
    const char *json = copse_schema_text(copse_dataset_schema(data));
    assert_non_null(strstr(json, "\"version\":1,"));
    OK(copse_schema_parse(of_dates, json, &schema));
    copse_schema_release(&schema);
    copse_dataset_release(&data);

    data = open_table("a,y\n2024-01-02,0\n2024-01-03,1\n", NULL);
    snprintf(text, sizeof text, "%s", copse_schema_text(copse_dataset_schema(data)));
    char *means = strstr(text, "\"means\":[");
    memmove(means + 9, strchr(means, ',') + 1, strlen(strchr(means, ',') + 1) + 1); /* one less */
    FAILS(COPSE_ERR_FORMAT, copse_schema_parse(of_dates, text, &schema),
          "the field \"means\" of column 1 is not an array of 11 numbers");
    snprintf(text, sizeof text, "%s", copse_schema_text(copse_dataset_schema(data)));
    memcpy(strstr(text, "\"ymd\""), "\"ydm\"", 5);
    FAILS(COPSE_ERR_FORMAT, copse_schema_parse(of_dates, text, &schema), "one of ymd, dmy, mdy");
    copse_dataset_release(&data);
}

/* ---- what a model learns ---- */

enum { DAYS = 1500 };

/* The label is whether the day is a Saturday or a Sunday; a number is noise. */
static const char *weekend_table(void)
{
    static char text[64 * DAYS];
    size_t used = (size_t)snprintf(text, sizeof text, "when,noise,free\n");
    uint32_t r = 1;
    int day = 0;
    for (int year = 2020; day < DAYS; year++)
        for (int month = 1; month <= 12; month++)
            for (int d = 1; d <= 31 && day < DAYS; d++) {
                char date[32];
                struct copse_date parts;
                snprintf(date, sizeof date, "%04d-%02d-%02d", year, month, d);
                if (!copse__date_parse(date, strlen(date), COPSE_DATE_YMD, &parts))
                    continue;
                r = r * 1664525u + 1013904223u;
                /* 1 January 2020 was a Wednesday */
                used += (size_t)snprintf(text + used, sizeof text - used, "%s,%u,%s\n", date,
                                         r >> 20, (day + 2) % 7 >= 5 ? "yes" : "no");
                day++;
            }
    return text;
}

static double accuracy(const char *ignore)
{
    copse_strategy *st = NULL;
    copse_dataset *learned = NULL, *held = NULL;
    struct copse_evaluation e;
    copse_dataset *data =
        open_table(weekend_table(), &(struct copse_dataset_params){ .ignore = ignore });
    OK(copse_dataset_split(data, &(struct copse_split_params){ .train_fraction = 0.75, .seed = 1 },
                           &learned, &held));
    OK(copse_one_device_create(of_dates, "host:0", NULL, &st));
    copse_model *m = NULL;
    OK(copse_model_create(
        st, copse_dataset_schema(data),
        &(struct copse_model_params){ .network = "dense 8 relu; dense out", .seed = 3 }, &m));
    OK(copse_model_fit(m, learned,
                       &(struct copse_model_fit_params){
                           .epochs = 8, .batch = 32, .optimizer = { .learning_rate = 0.02f } }));
    OK(copse_model_evaluate(m, held, NULL, &e));
    copse_model_release(&m);
    copse_strategy_release(&st);
    copse_dataset_release(&learned);
    copse_dataset_release(&held);
    copse_dataset_release(&data);
    return e.accuracy;
}

static void an_effect_of_the_weekday_is_learned(void **state)
{
    (void)state;
    const double without = accuracy("when"), with = accuracy(NULL);
    assert_true(without < 0.8); /* five of seven days */
    assert_true(with > 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_and_impossible_dates),
        cmocka_unit_test(weekdays_and_days_of_the_year),
        cmocka_unit_test(order_is_found_or_guessed),
        cmocka_unit_test(parts_are_scaled_and_missing_dates_are_means),
        cmocka_unit_test(a_cell_among_dates_that_is_none_is_named),
        cmocka_unit_test(nine_of_ten_cells_make_a_column_of_dates),
        cmocka_unit_test(new_dates_in_another_form_are_told_or_refused),
        cmocka_unit_test(a_date_is_no_label),
        cmocka_unit_test(older_schemas_are_read_and_written),
        cmocka_unit_test(an_effect_of_the_weekday_is_learned),
    };
    return cmocka_run_group_tests_name("dates", tests, open_dates, close_dates);
}
