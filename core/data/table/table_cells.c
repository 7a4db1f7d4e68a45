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

copse_status copse__table_fail(copse_status code, const char *path, size_t row, size_t column,
                               const char *name, const char *fmt, ...)
{
    char text[600];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const struct copse_cell title = { (char *)(uintptr_t)name, strlen(name) };
    if (title.size == 0)
        return copse_fail(code, "csv: %s, row %zu, column %zu: %s", path, row, column + 1, text);
    return copse_fail(code, "csv: %s, row %zu, column %zu (\"%.*s\"): %s", path, row, column + 1,
                      copse__csv_shown(&title), name, text);
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
        is_label       ? "every row needs a label"
        : is_by_schema ? "fill it in, or let the column's mean replace it (--missing mean)"
                       : "fill it in, leave the column out (--ignore), or let the mean replace it "
                         "(--missing mean)");
}

copse_status copse__table_number(const struct copse_csv *c, size_t column, const char *name,
                                 const struct copse_cell *cell, double *out)
{
    if (!copse__number_parse(cell->text, cell->size, out))
        return copse__csv_note_delimiter(c, cell,
                                         copse__table_fail(COPSE_ERR_FORMAT, c->path, c->row,
                                                           column, name, "\"%.*s\" is not a number",
                                                           copse__csv_shown(cell), cell->text));
    if (!isfinite((float)*out))
        return copse__table_fail(COPSE_ERR_FORMAT, c->path, c->row, column, name,
                                 "%.*s is too large", copse__csv_shown(cell), cell->text);
    return COPSE_OK;
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
    if (cells->cells == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "cells: `cells` is NULL");
    if (cells->columns == 0 || cells->rows == 0 || cells->rows > UINT32_MAX ||
        !copse__mul(cells->rows, cells->columns, &all))
        return copse_fail(COPSE_ERR_SHAPE,
                          "cells: %zu rows of %zu columns; 1 to 2^32-1 rows and at least 1 column "
                          "are needed",
                          cells->rows, cells->columns);
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
