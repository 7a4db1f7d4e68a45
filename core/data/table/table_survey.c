/* SPDX-License-Identifier: MIT */
/* First pass over a table: header, names, label column, ignored columns, and what the cells of each
   column are. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "core/data/array.h"
#include "core/data/reader/number.h"
#include "core/data/table/table.h"

enum { COMMA_BYTES = 4096 }; /* of a file: looked through for decimal commas */

/* A file during the survey. */
struct survey {
    struct copse_table_facts *facts;
    struct copse_csv *csv;
    struct copse_csv_names names; /* the cells of the first line of the first file */
    size_t names_row;
    bool is_open;  /* whether the first line is a header depends on the other lines */
    size_t *again; /* for each column, whether the cell of the first line occurs again */
};

static copse_status no_memory(const struct survey *v)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory at row %zu", v->csv->path,
                      v->csv->row);
}

/* ---- columns ---- */

/* The column with this name, or SIZE_MAX. */
static copse_status find_name(const struct survey *v, const char *name, size_t *out)
{
    *out = SIZE_MAX;
    for (size_t i = 0; i < v->names.count; i++) {
        if (strcmp(v->names.at[i], name) != 0)
            continue;
        if (*out != SIZE_MAX)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "csv: %s, row %zu: columns %zu and %zu are both named \"%s\"",
                              v->csv->path, v->csv->row, *out + 1, i + 1, name);
        *out = i;
    }
    return COPSE_OK;
}

/* The next item of a list of columns, "a,b": its spaces are cut off; in quotes it may have commas, and
   "" is a quote. Moves *list after it. */
static copse_status next_item(struct survey *v, const char **list, const char **out)
{
    const char *from = *list + strspn(*list, " ");
    const bool is_quoted = *from == '"';
    bool is_open = is_quoted;
    char *item = copse__arena_alloc(&v->facts->arena, strlen(from) + 1, 1);
    size_t n = 0;

    if (item == NULL)
        return no_memory(v);
    for (from += is_quoted; *from != 0 && (is_quoted || *from != ','); from++) {
        if (is_quoted && *from == '"' && *++from != '"') {
            is_open = false;
            break;
        }
        item[n++] = *from;
    }
    while (!is_quoted && n > 0 && item[n - 1] == ' ')
        n--;
    item[n] = 0;
    from += is_quoted ? strspn(from, " ") : 0;
    if (is_open || (*from != 0 && *from != ','))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "csv: in the list of columns, a quote and then a comma must end the name "
                          "\"%.80s\", which begins with a quote",
                          item);
    *list = from + (*from == ',');
    *out = item;
    return COPSE_OK;
}

/* The column that an item of a list means, by its name or its position; SIZE_MAX: none. */
static copse_status find_item(struct survey *v, bool may_be_header, const char *item, size_t *at)
{
    struct copse_table_facts *f = v->facts;
    double number;

    *at = SIZE_MAX;
    if (may_be_header)
        COPSE_TRY(find_name(v, item, at));
    if (*at != SIZE_MAX) {
        v->is_open = false;
        f->has_header = true;
    } else if (copse__number_parse(item, strlen(item), &number) && copse__table_is_whole(number) &&
               number >= 1 && number <= (double)f->column_count) {
        *at = (size_t)number - 1;
    }
    return COPSE_OK;
}

static copse_status take_ignored(struct survey *v, bool may_be_header)
{
    struct copse_table_facts *f = v->facts;
    const char *list = f->params->ignore;
    size_t at;

    while (list != NULL && *list != 0) {
        const char *item;
        COPSE_TRY(next_item(v, &list, &item));
        COPSE_TRY(find_item(v, may_be_header, item, &at));
        if (at != SIZE_MAX)
            f->columns[at].role = COPSE_COLUMN_IGNORED;
        else if (strcmp(item, "none") == 0)
            f->keeps_row_numbers = true;
        else
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "csv: %s has no column \"%s\" to leave out; it has %zu columns%s",
                              v->csv->path, item, f->column_count,
                              may_be_header ? "" : " and no header");
    }
    return COPSE_OK;
}

/* ---- labels ---- */

static copse_status add_label(struct survey *v, size_t at)
{
    struct copse_table_facts *f = v->facts;
    struct copse_table_column *c = &f->columns[at];

    if (c->role != COPSE_COLUMN_NUMBER)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: %s: column %zu is %s", v->csv->path, at + 1,
                          c->role == COPSE_COLUMN_IGNORED ? "left out, so it cannot be the label"
                                                          : "named twice in the list of labels");
    c->role = COPSE_COLUMN_LABEL;
    f->label = COPSE_MIN(f->label, at);
    f->label_count++;
    return COPSE_OK;
}

/* The column with the name `list`, or the columns of a list of names and positions. */
static copse_status take_named_labels(struct survey *v, bool may_be_header, const char *list)
{
    size_t at = SIZE_MAX;

    if (may_be_header)
        COPSE_TRY(find_name(v, list, &at));
    if (at != SIZE_MAX) {
        v->is_open = false;
        v->facts->has_header = true;
        return add_label(v, at);
    }
    const bool is_list = strpbrk(list, ",\"") != NULL;
    do {
        const char *item = list;
        if (is_list) {
            COPSE_TRY(next_item(v, &list, &item));
            COPSE_TRY(find_item(v, may_be_header, item, &at));
        }
        if (at == SIZE_MAX)
            return copse_fail(
                COPSE_ERR_ARGUMENT, "csv: %s has no column named \"%s\" %s; it has %zu columns%s",
                v->csv->path, item, may_be_header ? "in its first row" : "and no header",
                v->facts->column_count,
                is_list ? "; a comma is between the columns of several targets, and "
                          "a name with one is in quotes: '\"a,b\",c'"
                        : "");
        COPSE_TRY(add_label(v, at));
    } while (is_list && *list != 0);
    return COPSE_OK;
}

static copse_status take_label(struct survey *v, bool may_be_header)
{
    struct copse_table_facts *f = v->facts;
    const struct copse_csv_params *p = &f->params->csv;
    size_t last = f->column_count;

    f->label = f->column_count;
    if (f->params->no_labels || f->params->labels != NULL)
        return COPSE_OK;
    if (p->label_name != NULL)
        return take_named_labels(v, may_be_header, p->label_name);
    if (p->label_column > f->column_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: %s has %zu columns, so none with the number %u",
                          v->csv->path, f->column_count, p->label_column);
    if (p->label_column > 0)
        return add_label(v, p->label_column - 1);
    while (last > 0 && f->columns[last - 1].role == COPSE_COLUMN_IGNORED)
        last--;
    return last > 0
               ? add_label(v, last - 1)
               : copse_fail(COPSE_ERR_ARGUMENT, "csv: %s: all columns are left out", v->csv->path);
}

/* ---- names ---- */

/* Names that two columns in use share. */
static copse_status check_names(const struct copse_table_facts *f, const struct survey *v)
{
    struct copse_dictionary seen = { .arena = &v->facts->arena };
    copse_status s = COPSE_OK;

    for (size_t i = 0; s == COPSE_OK && i < f->column_count; i++) {
        const char *name = v->names.at[i];
        if (f->columns[i].role == COPSE_COLUMN_IGNORED)
            continue;
        const struct copse_dictionary_entry *other =
            copse__dictionary_find(&seen, name, strlen(name));
        if (other != NULL)
            s = copse_fail(COPSE_ERR_FORMAT,
                           "csv: %s, row %zu: columns %zu and %zu %s%.80s%s; rename one, or leave "
                           "one out by its "
                           "position (ignore, --ignore)",
                           v->csv->path, v->names_row, other->row, i + 1,
                           name[0] != 0 ? "are both named \"" : "have no name", name,
                           name[0] != 0 ? "\"" : "");
        else if (!copse__dictionary_add(&seen, name, strlen(name), "",
                                        i + 1)) /* its column, in place of a row */
            s = no_memory(v);
    }
    copse__dictionary_fini(&seen);
    return s;
}

static copse_status first_line(struct survey *v, struct copse_cell line)
{
    struct copse_table_facts *f = v->facts;
    bool by_text;

    COPSE_TRY(copse__csv_split(v->csv, line, &f->arena, &v->names));
    v->names_row = v->csv->row;
    f->column_count = v->names.count;
    f->columns = copse__arena_alloc(&f->arena, f->column_count, sizeof *f->columns);
    v->again = copse__arena_alloc(&f->arena, f->column_count, sizeof *v->again);
    if (f->columns == NULL || v->again == NULL)
        return no_memory(v);
    f->has_header = copse__csv_is_header(&v->names, f->params->csv.header, &by_text);
    v->is_open = by_text;
    for (size_t i = 0; i < f->column_count; i++) {
        f->columns[i].words.arena = f->columns[i].digits.arena = &f->arena;
        f->columns[i].name = f->has_header ? v->names.at[i] : "";
    }
    const bool may_be_header = f->has_header;
    COPSE_TRY(take_ignored(v, may_be_header));
    COPSE_TRY(take_label(v, may_be_header));
    if (f->column_count == f->label_count)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has %s only", v->csv->path,
                          f->label_count > 1 ? "label columns" : "a label column");
    return COPSE_OK;
}

/* ---- cells ---- */

static copse_status take_number(struct survey *v, size_t column, const struct copse_cell *cell,
                                double x)
{
    struct copse_table_facts *f = v->facts;
    struct copse_table_column *c = &f->columns[column];

    if (!isfinite((float)x))
        return copse__table_number(v->csv, column, c->name, cell, &x); /* too large */
    c->numbers++;
    const bool has_text = cell->number == NULL; /* else all cells of the column are numbers */
    if (has_text && c->numbers == 1)            /* may be the cell that is no date */
        copse__dates_take(c->dates, cell->text, cell->size, v->csv->path, v->csv->row);
    const double before = x - c->mean;
    c->mean += before / (double)c->numbers; /* Welford */
    c->squares += before * (x - c->mean);
    if (has_text && c->digits.entries.count <= COPSE_FEW &&
        !copse__dictionary_add(&c->digits, cell->text, cell->size, v->csv->path, v->csv->row))
        return no_memory(v);
    if (c->role != COPSE_COLUMN_LABEL) {
        f->largest = fmaxf(f->largest, fabsf((float)x));
        return copse__table_take_id(f, c, x) ? COPSE_OK : no_memory(v);
    }
    if (f->fraction_row == 0 && !copse__table_is_whole(x)) {
        f->fraction_row = v->csv->row;
        f->fraction_path = v->csv->path;
    }
    return (f->label_count > 1 || COPSE_PUSH(f->mem, &f->labels, x)) &&
                   (column != f->label || copse__table_take_label(f, x))
               ? COPSE_OK
               : no_memory(v);
}

static copse_status take_text(struct survey *v, size_t column, const struct copse_cell *cell)
{
    struct copse_table_column *c = &v->facts->columns[column];

    copse_date_order order;
    bool is_guess;
    c->texts++;
    if (c->role != COPSE_COLUMN_LABEL) {
        copse__dates_take(c->dates, cell->text, cell->size, v->csv->path, v->csv->row);
        if (c->words.entries.count > COPSE_CATEGORIES_MAX &&
            copse__dates_most(c->dates, c->texts + c->numbers, &order, &is_guess))
            return COPSE_OK; /* how many different dates there are does not matter */
    }
    c->commas += copse__table_has_comma(cell);
    if (!copse__dictionary_add(&c->words, cell->text, cell->size, v->csv->path, v->csv->row))
        return no_memory(v);
    if (column == v->facts->label &&
        !copse__table_take_label(
            v->facts, (double)(copse__dictionary_find(&c->words, cell->text, cell->size) -
                               c->words.entries.at)))
        return no_memory(v);
    if (c->words.entries.count <= COPSE_CATEGORIES_MAX ||
        copse__dates_most(c->dates, c->texts + c->numbers, &order, &is_guess))
        return COPSE_OK;
    const char *what = copse__table_looks_like(&c->words, c->role == COPSE_COLUMN_LABEL);
    return copse__table_fail(
        COPSE_ERR_FORMAT, v->csv->path, v->csv->row, column, c->name,
        "the column has more than %u different texts: these are %s", COPSE_CATEGORIES_MAX,
        what != NULL                    ? what
        : c->role == COPSE_COLUMN_LABEL ? "no classes; is another column the label?"
                                        : "no categories; leave the column out (ignore, --ignore)");
}

static copse_status take_cell(struct survey *v, size_t column, const struct copse_cell *cell)
{
    struct copse_table_facts *f = v->facts;
    struct copse_table_column *c = &f->columns[column];
    copse_date_order order;
    bool is_guess;
    double x = 0;

    if (c->role == COPSE_COLUMN_IGNORED)
        return COPSE_OK;
    if (copse__cell_number(cell, &x))
        return take_number(v, column, cell, x);
    if (!copse__table_is_missing(cell))
        return take_text(v, column, cell);
    c->missing++;
    if (f->params->missing != COPSE_MISSING_MEAN && c->role != COPSE_COLUMN_LABEL &&
        copse__dates_most(c->dates, c->texts + c->numbers, &order, &is_guess) &&
        c->dates[order].odd.row > 0) /* who fills this one in would meet the other next */
        return copse__table_fail_date(column, c, order);
    return c->role == COPSE_COLUMN_LABEL || f->params->missing != COPSE_MISSING_MEAN
               ? copse__table_fail_missing(v->csv, column, c->name, cell,
                                           c->role == COPSE_COLUMN_LABEL, false)
               : COPSE_OK;
}

static bool has_comma(const char *text, size_t size)
{
    bool is_any = false;

    for (size_t i = 1; i + 1 < size; i++)
        is_any |= text[i] == ',' && isdigit((unsigned char)text[i - 1]) &&
                  isdigit((unsigned char)text[i + 1]);
    return is_any;
}

/* Whether a cell so far has a decimal comma, or one of the rest of this line or of the next lines
   in memory. */
static bool has_commas(const struct survey *v, const struct copse_cell *rest)
{
    const struct copse_csv *c = v->csv;
    bool is_any = false;

    for (size_t i = 0; i < v->facts->column_count; i++)
        is_any |= v->facts->columns[i].commas > 0;
    return is_any || (c->cells == NULL && c->delimiter != ',' &&
                      (has_comma(rest->text, rest->size) ||
                       has_comma(c->bytes + c->at, COPSE_MIN(c->have - c->at, COMMA_BYTES))));
}

/* Who fills a cell in would meet the commas next. */
static copse_status note_commas(const struct survey *v, const struct copse_cell *rest,
                                copse_status s)
{
    return has_commas(v, rest)
               ? copse_note(s, "and numbers of the table have a decimal comma: write them with '.'")
               : s;
}

static copse_status take_row(struct survey *v, struct copse_cell rest)
{
    struct copse_table_facts *f = v->facts;
    struct copse_cell cell;
    size_t column = 0;
    bool more = true;

    for (; more && column < f->column_count; column++) {
        COPSE_TRY(copse__csv_cell(v->csv, column, &rest, &cell, &more));
        const size_t missing = f->columns[column].missing;
        const copse_status s = take_cell(v, column, &cell);
        if (s != COPSE_OK)
            return f->columns[column].missing > missing ? note_commas(v, &rest, s) : s;
        if (v->is_open)
            v->again[column] |= strlen(v->names.at[column]) == cell.size &&
                                memcmp(v->names.at[column], cell.text, cell.size) == 0;
    }
    if (column != f->column_count || more)
        return copse__csv_wrong_length(v->csv, more, f->column_count);
    f->rows++;
    return COPSE_OK;
}

/* The first line is data after all: none of its cells is a number. */
static copse_status take_first_line(struct survey *v)
{
    struct copse_table_facts *f = v->facts;
    const size_t row = v->csv->row;
    copse_status s = COPSE_OK;

    f->has_header = v->is_open = false;
    for (size_t i = 0; i < f->column_count; i++)
        f->columns[i].name = "";
    v->csv->row = v->names_row;
    for (size_t i = 0; s == COPSE_OK && i < f->column_count; i++) {
        const struct copse_cell cell = copse__cell_of(v->names.at[i]);
        s = take_cell(v, i, &cell);
    }
    v->csv->row = row;
    f->rows++;
    return s;
}

/* Most cells of the first line occur again in their columns: it is no header. */
static bool is_data(const struct survey *v)
{
    size_t again = 0;

    for (size_t i = 0; i < v->facts->column_count; i++)
        again += v->again[i];
    return 2 * again > v->facts->column_count;
}

/* ---- files ---- */

/* The header of a later file is that of the first. */
static copse_status check_header(const struct survey *v, struct copse_cell line)
{
    struct copse_csv_names names;

    COPSE_TRY(copse__csv_split(v->csv, line, &v->facts->arena, &names));
    bool is_same = names.count == v->names.count;
    for (size_t i = 0; is_same && i < names.count; i++)
        is_same = strcmp(names.at[i], v->names.at[i]) == 0;
    return is_same ? COPSE_OK
                   : copse_fail(COPSE_ERR_FORMAT,
                                "csv: %s, row %zu: the header differs from that of %s",
                                v->csv->path, v->csv->row, v->facts->path);
}

static copse_status survey_lines(struct survey *v, bool is_first_file)
{
    struct copse_cell line;
    bool has, is_first = true;

    for (;; is_first = false) {
        COPSE_TRY(copse__csv_next(v->csv, &line, &has));
        if (!has)
            return COPSE_OK;
        if (is_first && is_first_file)
            COPSE_TRY(first_line(v, line));
        if (is_first && v->facts->has_header) {
            if (!is_first_file)
                COPSE_TRY(check_header(v, line));
            continue;
        }
        COPSE_TRY(take_row(v, line));
    }
}

static copse_status survey_part(struct survey *v, const struct copse_table_source *from,
                                size_t part)
{
    struct copse_table_facts *f = v->facts;
    struct copse_csv csv;
    v->csv = &csv;

    copse_status s = copse__table_open(&csv, f->mem, from, part);
    if (s == COPSE_OK)
        s = survey_lines(v, part == 0);
    if (s == COPSE_OK && v->is_open && is_data(v))
        s = take_first_line(v);
    if ((s == COPSE_ERR_FORMAT || s == COPSE_ERR_ARGUMENT) && f->rows == 0)
        s = copse__csv_note_comment(&csv, s);
    copse__csv_close(&csv);
    v->csv = NULL;
    return s;
}

copse_status copse__table_survey(struct copse_table_facts *f, copse_context *ctx,
                                 const struct copse_table_source *from)
{
    struct survey v = { .facts = f };

    *f = (struct copse_table_facts){ .mem = &copse__base(ctx)->mem,
                                     .log = &copse__base(ctx)->log,
                                     .params = from->params,
                                     .path = from->paths[0] };
    f->arena.mem = f->mem;
    COPSE_TRY(copse__csv_check(&from->params->csv, true));
    for (size_t i = 0; i < from->count; i++) {
        COPSE_TRY(survey_part(&v, from, i));
        v.is_open = false; /* a later file agrees with the first */
    }
    if (f->rows == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has no rows of data", f->path);
    if (f->rows > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "csv: %s has more than 2^32-1 rows", f->path);
    copse__table_ignore_row_numbers(f);
    struct copse_csv end = { .path = f->path, .row = 1 };
    v.csv = &end;
    return f->has_header ? check_names(f, &v) : COPSE_OK;
}

void copse__table_facts_fini(struct copse_table_facts *f)
{
    for (size_t i = 0; i < f->column_count && f->columns != NULL; i++) {
        copse__dictionary_fini(&f->columns[i].words);
        copse__dictionary_fini(&f->columns[i].digits);
        copse__free(f->mem, f->columns[i].ids.at);
    }
    if (f->mem != NULL) {
        copse__free(f->mem, f->labels.at);
        copse__free(f->mem, f->label_order.at);
    }
    copse__arena_fini(&f->arena);
}
