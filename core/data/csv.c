/* SPDX-License-Identifier: MIT */
/* CSV files of numbers, read line by line; the label column is stored separately. */
#include <math.h>

#include "copse/data.h"
#include "copse/data/readers.h"
#include "core/data/array.h"
#include "core/data/input.h"
#include "core/data/number.h"

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define READ_BYTES     ((size_t)64 << 10)
#define CELL_SHOWN     32 /* characters of a wrong cell in an error text */
#define NUMBERED_MIN   3  /* columns; fewer consecutive numbers are more likely data than a header */

static const char delimiters[] = ",;\t|"; /* in the order of the search */

struct csv {
    struct copse_mem *mem;
    const char *path;
    struct copse_input in;
    char delimiter;         /* 0 until it is known */
    size_t row;             /* line number, from 1 */
    bool begins_as_comment; /* with a '#' */

    char *bytes; /* read but not yet split: at..have */
    size_t at, have;
    uint64_t offset; /* of the line in the file's payload */
    struct {
        char *at;
        size_t count, room;
    } line;

    size_t columns; /* 0 before the first line */
    size_t label;   /* column from 0; == columns if there is none */
    size_t rows;    /* complete rows of data */
    struct {
        float *at;
        size_t count, room;
    } features;
    struct {
        int32_t *at;
        size_t count, room;
    } labels;
};

struct cell {
    char *text;
    size_t size;
};

static copse_status no_memory(const struct csv *c)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory at row %zu", c->path, c->row);
}

/* Read the next line without its end into c->line, NUL-terminated; *has is false at the end of the file. */
static copse_status next_line(struct csv *c, bool *has)
{
    bool is_whole = false;

    c->offset += c->line.count;
    c->line.count = 0;
    *has = false;
    while (!is_whole) {
        if (c->at == c->have) {
            c->at = 0;
            COPSE_TRY(copse__input_read(&c->in, c->bytes, READ_BYTES, &c->have));
            if (c->have == 0)
                break;
        }
        *has = true;
        const char *start = c->bytes + c->at;
        const char *end = memchr(start, '\n', c->have - c->at);
        size_t n = end != NULL ? (size_t)(end - start) + 1 : c->have - c->at;
        if (c->line.count + n > LINE_MAX_BYTES)
            return copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu: the line is longer than 1 MiB",
                              c->path, c->row + 1);
        if (!COPSE_RESERVE(c->mem, &c->line, c->line.count + n + 1))
            return no_memory(c);
        memcpy(c->line.at + c->line.count, start, n);
        c->line.count += n;
        c->at += n;
        is_whole = end != NULL;
    }
    if (!*has)
        return COPSE_OK;
    c->row++;
    size_t valid = copse__utf8_valid(c->line.at, c->line.count);
    if (valid < c->line.count)
        return copse_note(
            copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu: %s at byte %llu of the file", c->path,
                       c->row, c->line.at[valid] == 0 ? "a NUL" : "invalid UTF-8",
                       (unsigned long long)(c->offset + valid)),
            "CSV is text in UTF-8, other files are IDX or .npy, any of them plain or gzip");
    return COPSE_OK;
}

/* The text of the line without end of line, byte order mark and surrounding blanks. */
static struct cell line_text(const struct csv *c)
{
    struct cell t = { c->line.at, c->line.count };

    while (t.size > 0 && (t.text[t.size - 1] == '\n' || t.text[t.size - 1] == '\r'))
        t.size--;
    if (c->row == 1 && t.size >= 3 && memcmp(t.text, "\xef\xbb\xbf", 3) == 0) {
        t.text += 3;
        t.size -= 3;
    }
    return t;
}

static bool is_blank(const struct csv *c, char b)
{
    return (b == ' ' || b == '\t') && b != c->delimiter;
}

static void trim(const struct csv *c, struct cell *t)
{
    while (t->size > 0 && is_blank(c, t->text[t->size - 1]))
        t->size--;
    while (t->size > 0 && is_blank(c, t->text[0])) {
        t->text++;
        t->size--;
    }
}

/* The first of `delimiters` that occurs outside quotes in the first line, otherwise a comma. */
static char find_delimiter(const struct cell *line)
{
    bool found[sizeof delimiters] = { false }, is_quoted = false, is_start = true;

    for (size_t i = 0; i < line->size; i++) {
        char b = line->text[i];
        if (b == '"' && (is_quoted || is_start)) {
            is_quoted = !is_quoted; /* a doubled quote toggles twice */
        } else if (!is_quoted) {
            const char *d = strchr(delimiters, b);
            if (d != NULL)
                found[d - delimiters] = true;
            is_start = d != NULL || (is_start && b == ' ');
        }
    }
    for (size_t i = 0; delimiters[i] != 0; i++)
        if (found[i])
            return delimiters[i];
    return delimiters[0];
}

/* Remove the next cell from `rest`; *more is true if a delimiter followed. Quotes are removed in place. */
static copse_status next_cell(const struct csv *c, size_t column, struct cell *rest,
                              struct cell *cell, bool *more)
{
    char *p = rest->text, *end = p + rest->size;

    while (p < end && is_blank(c, *p))
        p++;
    if (p < end && *p == '"') {
        char *to = ++p;
        cell->text = to;
        while (p < end && (*p != '"' || (p + 1 < end && p[1] == '"'))) {
            p += *p == '"';
            *to++ = *p++;
        }
        cell->size = (size_t)(to - cell->text);
        if (p == end)
            return copse_fail(COPSE_ERR_FORMAT,
                              "csv: %s, row %zu, column %zu: the quote is not closed", c->path,
                              c->row, column + 1);
        p++;
        while (p < end && is_blank(c, *p))
            p++;
        if (p < end && *p != c->delimiter)
            return copse_fail(COPSE_ERR_FORMAT,
                              "csv: %s, row %zu, column %zu: text after the quote", c->path, c->row,
                              column + 1);
    } else {
        cell->text = p;
        while (p < end && *p != c->delimiter)
            p++;
        cell->size = (size_t)(p - cell->text);
        trim(c, cell);
    }
    *more = p < end;
    rest->text = p + *more;
    rest->size = (size_t)(end - rest->text);
    return COPSE_OK;
}

/* The first characters of a wrong cell, for a message; never cuts a character. */
static int shown(const struct cell *t)
{
    size_t n = COPSE_MIN(t->size, (size_t)CELL_SHOWN);

    while (n < t->size && n > 0 && ((unsigned char)t->text[n] & 0xc0) == 0x80)
        n--;
    return (int)n;
}

/* Add a hint to an error text: a wrong cell contains a character that may be the real delimiter. */
static copse_status note_delimiter(const struct csv *c, const struct cell *cell, copse_status s)
{
    static const char *const names[] = { "','", "';'", "a tab", "'|'" };
    const char *name = names[strchr(delimiters, c->delimiter) - delimiters];

    for (size_t i = 0; i < COPSE_COUNT(names); i++)
        if (delimiters[i] != c->delimiter && memchr(cell->text, delimiters[i], cell->size) != NULL)
            return copse_note(s, "cells are split at %s; is %s the delimiter%s?", name, names[i],
                              delimiters[i] == ',' ? ", or a decimal comma" : "");
    return s;
}

static copse_status take_number(const struct csv *c, size_t column, const struct cell *cell,
                                double *out)
{
    if (cell->size == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu, column %zu: the cell is empty",
                          c->path, c->row, column + 1);
    if (!copse__number_parse(cell->text, cell->size, out))
        return note_delimiter(c, cell,
                              copse_fail(COPSE_ERR_FORMAT,
                                         "csv: %s, row %zu, column %zu: \"%.*s\" is not a number",
                                         c->path, c->row, column + 1, shown(cell), cell->text));
    if (!isfinite((float)*out))
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu, column %zu: %.*s is too large",
                          c->path, c->row, column + 1, shown(cell), cell->text);
    return COPSE_OK;
}

static copse_status take_label(struct csv *c, size_t column, const struct cell *cell,
                               uint32_t classes)
{
    double v = 0;

    const bool is_number = copse__number_parse(cell->text, cell->size, &v);
    if (cell->size == 0)
        return take_number(c, column, cell, &v);
    if (!is_number || v < 0 || v > INT32_MAX || v != floor(v))
        return note_delimiter(
            c, cell,
            copse_fail(COPSE_ERR_FORMAT,
                       "csv: %s, row %zu, column %zu: the label %s%.*s%s is not a class (a whole "
                       "number from 0)",
                       c->path, c->row, column + 1, is_number ? "" : "\"", shown(cell), cell->text,
                       is_number ? "" : "\""));
    if (classes != 0 && v >= classes)
        return copse_fail(COPSE_ERR_FORMAT,
                          "csv: %s, row %zu, column %zu: the label %.*s is out of range, there are "
                          "%u classes (0 to %u)",
                          c->path, c->row, column + 1, shown(cell), cell->text, classes,
                          classes - 1);
    return COPSE_PUSH(c->mem, &c->labels, (int32_t)v) ? COPSE_OK : no_memory(c);
}

static copse_status take_row(struct csv *c, uint32_t classes)
{
    struct cell rest = line_text(c), cell;
    size_t column = 0;
    bool more = true;

    for (; more && column < c->columns; column++) {
        double v;
        COPSE_TRY(next_cell(c, column, &rest, &cell, &more));
        if (column == c->label) {
            COPSE_TRY(take_label(c, column, &cell, classes));
            continue;
        }
        COPSE_TRY(take_number(c, column, &cell, &v));
        if (!COPSE_PUSH(c->mem, &c->features, (float)v))
            return no_memory(c);
    }
    if (column != c->columns || more)
        return copse_fail(COPSE_ERR_FORMAT,
                          "csv: %s, row %zu: %s than the %zu columns of the first row", c->path,
                          c->row, more ? "more cells" : "fewer cells", c->columns);
    c->rows++;
    return COPSE_OK;
}

/* Whether the cell is exactly the whole number `n`. */
static bool is_count(const struct cell *cell, size_t n)
{
    char digits[24];

    int size = snprintf(digits, sizeof digits, "%zu", n);
    return cell->size == (size_t)size && memcmp(cell->text, digits, cell->size) == 0;
}

/* Find columns and label column from the first line; *is_header is true if the line has no data. */
static copse_status first_line(struct csv *c, const struct copse_csv_params *p, bool want_labels,
                               bool *is_header)
{
    /* Splitting removes quotes in place, so the first pass uses a copy of the line. */
    struct cell line = line_text(c), rest, cell;
    size_t numbers = 0, counted[2] = { 0, 0 }, named = SIZE_MAX;
    bool more = true;

    char *copy = copse__alloc(c->mem, line.size + 1, 1);
    if (copy == NULL)
        return no_memory(c);
    memcpy(copy, line.text, line.size);
    rest = (struct cell){ copy, line.size };
    copse_status s = COPSE_OK;
    while (more && s == COPSE_OK) {
        double v;
        s = next_cell(c, c->columns, &rest, &cell, &more);
        if (s != COPSE_OK)
            break;
        numbers += copse__number_parse(cell.text, cell.size, &v);
        counted[0] += is_count(&cell, c->columns);
        counted[1] += is_count(&cell, c->columns + 1);
        if (p->label_name != NULL && strlen(p->label_name) == cell.size &&
            memcmp(p->label_name, cell.text, cell.size) == 0) {
            if (named != SIZE_MAX)
                s = copse_fail(COPSE_ERR_ARGUMENT, "csv: %s has two columns \"%s\"", c->path,
                               p->label_name);
            named = c->columns;
        }
        c->columns++;
    }
    copse__free(c->mem, copy);
    COPSE_TRY(s);

    bool is_numbered = c->columns >= NUMBERED_MIN &&
                       (counted[0] == c->columns || counted[1] == c->columns);
    *is_header = p->header == COPSE_CSV_HEADER_YES ||
                 (p->header == COPSE_CSV_HEADER_AUTO && (numbers == 0 || is_numbered));
    c->label = c->columns;
    if (!want_labels)
        return COPSE_OK;
    if (p->label_name != NULL) {
        if (named == SIZE_MAX || !*is_header)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "csv: %s has no column named \"%s\" in its first row", c->path,
                              p->label_name);
        c->label = named;
        return COPSE_OK;
    }
    if (p->label_column > c->columns)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: %s has %zu columns, so none with the number %u",
                          c->path, c->columns, p->label_column);
    c->label = (p->label_column == 0 ? c->columns : p->label_column) - 1;
    return COPSE_OK;
}

static copse_status read_csv(copse_context *ctx, struct csv *c, const struct copse_csv_params *p,
                             copse_array **features, copse_array **labels)
{
    bool has, is_header = false;

    c->bytes = copse__alloc(c->mem, READ_BYTES, 1);
    if (c->bytes == NULL)
        return no_memory(c);
    for (;;) {
        COPSE_TRY(next_line(c, &has));
        if (!has)
            break;
        struct cell text = line_text(c);
        trim(c, &text);
        if (text.size == 0)
            continue;
        if (c->columns == 0) {
            if (memchr(text.text, '\r', text.size) != NULL)
                return copse_fail(COPSE_ERR_FORMAT,
                                  "csv: %s, row %zu: a carriage return inside the line; lines must "
                                  "end with LF or CR LF",
                                  c->path, c->row);
            if (c->delimiter == 0)
                c->delimiter = find_delimiter(&text);
            c->begins_as_comment = text.text[0] == '#';
            COPSE_TRY(first_line(c, p, labels != NULL, &is_header));
            if (is_header)
                continue;
        }
        COPSE_TRY(take_row(c, p->classes));
    }
    if (c->rows == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has no rows of data", c->path);
    size_t shape[2] = { c->rows, c->columns - (c->label < c->columns) };
    if (shape[1] == 0)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s has a label column only", c->path);
    float *fitted = copse__resize(c->mem, c->features.at, c->features.count, sizeof *fitted);
    if (fitted != NULL)
        c->features.at = fitted;
    COPSE_TRY(copse__array_create(ctx, COPSE_ELEMENT_F32, 2, shape, c->features.at, features));
    c->features.at = NULL;
    if (labels == NULL)
        return COPSE_OK;
    COPSE_TRY(copse__array_create(ctx, COPSE_ELEMENT_I32, 1, shape, c->labels.at, labels));
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
    struct csv c = { .mem = &copse__base(ctx)->mem, .path = path };

    *features = NULL;
    if (labels != NULL)
        *labels = NULL;
    c.delimiter = p->delimiter;
    if (c.delimiter != 0 && strchr(delimiters, c.delimiter) == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: the delimiter must be one of , ; tab |");
    if (p->label_name != NULL && p->label_column != 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: give label_name or label_column, not both");
    if (p->label_name != NULL && p->header == COPSE_CSV_HEADER_NO)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: label_name needs a header line");
    copse_status s = copse__input_open(&c.in, c.mem, path, p->max_bytes);
    if (s == COPSE_OK)
        s = read_csv(ctx, &c, p, features, labels);
    if ((s == COPSE_ERR_FORMAT || s == COPSE_ERR_ARGUMENT) && c.begins_as_comment && c.rows == 0)
        s = copse_note(s, "the first line begins with '#', but comments are not skipped");
    copse__input_close(&c.in);
    copse__free(c.mem, c.bytes);
    copse__free(c.mem, c.line.at);
    copse__free(c.mem, c.features.at);
    copse__free(c.mem, c.labels.at);
    if (s != COPSE_OK) {
        copse_array_release(features);
        if (labels != NULL)
            copse_array_release(labels);
    }
    return s;
}
