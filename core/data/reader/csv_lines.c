/* SPDX-License-Identifier: MIT */
/* CSV files as lines and cells: line ends, byte order mark, delimiter, quotes. Knows no meaning of
   a cell. */
#include "core/data/reader/csv_lines.h"

#include <ctype.h>
#include <math.h>

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define READ_BYTES     ((size_t)64 << 10)
#define CELL_SHOWN     32 /* characters of a wrong cell in an error text */
/* columns; fewer consecutive numbers are more likely data than a header */
#define NUMBERED_MIN 3

static const char delimiters[] = ",;\t|"; /* in the order of the search */

static copse_status no_memory(const struct copse_csv *c)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "csv: %s: no memory at row %zu", c->path, c->row);
}

copse_status copse__csv_check(const struct copse_csv_params *p, bool takes_lists)
{
    if (p->delimiter != 0 && strchr(delimiters, p->delimiter) == NULL)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: the delimiter must be one of , ; tab |");
    if (p->label_name != NULL && p->label_column != 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: give label_name or label_column, not both");
    const bool is_list = takes_lists && p->label_name && strpbrk(p->label_name, ",\"");
    if (p->label_name != NULL && p->header == COPSE_CSV_HEADER_NO && !is_list)
        return copse_fail(COPSE_ERR_ARGUMENT, "csv: label_name needs a header line");
    return COPSE_OK;
}

copse_status copse__csv_open(struct copse_csv *c, struct copse_mem *mem, const char *path,
                             uint64_t max_bytes, char delimiter)
{
    *c = (struct copse_csv){ .mem = mem, .path = path, .delimiter = delimiter };
    COPSE_TRY(copse__input_open(&c->in, mem, path, max_bytes));
    c->bytes = copse__alloc(mem, READ_BYTES, 1);
    return c->bytes != NULL ? COPSE_OK : no_memory(c);
}

void copse__csv_open_cells(struct copse_csv *c, struct copse_mem *mem, const char *name,
                           const struct copse_cells *cells)
{
    *c = (struct copse_csv){ .mem = mem, .path = name, .cells = cells };
}

void copse__csv_close(struct copse_csv *c)
{
    if (c->cells != NULL)
        return;
    copse__input_close(&c->in);
    copse__free(c->mem, c->bytes);
    copse__free(c->mem, c->line.at);
    c->bytes = c->line.at = NULL;
}

/* Files of other programs, by their first bytes. */
static copse_status refuse_format(const struct copse_csv *c)
{
    static const struct {
        const char *begin;
        size_t size;
        const char *what, *advice;
    } formats[] = {
        { "PK\3\4", 4, "a zip archive, as workbooks of Excel and LibreOffice are",
          "save the sheet as CSV in UTF-8" },
        { "\xd0\xcf\x11\xe0", 4, "a workbook of an older Excel", "save the sheet as CSV in UTF-8" },
        { "PAR1", 4, "a Parquet file",
          "write it as CSV, or read it with pandas: Dataset.table in Python takes the DataFrame" },
        { "SQLite format 3", 15, "a database of SQLite",
          "write the table as CSV: sqlite3 -header -csv FILE 'select * from TABLE'" },
    };
    const char *text = c->line.at;
    for (size_t i = 0; i < COPSE_COUNT(formats); i++)
        if (c->line.count >= formats[i].size &&
            memcmp(text, formats[i].begin, formats[i].size) == 0)
            return copse_fail(COPSE_ERR_FORMAT, "csv: %s is %s, which is not read; %s", c->path,
                              formats[i].what, formats[i].advice);
    size_t next = 1; /* of "{" or "[": what follows */
    while (next < c->line.count && isspace((unsigned char)text[next]))
        next++;
    const bool has_next = next < c->line.count;
    const bool is_list = has_next && text[0] == '[' && (text[next] == '{' || text[next] == '['),
               is_object = has_next && text[0] == '{' && text[next] == '"';
    return is_list || is_object
               ? copse_fail(COPSE_ERR_FORMAT,
                            "csv: %s is JSON%s, which is not read; write it as CSV, or read it in "
                            "Python: Dataset.table takes a list of dictionaries",
                            c->path, is_object ? ", or lines of JSON" : "")
               : COPSE_OK;
}

/* A line that is no UTF-8, from byte `at` on: what its encoding may be. */
static copse_status refuse_encoding(const struct copse_csv *c, size_t at)
{
    const unsigned char *b = (const unsigned char *)c->line.at;
    const size_t all = c->line.count;
    const bool has_mark = c->row == 1 && all >= 2 &&
                          ((b[0] == 0xff && b[1] == 0xfe) || (b[0] == 0xfe && b[1] == 0xff));
    size_t zeros = 0, controls = 0;

    for (size_t i = 0; i < all; i++) {
        zeros += b[i] == 0;
        controls += b[i] < 32 && b[i] != '\t' && b[i] != '\r' && b[i] != '\n';
    }
    if (has_mark || (c->row == 1 && 5 * zeros >= 2 * all))
        return copse_fail(COPSE_ERR_FORMAT,
                          "csv: %s is text in UTF-16; convert it: iconv -f UTF-16%s -t UTF-8",
                          c->path,
                          has_mark    ? ""
                          : b[0] == 0 ? "BE"
                                      : "LE");
    const copse_status s = copse_fail(
        COPSE_ERR_FORMAT, "csv: %s, row %zu: %s at byte %llu of the file", c->path, c->row,
        b[at] == 0 ? "a NUL" : "invalid UTF-8", (unsigned long long)(c->offset + at));
    return controls == 0
               ? copse_note(s, "text in Latin-1 or of Windows becomes UTF-8 by: iconv -f "
                               "WINDOWS-1252 -t UTF-8")
               : copse_note(s, "CSV is text in UTF-8, other files are IDX or .npy, any of them "
                               "plain or gzip");
}

/* Read the next line without its end into c->line, NUL-terminated; *has is false at the end of the
   file. */
static copse_status next_line(struct copse_csv *c, bool *has)
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
    if (c->row == 1)
        COPSE_TRY(refuse_format(c));
    size_t valid = copse__utf8_valid(c->line.at, c->line.count);
    return valid < c->line.count ? refuse_encoding(c, valid) : COPSE_OK;
}

/* The text of the line without end of line, byte order mark and surrounding blanks. */
static struct copse_cell line_text(const struct copse_csv *c)
{
    struct copse_cell t = { .text = c->line.at, .size = c->line.count };

    while (t.size > 0 && (t.text[t.size - 1] == '\n' || t.text[t.size - 1] == '\r'))
        t.size--;
    if (c->row == 1 && t.size >= 3 && memcmp(t.text, "\xef\xbb\xbf", 3) == 0) {
        t.text += 3;
        t.size -= 3;
    }
    return t;
}

static bool is_blank(const struct copse_csv *c, char b)
{
    return (b == ' ' || b == '\t') && b != c->delimiter;
}

static void csv_lines_trim(const struct copse_csv *c, struct copse_cell *t)
{
    while (t->size > 0 && is_blank(c, t->text[t->size - 1]))
        t->size--;
    while (t->size > 0 && is_blank(c, t->text[0])) {
        t->text++;
        t->size--;
    }
}

/* The first of `delimiters` that occurs outside quotes in the first line, otherwise a comma. */
static char find_delimiter(const struct copse_cell *line)
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

/* The next row of cells; the line has no text. */
static void next_of_cells(struct copse_csv *c, struct copse_cell *line, bool *has)
{
    static char none[] = "";

    *line = (struct copse_cell){ .text = none };
    *has = true;
    if (c->has_begun || c->cells->names == NULL)
        *has = c->row++ < c->cells->rows;
    c->has_begun = true;
}

copse_status copse__csv_next(struct copse_csv *c, struct copse_cell *line, bool *has)
{
    const bool is_first = c->row == 0;

    if (c->cells != NULL) {
        next_of_cells(c, line, has);
        return COPSE_OK;
    }
    for (;;) {
        COPSE_TRY(next_line(c, has));
        if (!*has)
            return COPSE_OK;
        *line = line_text(c);
        struct copse_cell text = *line;
        csv_lines_trim(c, &text);
        if (text.size > 0)
            break;
    }
    if (is_first) {
        if (memchr(line->text, '\r', line->size) != NULL)
            return copse_fail(COPSE_ERR_FORMAT,
                              "csv: %s, row %zu: a carriage return inside the line; lines must end "
                              "with LF or CR LF",
                              c->path, c->row);
        if (c->delimiter == 0)
            c->delimiter = find_delimiter(line);
        c->begins_as_comment = line->text[0] == '#';
    }
    return COPSE_OK;
}

static copse_status cell_in_memory(const struct copse_csv *c, size_t column,
                                   struct copse_cell *cell, bool *more)
{
    const struct copse_cells *from = c->cells;
    const double *numbers = c->row > 0 && from->numbers != NULL ? from->numbers[column] : NULL;

    *more = column + 1 < from->columns;
    if (numbers != NULL) {
        *cell = copse__cell_of("");
        cell->number = &numbers[c->row - 1];
        return COPSE_OK;
    }
    const char *text =
        c->row == 0 ? from->names[column] : from->cells[(c->row - 1) * from->columns + column];
    text = text != NULL ? text : "";
    *cell = copse__cell_of(text);
    if (copse__utf8_valid(text, cell->size) < cell->size)
        return copse_fail(COPSE_ERR_FORMAT, "csv: %s, row %zu, column %zu: invalid UTF-8", c->path,
                          c->row, column + 1);
    csv_lines_trim(c, cell);
    return COPSE_OK;
}

copse_status copse__csv_cell(const struct copse_csv *c, size_t column, struct copse_cell *rest,
                             struct copse_cell *cell, bool *more)
{
    if (c->cells != NULL)
        return cell_in_memory(c, column, cell, more);
    cell->number = NULL;
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
                              "csv: %s, row %zu, column %zu: the quote is not closed in this line",
                              c->path, c->row, column + 1);
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
        csv_lines_trim(c, cell);
    }
    *more = p < end;
    rest->text = p + *more;
    rest->size = (size_t)(end - rest->text);
    return COPSE_OK;
}

struct copse_cell copse__cell_of(const char *text)
{
    return (struct copse_cell){ .text = (char *)(uintptr_t)text, .size = strlen(text) };
}

bool copse__cell_number(const struct copse_cell *cell, double *out)
{
    if (cell->number == NULL)
        return copse__number_parse(cell->text, cell->size, out);
    *out = *cell->number;
    return !isnan(*out);
}

struct copse_cell copse__cell_with_text(const struct copse_cell *cell, char room[COPSE_NUMBER_TEXT])
{
    if (cell->number == NULL)
        return *cell;
    copse__number_print(*cell->number, room);
    return copse__cell_of(room);
}

int copse__csv_shown(const struct copse_cell *t)
{
    size_t n = COPSE_MIN(t->size, (size_t)CELL_SHOWN);

    while (n < t->size && n > 0 && ((unsigned char)t->text[n] & 0xc0) == 0x80)
        n--;
    return (int)n;
}

copse_status copse__csv_note_delimiter(const struct copse_csv *c, const struct copse_cell *cell,
                                       copse_status s)
{
    static const char *const names[] = { "','", "';'", "a tab", "'|'" };
    if (c->cells != NULL)
        return s;
    const char *name = names[strchr(delimiters, c->delimiter) - delimiters];

    for (size_t i = 0; i < COPSE_COUNT(names); i++)
        if (delimiters[i] != c->delimiter && memchr(cell->text, delimiters[i], cell->size) != NULL)
            return copse_note(s, "cells are split at %s; is %s the delimiter%s?", name, names[i],
                              delimiters[i] == ',' ? ", or a decimal comma" : "");
    return s;
}

copse_status copse__csv_note_comment(const struct copse_csv *c, copse_status s)
{
    return c->begins_as_comment
               ? copse_note(s, "the first line begins with '#', but comments are not skipped")
               : s;
}

copse_status copse__csv_split(const struct copse_csv *c, struct copse_cell line,
                              struct copse_arena *arena, struct copse_csv_names *out)
{
    struct {
        const char **at;
        size_t count, room;
    } list = { NULL, 0, 0 };
    copse_status s = COPSE_OK;
    bool more = true;

    *out = (struct copse_csv_names){ NULL, 0 };
    char *copy = copse__arena_alloc(arena, line.size + 1, 1);
    if (copy == NULL)
        return no_memory(c);
    memcpy(copy, line.text, line.size);
    struct copse_cell rest = { .text = copy, .size = line.size }, cell;
    while (more && s == COPSE_OK) {
        s = copse__csv_cell(c, list.count, &rest, &cell, &more);
        if (s != COPSE_OK)
            break;
        char *text = copse__arena_alloc(arena, cell.size + 1, 1);
        if (text != NULL)
            memcpy(text, cell.text, cell.size);
        if (text == NULL || !COPSE_PUSH(c->mem, &list, text))
            s = no_memory(c);
    }
    if (s == COPSE_OK) {
        out->at = copse__arena_alloc(arena, list.count, sizeof *out->at);
        if (out->at != NULL)
            memcpy(out->at, list.at, list.count * sizeof *out->at);
        out->count = list.count;
        s = out->at != NULL ? COPSE_OK : no_memory(c);
    }
    copse__free(c->mem, list.at);
    return s;
}

copse_status copse__csv_wrong_length(const struct copse_csv *c, bool has_more, size_t columns)
{
    return copse_fail(COPSE_ERR_FORMAT,
                      "csv: %s, row %zu: %s than the %zu columns of the first row", c->path, c->row,
                      has_more ? "more cells" : "fewer cells", columns);
}

/* Whether the text is exactly the whole number `n`. */
static bool is_count(const char *text, size_t n)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%zu", n);
    return strcmp(text, digits) == 0;
}

bool copse__csv_is_header(const struct copse_csv_names *names, copse_csv_header header,
                          bool *by_text)
{
    size_t numbers = 0, from_0 = 0, from_1 = 0;
    double v;

    for (size_t i = 0; i < names->count; i++) {
        numbers += copse__number_parse(names->at[i], strlen(names->at[i]), &v);
        from_0 += is_count(names->at[i], i);
        from_1 += is_count(names->at[i], i + 1);
    }
    const bool is_numbered =
        names->count >= NUMBERED_MIN && (from_0 == names->count || from_1 == names->count);
    *by_text = header == COPSE_CSV_HEADER_AUTO && numbers == 0;
    return header == COPSE_CSV_HEADER_YES || *by_text ||
           (header == COPSE_CSV_HEADER_AUTO && is_numbered);
}
