/* SPDX-License-Identifier: MIT */
/* A CSV file, or a table in memory, as lines and cells, for the readers of CSV. */
#ifndef COPSE_DATA_CSV_LINES_H
#define COPSE_DATA_CSV_LINES_H

#include "copse/data/cells.h"
#include "core/data/reader/byte_stream.h"
#include "core/data/reader/number.h"

struct copse_csv {
    struct copse_mem *mem;
    const char *path;
    struct copse_input in;
    char delimiter;         /* 0 until it is known */
    size_t row;             /* line number, from 1 */
    bool begins_as_comment; /* with a '#' */
    /* the lines are these: first the names, if there are any, as row 0; no file */
    const struct copse_cells *cells;
    bool has_begun; /* of cells: a line was taken */

    char *bytes; /* read but not yet split: at..have */
    size_t at, have;
    uint64_t offset; /* of the line in the file's payload */
    struct {
        char *at;
        size_t count, room;
    } line;
};

struct copse_cell {
    char *text;
    size_t size;
    const double *number; /* of a table in memory: the cell, which then has no text; else NULL */
};

/* The cells of the first line, copied. */
struct copse_csv_names {
    const char **at;
    size_t count;
};

/* COPSE_ERR_ARGUMENT if `p` breaks a rule. `takes_lists`: the name of the label may be a list, whose
   positions need no header. */
copse_status copse__csv_check(const struct copse_csv_params *p, bool takes_lists);
/* Close also on failure. */
copse_status copse__csv_open(struct copse_csv *c, struct copse_mem *mem, const char *path,
                             uint64_t max_bytes, char delimiter);
/* The same for cells in memory, which need no closing. */
void copse__csv_open_cells(struct copse_csv *c, struct copse_mem *mem, const char *name,
                           const struct copse_cells *cells);
void copse__csv_close(struct copse_csv *c);

/* The next line that is not blank, valid until the next call; *has is false at the end of the file.
   The first line decides the delimiter if none is set. */
copse_status copse__csv_next(struct copse_csv *c, struct copse_cell *line, bool *has);
/* Remove the next cell from `rest`, column `column` from 0, the columns in their order; *more is
   true if a delimiter followed. Quotes are removed in place, so that a line can be split once. */
copse_status copse__csv_cell(const struct copse_csv *c, size_t column, struct copse_cell *rest,
                             struct copse_cell *cell, bool *more);
/* Split a line into texts of `arena`. */
copse_status copse__csv_split(const struct copse_csv *c, struct copse_cell line,
                              struct copse_arena *arena, struct copse_csv_names *out);
/* More or fewer cells than the `columns` of the first row. */
copse_status copse__csv_wrong_length(const struct copse_csv *c, bool has_more, size_t columns);

/* Whether a first line holds column names, by its own cells; *by_text: because none of them is a
   number. */
bool copse__csv_is_header(const struct copse_csv_names *names, copse_csv_header header,
                          bool *by_text);

/* A cell of a text, which outlives it. */
struct copse_cell copse__cell_of(const char *text);
/* The number of a cell; false: it has a text that is none, or it is missing. */
bool copse__cell_number(const struct copse_cell *cell, double *out);
/* The cell with a text, which for a number is in `room`. */
struct copse_cell copse__cell_with_text(const struct copse_cell *cell,
                                        char room[COPSE_NUMBER_TEXT]);
/* The first bytes of a wrong cell, for a message; never cuts a character. */
int copse__csv_shown(const struct copse_cell *cell);
/* Add a hint to an error text: a wrong cell contains a character that may be the real delimiter. */
copse_status copse__csv_note_delimiter(const struct copse_csv *c, const struct copse_cell *cell,
                                       copse_status s);
/* Add a hint to an error text if the first line begins with '#'. */
copse_status copse__csv_note_comment(const struct copse_csv *c, copse_status s);

#endif
