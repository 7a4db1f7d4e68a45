/* SPDX-License-Identifier: MIT */
/* Decides the schema of a table from the survey of its cells: which columns are categories, the
   scaling, the task and the classes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/data/array.h"
#include "core/data/table/table.h"

#define CLASS_ROWS 20u /* rows for each class, on average, where there are more than COPSE_FEW */

static copse_status no_memory(const struct copse_table_facts *f)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory for the columns", f->path);
}

/* ---- texts ---- */

/* An error about an entry of a column. */
static copse_status table_schema_refuse(const struct copse_table_facts *f, size_t column,
                                        const struct copse_dictionary_entry *e, const char *why)
{
    const struct copse_cell cell = { .text = (char *)(uintptr_t)e->text, .size = e->size };

    return copse__table_fail(COPSE_ERR_FORMAT, e->path, e->row, column, f->columns[column].name,
                             "\"%.*s\" %s", copse__csv_shown(&cell), e->text, why);
}

/* Whether the different texts of a column, and in a column of both its numbers, are few enough to
   be categories or classes. */
static copse_status check_texts(const struct copse_table_facts *f, size_t column)
{
    const struct copse_table_column *c = &f->columns[column];
    const size_t different =
        c->words.entries.count + (c->numbers > 0 ? c->digits.entries.count : 0);
    const bool is_label = c->role == COPSE_COLUMN_LABEL;
    const struct copse_dictionary_entry *first = &c->words.entries.at[0];

    if (c->commas == c->texts)
        return table_schema_refuse(
            f, column, first,
            "is not a number; numbers are written with '.', without a decimal comma or "
            "separators");
    for (size_t i = 0; c->numbers > 0 && i < c->words.entries.count; i++) {
        const struct copse_dictionary_entry *e = &c->words.entries.at[i];
        if (different > COPSE_FEW || e->count == 1)
            return table_schema_refuse(f, column, e,
                                       "is not a number, as other cells of the column are");
    }
    if (different <= COPSE_FEW || 2 * different <= f->rows)
        return COPSE_OK;
    char why[200];
    const char *what = copse__table_looks_like(&c->words, is_label);
    snprintf(why, sizeof why, "is one of %zu different texts in %zu rows: these are %s", different,
             f->rows,
             what != NULL ? what
             : is_label   ? "no classes; is another column the label?"
                          : "no categories; leave the column out (ignore, --ignore)");
    return table_schema_refuse(f, column, first, why);
}

/* Texts that a reader of the table takes for numbers or dates. */
static void warn_of_texts(const struct copse_table_facts *f, size_t column, const char *use)
{
    const struct copse_table_column *c = &f->columns[column];
    const char *what = copse__table_looks_like(&c->words, column == f->label);
    char place[COPSE_PLACE_BYTES];

    if (what != NULL)
        copse__log(f->log, COPSE_LOG_WARN,
                   "csv: %s: its %zu different texts become %s, but they are %s",
                   copse__table_place(f, column, place), c->words.entries.count, use, what);
}

/* Categories that would be dates but for a cell. */
static void warn_of_date(const struct copse_table_facts *f, size_t column, copse_date_order order)
{
    const struct copse_table_column *c = &f->columns[column];
    const struct copse_date_odd *odd = &c->dates[order].odd;
    const struct copse_cell cell = copse__cell_of(odd->text);
    char place[COPSE_PLACE_BYTES];

    copse__log(f->log, COPSE_LOG_WARN,
               "csv: %s: its %zu different texts become categories; nearly all are dates, but "
               "\"%.*s\" in row %zu is %s: correct it, or let it count as missing (missing: mean, "
               "--missing mean), and they become dates",
               copse__table_place(f, column, place), c->words.entries.count,
               copse__csv_shown(&cell), odd->text, odd->row,
               copse__date_fault(odd->text, cell.size, order));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The different cells of a column, sorted by bytes. */
static copse_status sort_texts(struct copse_table_facts *f, size_t column, const char *const **out,
                               uint32_t *count)
{
    const struct copse_table_column *c = &f->columns[column];
    const struct copse_dictionary *parts[] = { &c->words, &c->digits };
    const size_t most = c->words.entries.count + c->digits.entries.count + 1;
    const char **to = copse__arena_alloc(&f->arena, most, sizeof *to);

    if (to == NULL)
        return no_memory(f);
    *count = 0;
    for (size_t p = 0; p < COPSE_COUNT(parts); p++)
        for (size_t i = 0; i < parts[p]->entries.count; i++)
            to[(*count)++] = parts[p]->entries.at[i].text;
    qsort(to, *count, sizeof *to, by_text);
    *out = to;
    return COPSE_OK;
}

/* ---- features ---- */

static double table_schema_deviation(const struct copse_table_column *c)
{
    const double d = sqrt(c->squares / (double)c->numbers);
    return d > 0 && isfinite(d) ? d : 1;
}

static copse_status set_date(struct copse_table_facts *f, size_t column, bool is_guess,
                             struct copse_schema_column *to)
{
    char place[COPSE_PLACE_BYTES];

    to->role = COPSE_COLUMN_DATE;
    if (!copse__dates_column(&f->columns[column].dates[to->order], &f->arena, to))
        return no_memory(f);
    if (is_guess)
        copse__log(f->log, COPSE_LOG_WARN,
                   "csv: %s: its dates are read with the month first; if the day is first, write "
                   "them as 2024-12-31 or 31.12.2024",
                   copse__table_place(f, column, place));
    copse__log(f->log, COPSE_LOG_INFO,
               "csv: %s: dates become year, month, day, day of the year, weekday%s",
               copse__table_place(f, column, place),
               to->width == COPSE_DATE_PLACES ? ", hour and minute" : "");
    return COPSE_OK;
}

static copse_status set_feature(struct copse_table_facts *f, size_t column,
                                struct copse_schema_column *to)
{
    const struct copse_table_column *c = &f->columns[column];
    const copse_feature_scale scale = f->params->scale;

    if (c->numbers == 0 && c->texts == 0)
        return copse_fail(COPSE_ERR_FORMAT,
                          "csv: %s, column %zu%s%s%s: all cells are missing; leave the column out "
                          "(ignore, --ignore)",
                          f->path, column + 1, c->name[0] ? " (\"" : "", c->name,
                          c->name[0] ? "\")" : "");
    if (c->texts == 0) {
        const bool is_standard = scale == COPSE_SCALE_AUTO || scale == COPSE_SCALE_STANDARD;
        to->role = COPSE_COLUMN_NUMBER;
        to->fill = c->mean;
        to->mean = is_standard ? c->mean : 0;
        to->scale = is_standard                                  ? table_schema_deviation(c)
                    : scale == COPSE_SCALE_MAX && f->largest > 0 ? (double)f->largest
                                                                 : 1;
        return COPSE_OK;
    }
    bool is_guess;
    if (c->numbers == 0 && copse__dates_order(c->dates, c->texts, &to->order, &is_guess))
        return set_date(f, column, is_guess, to);
    if (copse__dates_most(c->dates, c->texts + c->numbers, &to->order, &is_guess)) {
        if (f->params->missing == COPSE_MISSING_MEAN)
            return set_date(f, column, is_guess, to); /* the others count as missing */
        if (c->numbers > 0 || c->words.entries.count > COPSE_FEW)
            return copse__table_fail_date(column, c, to->order);
        warn_of_date(f, column, to->order);
    }
    to->order = COPSE_DATE_YMD;
    COPSE_TRY(check_texts(f, column));
    to->role = COPSE_COLUMN_CATEGORY;
    COPSE_TRY(sort_texts(f, column, &to->categories, &to->width));
    warn_of_texts(f, column, "categories");
    if (c->missing > 0) {
        ((const char **)(uintptr_t)to->categories)[to->width++] = "";
        to->has_missing = true;
    }
    return COPSE_OK;
}

static copse_status set_columns(struct copse_table_facts *f, struct copse_schema_parts *p)
{
    struct copse_schema_column *to = copse__arena_alloc(&f->arena, f->column_count, sizeof *to);
    uint64_t width = 0;

    if (to == NULL)
        return no_memory(f);
    p->columns = to;
    p->column_count = (uint32_t)f->column_count;
    for (size_t i = 0; i < f->column_count; i++) {
        to[i].name = f->columns[i].name;
        to[i].role = f->columns[i].role;
        to[i].scale = 1;
        if (to[i].role == COPSE_COLUMN_NUMBER)
            COPSE_TRY(set_feature(f, i, &to[i]));
        width += to[i].role == COPSE_COLUMN_NUMBER ? 1 : to[i].width;
    }
    if (width == 0)
        return copse_fail(COPSE_ERR_FORMAT,
                          "csv: %s has no column but the label and those that are left out",
                          f->path);
    return COPSE_OK;
}

/* ---- labels ---- */

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The different labels that are numbers, ascending, in place of all. `rows`: of the first
   COPSE_NAMED_CLASSES_MAX of them, zeroed. */
static size_t sort_labels(struct copse_table_facts *f, uint32_t *rows)
{
    size_t count = 0;

    qsort(f->labels.at, f->labels.count, sizeof *f->labels.at, by_number);
    for (size_t i = 0; i < f->labels.count; i++) {
        if (i == 0 || f->labels.at[i] != f->labels.at[count - 1])
            f->labels.at[count++] = f->labels.at[i];
        if (count <= COPSE_NAMED_CLASSES_MAX)
            rows[count - 1]++;
    }
    return count;
}

/* Whether numbers are classes: the rule of data/schema.h. `v`: the different ones, ascending. */
static bool are_classes(const struct copse_table_facts *f, const double *v, size_t count)
{
    if (f->fraction_row != 0 || count > COPSE_NAMED_CLASSES_MAX)
        return false;
    const bool is_counted = (v[0] == 0 || v[0] == 1) && v[count - 1] - v[0] == (double)(count - 1);
    return count <= COPSE_FEW || (is_counted && f->rows / count >= CLASS_ROWS);
}

static const char *number_name(struct copse_table_facts *f, double v)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%.0f", v + 0.0); /* -0 is 0 */
    return copse__arena_strdup(&f->arena, digits);
}

/* The labels are sorted and differ. */
static copse_status report_numbers(struct copse_table_facts *f, const uint32_t *rows, size_t count)
{
    struct copse_class_rows *classes = copse__arena_alloc(&f->arena, count, sizeof *classes);

    for (size_t i = 0; classes != NULL && i < count; i++) {
        classes[i] = (struct copse_class_rows){ number_name(f, f->labels.at[i]), rows[i] };
        if (classes[i].name == NULL)
            return no_memory(f);
    }
    if (classes != NULL)
        copse__table_report_classes(f, classes, count);
    return classes != NULL ? COPSE_OK : no_memory(f);
}

static copse_status name_numbers(struct copse_table_facts *f, const double *v, size_t count,
                                 struct copse_schema_parts *p)
{
    const char **names = copse__arena_alloc(&f->arena, count, sizeof *names);

    p->outputs = (uint32_t)count;
    p->is_numbered = true;
    if (v[0] == 0 && v[count - 1] == (double)(count - 1))
        return COPSE_OK; /* 0..count-1 */
    p->classes = names;
    for (size_t i = 0; names != NULL && i < count; i++) {
        names[i] = number_name(f, v[i]);
        if (names[i] == NULL)
            return no_memory(f);
    }
    return names != NULL ? COPSE_OK : no_memory(f);
}

static copse_status report_texts(struct copse_table_facts *f)
{
    const struct copse_table_column *c = &f->columns[f->label];
    const struct copse_dictionary *parts[] = { &c->words, &c->digits };
    const size_t most = c->words.entries.count + c->digits.entries.count;
    struct copse_class_rows *classes = copse__arena_alloc(&f->arena, most, sizeof *classes);
    size_t count = 0;

    if (classes == NULL)
        return no_memory(f);
    for (size_t p = 0; p < COPSE_COUNT(parts); p++)
        for (size_t i = 0; i < parts[p]->entries.count; i++, count++)
            classes[count] = (struct copse_class_rows){ parts[p]->entries.at[i].text,
                                                        parts[p]->entries.at[i].count };
    copse__table_report_classes(f, classes, count);
    return COPSE_OK;
}

/* Classes that are texts. */
static copse_status set_text_classes(struct copse_table_facts *f, struct copse_schema_parts *p)
{
    const struct copse_table_column *c = &f->columns[f->label];

    if (f->params->task == COPSE_TASK_REGRESSION)
        return table_schema_refuse(f, f->label, &c->words.entries.at[0],
                                   "is not a number, and the labels of a regression are numbers");
    COPSE_TRY(check_texts(f, f->label));
    warn_of_texts(f, f->label, "classes");
    p->task = COPSE_TASK_CLASSIFICATION;
    COPSE_TRY(sort_texts(f, f->label, &p->classes, &p->outputs));
    if (f->params->classes != 0 && f->params->classes != p->outputs)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "csv: %s: the labels are %u different texts, not %u classes", f->path,
                          p->outputs, f->params->classes);
    return report_texts(f);
}

/* A target for each label column, in the order of the columns. */
static copse_status set_targets(struct copse_table_facts *f, struct copse_schema_parts *p)
{
    struct copse_schema_target *to = copse__arena_alloc(&f->arena, f->label_count, sizeof *to);
    const bool is_scaled = f->params->scale != COPSE_SCALE_NONE;

    if (to == NULL)
        return no_memory(f);
    p->task = COPSE_TASK_REGRESSION;
    p->targets = to;
    p->outputs = 0;
    for (size_t i = f->label; i < f->column_count; i++) {
        const struct copse_table_column *c = &f->columns[i];
        if (c->role != COPSE_COLUMN_LABEL)
            continue;
        if (c->texts > 0)
            return table_schema_refuse(
                f, i, &c->words.entries.at[0],
                "is not a number, and the targets of a regression are numbers");
        to[p->outputs++] =
            (struct copse_schema_target){ c->name, is_scaled ? c->mean : 0,
                                          is_scaled ? table_schema_deviation(c) : 1 };
    }
    return COPSE_OK;
}

static copse_status set_labels(struct copse_table_facts *f, struct copse_schema_parts *p)
{
    const uint32_t classes = f->params->classes;
    copse_task task = f->params->task;

    if (f->label_count > 1 && (classes != 0 || task == COPSE_TASK_CLASSIFICATION))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "csv: %s: %zu label columns are targets of a regression, and have no "
                          "classes: name one column, or leave classes and task out",
                          f->path, f->label_count);
    if (f->label_count > 1)
        return set_targets(f, p);
    if (f->columns[f->label].texts > 0)
        return set_text_classes(f, p);
    uint32_t *rows = copse__arena_alloc(&f->arena, COPSE_NAMED_CLASSES_MAX, sizeof *rows);
    if (rows == NULL)
        return no_memory(f);
    const size_t count = sort_labels(f, rows);
    if (classes != 0 && task != COPSE_TASK_REGRESSION) { /* labels are checked when they are read */
        p->task = COPSE_TASK_CLASSIFICATION;
        p->outputs = classes;
        p->is_numbered = true;
        const bool are_right = f->fraction_row == 0 && f->labels.at[0] >= 0 &&
                               f->labels.at[count - 1] < (double)classes &&
                               count <= COPSE_NAMED_CLASSES_MAX;
        return are_right ? report_numbers(f, rows, count) : COPSE_OK;
    }
    if (task == COPSE_TASK_AUTO)
        task =
            are_classes(f, f->labels.at, count) ? COPSE_TASK_CLASSIFICATION : COPSE_TASK_REGRESSION;
    if (task == COPSE_TASK_REGRESSION)
        return set_targets(f, p);
    if (f->fraction_row != 0)
        return copse__table_fail(COPSE_ERR_FORMAT, f->fraction_path, f->fraction_row, f->label,
                                 f->columns[f->label].name,
                                 "the label is not a class (a whole number)");
    if (count > COPSE_NAMED_CLASSES_MAX)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "csv: %s: there are %zu different labels, at most %u classes are possible", f->path,
            count, COPSE_NAMED_CLASSES_MAX);
    p->task = COPSE_TASK_CLASSIFICATION;
    COPSE_TRY(report_numbers(f, rows, count));
    return name_numbers(f, f->labels.at, count, p);
}

copse_status copse__table_schema(copse_context *ctx, struct copse_table_facts *f,
                                 const struct copse_schema_parts *labels, copse_schema **out)
{
    struct copse_schema_parts p = *labels;

    *out = NULL;
    p.kind = COPSE_DATA_TABLE;
    p.type = COPSE_F32;
    p.input_scale = 1;
    p.has_header = f->has_header;
    p.missing =
        f->params->missing == COPSE_MISSING_MEAN ? COPSE_MISSING_MEAN : COPSE_MISSING_REFUSE;
    COPSE_TRY(set_columns(f, &p));
    copse__table_report_ids(f);
    copse__table_report_constants(f);
    if (f->label < f->column_count)
        COPSE_TRY(set_labels(f, &p));
    return copse__schema_create(ctx, &p, out);
}
