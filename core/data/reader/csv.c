/* SPDX-License-Identifier: MIT */
/* CSV files of numbers, read line by line; the label column is stored separately. */
#include <math.h>

#include "copse/data.h"
#include "copse/data/readers.h"
#include "core/data/array.h"
#include "core/data/reader/csv_lines.h"
#include "core/data/reader/number.h"

struct csv {
    struct copse_csv lines;
    struct copse_arena arena; /* cells of the first line */
    size_t columns;           /* 0 before the first line */
    size_t label;             /* column from 0; == columns if there is none */
    size_t rows;              /* complete rows of data */
    struct {
        float *at;
        size_t count, room;
    } features;
    struct {
        int32_t *at;
        size_t count, room;
    } labels;
};

static copse_status no_memory(const struct csv *c)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory at row %zu", c->lines.path,
                      c->lines.row);
}

static copse_status take_number(const struct csv *c, size_t column, const struct copse_cell *cell,
                                double *out)
{
    if (cell->size == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu, column %zu: the cell is empty",
                          c->lines.path, c->lines.row, column + 1);
    if (!copse__number_parse(cell->text, cell->size, out))
        return copse__csv_note_delimiter(
            &c->lines, cell,
            copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu, column %zu: \"%.*s\" is not a number",
                       c->lines.path, c->lines.row, column + 1, copse__csv_shown(cell),
                       cell->text));
    if (!isfinite((float)*out))
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu, column %zu: %.*s is too large",
                          c->lines.path, c->lines.row, column + 1, copse__csv_shown(cell),
                          cell->text);
    return COPSE_OK;
}

static copse_status take_label(struct csv *c, size_t column, const struct copse_cell *cell,
                               uint32_t classes)
{
    double v = 0;

    const bool is_number = copse__number_parse(cell->text, cell->size, &v);
    if (cell->size == 0)
        return take_number(c, column, cell, &v);
    if (!is_number || v < 0 || v > INT32_MAX || v != floor(v))
        return copse__csv_note_delimiter(
            &c->lines, cell,
            copse_fail(COPSE_ERR_FORMAT,
                       "csv: %s, row %zu, column %zu: the label %s%.*s%s is not a class (a whole "
                       "number from 0)",
                       c->lines.path, c->lines.row, column + 1, is_number ? "" : "\"",
                       copse__csv_shown(cell), cell->text, is_number ? "" : "\""));
    if (classes != 0 && v >= classes)
        return copse_fail(COPSE_ERR_FORMAT,
                          "csv: %s, row %zu, column %zu: the label %.*s is out of range, there are "
                          "%u classes (0 to %u)",
                          c->lines.path, c->lines.row, column + 1, copse__csv_shown(cell),
                          cell->text, classes, classes - 1);
    return COPSE_PUSH(c->lines.mem, &c->labels, (int32_t)v) ? COPSE_OK : no_memory(c);
}

static copse_status take_row(struct csv *c, struct copse_cell rest, uint32_t classes)
{
    struct copse_cell cell;
    size_t column = 0;
    bool more = true;

    for (; more && column < c->columns; column++) {
        double v;
        COPSE_TRY(copse__csv_cell(&c->lines, column, &rest, &cell, &more));
        if (column == c->label) {
            COPSE_TRY(take_label(c, column, &cell, classes));
            continue;
        }
        COPSE_TRY(take_number(c, column, &cell, &v));
        if (!COPSE_PUSH(c->lines.mem, &c->features, (float)v))
            return no_memory(c);
    }
    if (column != c->columns || more)
        return copse__csv_wrong_length(&c->lines, more, c->columns);
    c->rows++;
    return COPSE_OK;
}

/* Find columns and label column from the first line; *is_header is true if the line has no data. */
static copse_status first_line(struct csv *c, struct copse_cell line,
                               const struct copse_csv_params *p, bool want_labels, bool *is_header)
{
    struct copse_csv_names names;
    size_t named = SIZE_MAX;
    bool by_text;

    COPSE_TRY(copse__csv_split(&c->lines, line, &c->arena, &names));
    c->columns = names.count;
    *is_header = copse__csv_is_header(&names, p->header, &by_text);
    c->label = c->columns;
    if (!want_labels)
        return COPSE_OK;
    for (size_t i = 0; p->label_name != NULL && i < names.count; i++)
        if (strcmp(p->label_name, names.at[i]) == 0) {
            if (named != SIZE_MAX)
                return copse_fail(COPSE_ERR_ARGUMENT, "csv: %s has two columns \"%s\"",
                                  c->lines.path, p->label_name);
            named = i;
        }
    if (p->label_name != NULL) {
        if (named == SIZE_MAX || !*is_header)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "csv: %s has no column named \"%s\" in its first row", c->lines.path,
                              p->label_name);
        c->label = named;
        return COPSE_OK;
    }
    if (p->label_column > c->columns)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: %s has %zu columns, so none with the number %u",
                          c->lines.path, c->columns, p->label_column);
    c->label = (p->label_column == 0 ? c->columns : p->label_column) - 1;
    return COPSE_OK;
}

static copse_status read_csv(copse_context *ctx, struct csv *c, const struct copse_csv_params *p,
                             copse_array **features, copse_array **labels)
{
    bool has, is_header = false;
    struct copse_cell line;

    for (;;) {
        COPSE_TRY(copse__csv_next(&c->lines, &line, &has));
        if (!has)
            break;
        if (c->columns == 0) {
            COPSE_TRY(first_line(c, line, p, labels != NULL, &is_header));
            if (is_header)
                continue;
        }
        COPSE_TRY(take_row(c, line, p->classes));
    }
    if (c->rows == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has no rows of data", c->lines.path);
    size_t shape[2] = { c->rows, c->columns - (c->label < c->columns) };
    if (shape[1] == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has a label column only", c->lines.path);
    float *fitted = copse__resize(c->lines.mem, c->features.at, c->features.count, sizeof *fitted);
    if (fitted != NULL)
        c->features.at = fitted;
    COPSE_TRY(copse__array_create(ctx, COPSE_F32, 2, shape, c->features.at, features));
    c->features.at = NULL;
    if (labels == NULL)
        return COPSE_OK;
    COPSE_TRY(copse__array_create(ctx, COPSE_I32, 1, shape, c->labels.at, labels));
    c->labels.at = NULL;
    return COPSE_OK;
}

copse_status copse_read_csv(copse_context *ctx, const char *path,
                            const struct copse_csv_params *params, copse_array **features,
                            copse_array **labels)
{
    COPSE_TRY(copse_need("csv", ctx, path, features));
    COPSE_TRY(copse_no_reserved(copse_csv_params, params));
    static const struct copse_csv_params defaults = { 0 };
    const struct copse_csv_params *p = params != NULL ? params : &defaults;
    struct copse_mem *mem = &copse__base(ctx)->mem;
    struct csv c = { .arena = { .mem = mem } };

    *features = NULL;
    if (labels != NULL)
        *labels = NULL;
    COPSE_TRY(copse__csv_check(p, false));
    copse_status s = copse__csv_open(&c.lines, mem, path, p->max_bytes, p->delimiter);
    if (s == COPSE_OK)
        s = read_csv(ctx, &c, p, features, labels);
    if ((s == COPSE_ERR_FORMAT || s == COPSE_ERR_ARGUMENT) && c.rows == 0)
        s = copse__csv_note_comment(&c.lines, s);
    copse__csv_close(&c.lines);
    copse__arena_fini(&c.arena);
    copse__free(mem, c.features.at);
    copse__free(mem, c.labels.at);
    if (s != COPSE_OK) {
        copse_array_release(features);
        if (labels != NULL)
            copse_array_release(labels);
    }
    return s;
}
