/* SPDX-License-Identifier: MIT */
/* Single cells of a table: missing ones, numbers, and error texts with file, row and column. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "core/data/reader/number.h"
#include "core/data/table/table.h"

bool copse__table_is_missing(const struct copse_cell *cell)
{
    static const char *const words[] = { "na", "n/a", "nan", "null", "?" };

    if (cell->number != NULL)
        return isnan(*cell->number);
    for (size_t i = 0; i < COPSE_COUNT(words); i++) {
        size_t n = 0;
        while (n < cell->size && tolower((unsigned char)cell->text[n]) == words[i][n])
            n++;
        if (n == cell->size && words[i][n] == 0)
            return true;
    }
    return cell->size == 0;
}

bool copse__table_is_whole(double v)
{
    return v == floor(v) && fabs(v) <= 1e15;
}

bool copse__table_has_comma(const struct copse_cell *cell)
{
    char text[64];
    double v;

    if (cell->size >= sizeof text || memchr(cell->text, ',', cell->size) == NULL)
        return false;
    for (size_t i = 0; i < cell->size; i++)
        text[i] = cell->text[i] == ',' ? '.' : cell->text[i];
    return copse__number_parse(text, cell->size, &v);
}

/* ---- texts that are written numbers or dates ---- */

static bool is_amount(const char *text, size_t size)
{
    char plain[64];
    size_t n = 0;
    double v;

    for (size_t i = 0; i < size && n < sizeof plain; i++)
        if (text[i] != ',' && text[i] != ' ')
            plain[n++] = text[i];
    return n > 0 && n < sizeof plain && copse__number_parse(plain, n, &v);
}

static bool is_percent(const char *text, size_t size)
{
    return size > 1 && text[size - 1] == '%' && is_amount(text, size - 1);
}

static bool is_currency(const char *text, size_t size)
{
    static const char *const signs[] = { "$", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5",
                                         "\xe2\x82\xb9" };

    if (size > 1 && text[0] == '-') /* -$5 */
        text++, size--;
    for (size_t i = 0; i < COPSE_COUNT(signs); i++) {
        const size_t n = strlen(signs[i]);
        if (size > n && ((memcmp(text, signs[i], n) == 0 && is_amount(text + n, size - n)) ||
                         (memcmp(text + size - n, signs[i], n) == 0 && is_amount(text, size - n))))
            return true;
    }
    return false;
}

static bool is_separated(const char *text, size_t size)
{
    return memchr(text, ',', size) != NULL && is_amount(text, size);
}

/* Three numbers with one of - / . between them, one of four digits or all of two; a time may
   follow. */
static bool is_date(const char *text, size_t size)
{
    size_t at = 0, fours = 0, twos = 0;
    char between = 0;

    for (int part = 0; part < 3; part++) {
        size_t digits = 0;
        while (at < size && isdigit((unsigned char)text[at]))
            at++, digits++;
        if (digits == 0 || digits == 3 || digits > 4)
            return false;
        fours += digits == 4;
        twos += digits == 2;
        if (part == 2)
            break;
        if (at == size || strchr("-/.", text[at]) == NULL || (between != 0 && text[at] != between))
            return false;
        between = text[at++];
    }
    if (fours != 1 && twos != 3)
        return false;
    return at == size || ((text[at] == ' ' || text[at] == 'T') &&
                          strspn(text + at + 1, "0123456789:.+-Z ") == size - at - 1);
}

const char *copse__table_looks_like(const struct copse_dictionary *words, bool is_label)
{
    static const struct {
        bool (*is)(const char *text, size_t size);
        const char *what;
    } kinds[] = {
        { is_percent, "numbers with '%'; without the sign the column is one number" },
        { is_currency, "amounts of money; without the sign the column is one number" },
        { is_separated, "numbers with a decimal comma or separators; with '.' alone the column is "
                        "one number" },
        { is_date,
          "dates; write all of them as 2024-12-31, and they become year, month, day and weekday, "
          "or leave the column out (ignore, --ignore)" },
    };

    for (size_t k = 0; k < COPSE_COUNT(kinds); k++) {
        size_t i = 0;
        while (i < words->entries.count &&
               kinds[k].is(words->entries.at[i].text, words->entries.at[i].size))
            i++;
        if (i > 0 && i == words->entries.count)
            return kinds[k].is == is_date && is_label
                       ? "dates, and a date cannot be the label; is another column the label "
                         "(label, --label)?"
                       : kinds[k].what;
    }
    return NULL;
}

/* ---- error texts ---- */

copse_status copse__table_fail(copse_status code, const char *path, size_t row, size_t column,
                               const char *name, const char *fmt, ...)
{
    char text[600];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const struct copse_cell title = copse__cell_of(name);
    if (title.size == 0)
        return copse_fail(code, "csv: %s, row %zu, column %zu: %s", path, row, column + 1, text);
    return copse_fail(code, "csv: %s, row %zu, column %zu (\"%.*s\"): %s", path, row, column + 1,
                      copse__csv_shown(&title), name, text);
}

copse_status copse__table_fail_date(size_t column, const struct copse_table_column *c,
                                    copse_date_order order)
{
    const struct copse_date_odd *odd = &c->dates[order].odd;
    const struct copse_cell cell = copse__cell_of(odd->text);

    return copse__table_fail(
        COPSE_ERR_FORMAT, odd->path, odd->row, column, c->name,
        "\"%.*s\" is %s; nearly all cells of the column are dates as %s: correct it, leave the "
        "column out (ignore, --ignore), or let the mean replace it (missing: mean, --missing mean)",
        copse__csv_shown(&cell), odd->text, copse__date_fault(odd->text, cell.size, order),
        copse__date_form(order, c->dates[order].has_time));
}

copse_status copse__table_fail_missing(const struct copse_csv *c, size_t column, const char *name,
                                       const struct copse_cell *cell, bool is_label,
                                       bool is_by_schema)
{
    char what[80] = "the cell is empty";

    if (cell->size > 0)
        snprintf(what, sizeof what, "\"%.*s\" means a missing value", copse__csv_shown(cell),
                 cell->text);
    return copse__table_fail(
        COPSE_ERR_FORMAT, c->path, c->row, column, name, "%s; %s", what,
        is_label ? "every row needs a label"
        : is_by_schema
            ? "fill it in, or let the column's mean replace it (missing: mean, --missing mean)"
            : "fill it in, leave the column out (ignore, --ignore), or let the mean replace it "
              "(missing: mean, --missing mean)");
}

copse_status copse__table_number(const struct copse_csv *c, size_t column, const char *name,
                                 const struct copse_cell *cell, double *out)
{
    char room[COPSE_NUMBER_TEXT];

    if (!copse__cell_number(cell, out))
        return copse__csv_note_delimiter(c, cell,
                                         copse__table_fail(COPSE_ERR_FORMAT, c->path, c->row,
                                                           column, name, "\"%.*s\" is not a number",
                                                           copse__csv_shown(cell), cell->text));
    if (isfinite((float)*out))
        return COPSE_OK;
    const struct copse_cell shown = copse__cell_with_text(cell, room);
    return copse__table_fail(COPSE_ERR_FORMAT, c->path, c->row, column, name, "%.*s is too large",
                             copse__csv_shown(&shown), shown.text);
}

copse_status copse__table_open(struct copse_csv *csv, struct copse_mem *mem,
                               const struct copse_table_source *from, size_t part)
{
    const struct copse_dataset_params *p = from->params;

    if (from->cells == NULL)
        return copse__csv_open(csv, mem, from->paths[part], p->max_bytes, p->csv.delimiter);
    copse__csv_open_cells(csv, mem, from->paths[part], from->cells);
    return COPSE_OK;
}

copse_status copse__cells_check(const struct copse_cells *cells)
{
    size_t all;

    COPSE_TRY(copse_no_reserved(copse_cells, cells));
    if (cells->columns == 0 || cells->rows == 0 || cells->rows > UINT32_MAX ||
        !copse__mul(cells->rows, cells->columns, &all))
        return copse_fail(COPSE_ERR_SHAPE,
                          "cells: %zu rows of %zu columns; 1 to 2^32-1 rows and at least 1 column "
                          "are needed",
                          cells->rows, cells->columns);
    for (size_t i = 0; cells->cells == NULL && i < cells->columns; i++)
        if (cells->numbers == NULL || cells->numbers[i] == NULL)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "cells: `cells` is NULL, and column %zu has no `numbers`", i + 1);
    for (size_t i = 0; cells->names != NULL && i < cells->columns; i++)
        if (cells->names[i] == NULL)
            return copse_fail(COPSE_ERR_ARGUMENT, "cells: column %zu has no name, it is NULL",
                              i + 1);
    return COPSE_OK;
}

copse_status copse__table_check_policy(copse_missing missing, copse_unknown unknown)
{
    COPSE_TRY(
        copse_need_known("dataset", "treatment of missing cells", missing, COPSE_MISSING_MEAN));
    return copse_need_known("dataset", "treatment of unknown categories", unknown,
                            COPSE_UNKNOWN_REFUSE);
}
