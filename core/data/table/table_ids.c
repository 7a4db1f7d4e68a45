/* SPDX-License-Identifier: MIT */
/* Columns of a table whose numbers name the rows: row numbers, which are left out, and identifiers,
   which are reported by a warning. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "core/data/table/table.h"

/* Fewer rows say nothing about a column. */
#define ID_ROWS COPSE_FEW
/* So many rows decide whether numbers differ, and whether the labels follow them. */
enum { ID_SAMPLE = 65536 };
/* Identifiers fill their range: n numbers drawn at random from a range of ID_RANGE n would not
   differ so often. */
#define ID_RANGE     4.0
#define ID_DIFFERENT 0.95

struct pair {
    double number;
    double label;
};

/* ---- the numbers of a column ---- */

static int by_pair_number(const void *a, const void *b)
{
    const double x = ((const struct pair *)a)->number, y = ((const struct pair *)b)->number;
    return (x > y) - (x < y);
}

static int by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The different numbers of a sorted list. */
static size_t count_different(const double *v, size_t count)
{
    size_t different = count > 0;

    for (size_t i = 1; i < count; i++)
        different += v[i] != v[i - 1];
    return different;
}

static bool are_different(size_t different, size_t count)
{
    return (double)different >= ID_DIFFERENT * (double)count;
}

static void drop_numbers(struct copse_table_facts *f, struct copse_table_column *c)
{
    copse__free(f->mem, c->ids.at);
    c->ids.at = NULL;
    c->ids.count = c->ids.room = 0;
    c->is_kept = false;
}

/* Whether the numbers so far differ; false without memory. */
static bool column_differs(const struct copse_table_facts *f, const struct copse_table_column *c,
                           bool *out)
{
    double *sorted = copse__alloc(f->mem, c->ids.count, sizeof *sorted);

    if (sorted == NULL)
        return false;
    memcpy(sorted, c->ids.at, c->ids.count * sizeof *sorted);
    qsort(sorted, c->ids.count, sizeof *sorted, by_double);
    *out = are_different(count_different(sorted, c->ids.count), c->ids.count);
    copse__free(f->mem, sorted);
    return true;
}

bool copse__table_take_id(struct copse_table_facts *f, struct copse_table_column *c, double x)
{
    const bool is_first = c->numbers == 1;
    bool differs = true;

    c->is_kept = is_first || c->is_kept;
    c->first = is_first ? x : c->first;
    c->rises = is_first || (c->rises && x > c->last);
    c->counts = is_first || (c->counts && x == c->last + 1);
    c->low = is_first ? x : fmin(c->low, x);
    c->high = is_first ? x : fmax(c->high, x);
    c->last = x;
    if (!c->is_kept || c->numbers > ID_SAMPLE)
        return true;
    if (!copse__table_is_whole(x)) {
        drop_numbers(f, c);
        return true;
    }
    if (!COPSE_PUSH(f->mem, &c->ids, x))
        return false;
    /* numbers that repeat are soon forgotten */
    if (c->ids.count >= 64 && (c->ids.count & (c->ids.count - 1)) == 0) {
        if (!column_differs(f, c, &differs))
            return false;
        if (!differs)
            drop_numbers(f, c);
    }
    return true;
}

bool copse__table_take_label(struct copse_table_facts *f, double x)
{
    return f->label_order.count >= ID_SAMPLE || COPSE_PUSH(f->mem, &f->label_order, x);
}

/* ---- names ---- */

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

#define NAME_BYTES 64

/* The name in small letters; false: no name, or a long one. */
static bool lower_name(const char *name, char to[NAME_BYTES])
{
    const size_t size = strlen(name);

    if (size >= NAME_BYTES || size == 0)
        return false;
    for (size_t i = 0; i <= size; i++)
        to[i] = (char)tolower((unsigned char)name[i]);
    return true;
}

static bool is_one_of(const char *lower, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(lower, words[i]) == 0)
            return true;
    return false;
}

/* "id", "row", "customer_id", "PassengerId": names that people give to nothing else. */
static bool is_key_name(const char *name)
{
    static const char *const words[] = { "id",        "index",      "idx",   "row",
                                         "row index", "row number", "#",     "row_index",
                                         "key",       "row_number", "rowid", "record_number",
                                         "uid",       "rownum" };
    static const char *const ends[] = { "_id", " id", "-id", "_key" };
    const size_t size = strlen(name);
    char lower[NAME_BYTES];

    if (!lower_name(name, lower))
        return false;
    for (size_t i = 0; i < COPSE_COUNT(ends); i++)
        if (ends_in(lower, ends[i]))
            return true;
    return is_one_of(lower, words, COPSE_COUNT(words)) ||
           (size > 2 && islower((unsigned char)name[size - 3]) &&
            (ends_in(name, "Id") || ends_in(name, "ID")));
}

/* Names of row numbers and of other things, as nitric oxide. */
static bool is_number_name(const char *name)
{
    static const char *const words[] = { "no", "nr", "number" };
    char lower[NAME_BYTES];

    return lower_name(name, lower) && is_one_of(lower, words, COPSE_COUNT(words));
}

/* Names of identifiers, and of other things, as "house_number" and "price_index". */
static bool is_id_name(const char *name)
{
    char lower[NAME_BYTES];

    return is_key_name(name) || is_number_name(name) ||
           (lower_name(name, lower) && (ends_in(lower, "_index") || ends_in(lower, "_number")));
}

/* Names of times and ages, which may differ in all rows. */
static bool is_time_name(const char *name)
{
    static const char *const words[] = { "year", "yr",     "time",   "t",    "day",
                                         "date", "week",   "month",  "hour", "minute",
                                         "step", "second", "period", "age",  "timestamp" };
    char lower[NAME_BYTES];

    return lower_name(name, lower) && is_one_of(lower, words, COPSE_COUNT(words));
}

/* ---- labels that follow a column ---- */

/* Whether neighbours in the order of the column have the same label far more often than by
   chance. Numbers that are no classes: whether they mostly rise, or fall. */
static bool labels_follow(const struct copse_table_facts *f, const struct copse_table_column *c)
{
    const size_t n = c->missing > 0                        ? 0 /* not in step with the labels */
                     : c->ids.count < f->label_order.count ? c->ids.count
                                                           : f->label_order.count;
    struct pair *pairs = n > 1 ? copse__alloc(f->mem, n, sizeof *pairs) : NULL;
    double *sorted = pairs != NULL ? copse__alloc(f->mem, n, sizeof *sorted) : NULL;
    double same = 0, rises = 0, by_chance = 0;

    for (size_t i = 0; sorted != NULL && i < n; i++) {
        pairs[i] = (struct pair){ c->ids.at[i], f->label_order.at[i] };
        sorted[i] = f->label_order.at[i];
    }
    if (sorted != NULL) {
        qsort(pairs, n, sizeof *pairs, by_pair_number);
        qsort(sorted, n, sizeof *sorted, by_double);
        for (size_t i = 0, run = 1; i < n; i++, run++)
            if (i + 1 == n || sorted[i] != sorted[i + 1]) {
                by_chance += (double)run / (double)n * (double)run / (double)n;
                run = 0;
            }
        for (size_t i = 1; i < n; i++) {
            same += pairs[i].label == pairs[i - 1].label;
            rises += pairs[i].label > pairs[i - 1].label;
        }
        same /= (double)(n - 1);
        rises /= (double)(n - 1);
    }
    copse__free(f->mem, sorted);
    copse__free(f->mem, pairs);
    /* half of the neighbours that chance would make different are equal */
    return n >= ID_ROWS && (same > 0.5 + 0.5 * by_chance || rises > 0.8 || rises + same < 0.2);
}

/* ---- what is done ---- */

static bool is_number_column(const struct copse_table_facts *f, const struct copse_table_column *c)
{
    return c->role == COPSE_COLUMN_NUMBER && c->texts == 0 && c->is_kept &&
           c->numbers + c->missing == f->rows;
}

static bool counts_rows(const struct copse_table_column *c)
{
    return c->counts && (c->first == 0 || c->first == 1);
}

/* "", and "Unnamed: 0", as pandas names it where it reads its own file. */
static bool is_unnamed(const struct copse_table_column *c)
{
    return c->name[0] == 0 || strncmp(c->name, "Unnamed: 0", strlen("Unnamed: 0")) == 0;
}

/* A first column without a name that counts from 0 or 1, as tools write it; with a name, one that
   rises and is named as such columns are: another may be what was measured, in its order. */
static bool is_row_number(const struct copse_table_facts *f, size_t column)
{
    const struct copse_table_column *c = &f->columns[column];

    if (!f->has_header || !is_number_column(f, c) || c->missing > 0)
        return false;
    if (is_unnamed(c))
        return (column == 0 || c->name[0] != 0) && counts_rows(c);
    return f->rows >= ID_ROWS && c->rises &&
           (is_key_name(c->name) || (is_number_name(c->name) && counts_rows(c)));
}

static size_t count_features(const struct copse_table_facts *f)
{
    size_t count = 0;

    for (size_t i = 0; i < f->column_count; i++)
        count += f->columns[i].role == COPSE_COLUMN_NUMBER;
    return count;
}

void copse__table_ignore_row_numbers(struct copse_table_facts *f)
{
    for (size_t i = 0; i < f->column_count && !f->keeps_row_numbers; i++)
        if (is_row_number(f, i) && (is_unnamed(&f->columns[i]) || count_features(f) > 1)) {
            f->columns[i].role = COPSE_COLUMN_IGNORED;
            f->columns[i].is_row_number = true;
        }
}

static void report_row_number(const struct copse_table_facts *f, size_t column)
{
    const struct copse_table_column *c = &f->columns[column];
    char place[COPSE_PLACE_BYTES];

    if (!is_unnamed(c))
        copse__log(f->log, COPSE_LOG_WARN,
                   "csv: %s: it %s%s, so it is left out; to use it: ignore: none (--ignore none)",
                   copse__table_place(f, column, place),
                   c->counts ? "numbers the rows" : "rises from row to row like a row number",
                   labels_follow(f, c) ? ", and the labels are sorted by it" : "");
}

static void warn_of_id(const struct copse_table_facts *f, size_t column)
{
    const struct copse_table_column *c = &f->columns[column];
    char place[COPSE_PLACE_BYTES], position[COPSE_ITEM_BYTES];
    bool differs;

    if (!is_number_column(f, c) || c->numbers < ID_ROWS || !column_differs(f, c, &differs) ||
        !differs)
        return;
    if (count_features(f) == 1) { /* what the table is about, but for the name */
        if (is_id_name(c->name) && !f->keeps_row_numbers)
            copse__log(f->log, COPSE_LOG_WARN,
                       "csv: %s: it looks like an identifier, and it is used because no other "
                       "feature is left: a network learns nothing from it for new rows; add "
                       "columns that describe the rows",
                       copse__table_place(f, column, place));
        return;
    }
    const bool is_dense = c->high - c->low <= ID_RANGE * (double)c->numbers;
    const bool follows = labels_follow(f, c);
    /* Times of rows that were written class by class are far apart, and rise. */
    if (!is_id_name(c->name) && !(is_dense && !is_time_name(c->name)) &&
        !(follows && (is_dense || c->rises)))
        return;
    copse__log(f->log, COPSE_LOG_WARN,
               follows ? "csv: %s: almost every row has another whole number, and the labels are "
                         "sorted by it: if it is an identifier, new rows will be judged far worse "
                         "than the held-out ones; leave the column out (ignore, --ignore %s)"
                       : "csv: %s: almost every row has another whole number; if it is an "
                         "identifier, leave the column out (ignore, --ignore %s)",
               copse__table_place(f, column, place), copse__table_item(f, column, position));
}

void copse__table_report_ids(const struct copse_table_facts *f)
{
    for (size_t i = 0; i < f->column_count; i++)
        if (f->columns[i].is_row_number)
            report_row_number(f, i);
        else
            warn_of_id(f, i);
}
