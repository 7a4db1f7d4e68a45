/* SPDX-License-Identifier: MIT */
/* Tables: CSV files whose columns are numbers, categories, a label, or ignored. First a survey of
   the cells decides the schema, then the rows are read by it. */
#ifndef COPSE_DATA_TABLE_H
#define COPSE_DATA_TABLE_H

#include "core/data/reader/csv_lines.h"
#include "core/data/reader/dictionary.h"
#include "core/data/schema/schema.h"
#include "core/data/table/table_dates.h"

#define COPSE_CATEGORIES_MAX 1000u /* of a column, and classes in words */
/* so many different cells are categories or classes without more conditions */
#define COPSE_FEW 20u

#define COPSE_CELLS_NAME "cells" /* in place of a path */

/* Where the rows of a table are: files with the same columns, or cells in memory. */
struct copse_table_source {
    const char *const *paths; /* of cells one name, for error texts */
    size_t count;
    const struct copse_cells *cells; /* NULL: files */
    const struct copse_dataset_params *params;
};

struct copse_table_numbers {
    double *at;
    size_t count, room;
};

/* What is known of the cells of a column. */
struct copse_table_column {
    const char *name;               /* "" without a header */
    copse_column_role role;         /* NUMBER until the survey is complete, LABEL or IGNORED */
    size_t numbers, texts, missing; /* cells */
    size_t commas;                  /* texts that are numbers with a decimal comma */
    /* different cells that are not numbers; more than COPSE_CATEGORIES_MAX are refused */
    struct copse_dictionary words;
    struct copse_dictionary digits; /* different cells that are numbers: the first COPSE_FEW + 1 */
    /* of the numbers: mean, and sum of squared differences from it */
    double mean, squares;
    /* of the numbers in the order of the rows (table_ids.c): whether each is larger, or larger by
       one, than the one before; and while they are whole and differ, the first of them */
    double first, last, low, high;
    bool rises, counts, is_kept;
    bool is_row_number; /* and therefore IGNORED */
    struct copse_table_numbers ids;
    struct copse_date_facts dates[COPSE_DATE_ORDERS]; /* of the texts */
};

struct copse_table_facts {
    struct copse_mem *mem;
    const struct copse_logger *log;
    struct copse_arena arena;
    const struct copse_dataset_params *params;
    const char *path; /* of the first file, for error texts */
    struct copse_table_column *columns;
    size_t column_count;
    size_t label;       /* the first label column; == column_count: none */
    size_t label_count; /* several are targets of a regression */
    bool has_header;
    bool keeps_row_numbers; /* `ignore` has "none" */
    float largest;          /* magnitude of all numbers that are not labels */
    size_t rows;
    /* of the only label column: those that are numbers, in the order of the rows */
    struct copse_table_numbers labels;
    /* of the first label column and the first rows: equal for equal labels */
    struct copse_table_numbers label_order;
    size_t fraction_row; /* of the first label that is not a whole number; 0: none */
    const char *fraction_path;
};

/* Look at all cells of the source. Fini also on failure. (table_survey.c) */
copse_status copse__table_survey(struct copse_table_facts *f, copse_context *ctx,
                                 const struct copse_table_source *from);
void copse__table_facts_fini(struct copse_table_facts *f);
/* Decide roles, scaling, task and classes. `labels` has the outputs of labels in another file; it
   is zeroed otherwise. (table_schema.c) */
copse_status copse__table_schema(copse_context *ctx, struct copse_table_facts *f,
                                 const struct copse_schema_parts *labels, copse_schema **out);

/* Note a number of a column that is no label, after `numbers` was counted; false without memory.
   (table_ids.c) */
bool copse__table_take_id(struct copse_table_facts *f, struct copse_table_column *c, double x);
/* Note the label of a row: a number that equal labels share. */
bool copse__table_take_label(struct copse_table_facts *f, double x);
/* Leave out the columns that number the rows, unless keeps_row_numbers. */
void copse__table_ignore_row_numbers(struct copse_table_facts *f);
/* Log them, and other columns that look like identifiers. */
void copse__table_report_ids(const struct copse_table_facts *f);

/* Log warnings of columns that say nothing. (table_report.c) */
void copse__table_report_constants(const struct copse_table_facts *f);
/* The rows of a class. */
struct copse_class_rows {
    const char *name;
    size_t rows;
};
/* Log warnings of classes with few rows, and of a class that has most rows. */
void copse__table_report_classes(const struct copse_table_facts *f,
                                 const struct copse_class_rows *classes, size_t count);
/* 'FILE, column C ("NAME")' in `to`, which is returned. */
#define COPSE_PLACE_BYTES 700
const char *copse__table_place(const struct copse_table_facts *f, size_t column,
                               char to[COPSE_PLACE_BYTES]);
/* What the list `ignore` takes for the column: its name, or its position. */
#define COPSE_ITEM_BYTES 24
const char *copse__table_item(const struct copse_table_facts *f, size_t column,
                              char position[COPSE_ITEM_BYTES]);

/* Read the rows of a source by a schema of a table: x is F32 [rows, width]; y is I32 [rows] or F32
   [rows, targets], or NULL if the source has no label column. `header`: YES or NO if it is known. `rows`:
   their number, of the source that the schema was made from; otherwise 0. (table_read.c) */
copse_status copse__table_read(copse_context *ctx, const struct copse_table_source *from,
                               const copse_schema *schema, copse_csv_header header, size_t rows,
                               copse_array **x, copse_array **y);

/* COPSE_ERR_ARGUMENT or COPSE_ERR_SHAPE if cells in memory lack something. (table_cells.c) */
copse_status copse__cells_check(const struct copse_cells *cells);
/* COPSE_ERR_ARGUMENT for values that no enumerator has. (table_cells.c) */
copse_status copse__table_check_policy(copse_missing missing, copse_unknown unknown);
/* Open a part of a source; close it also on failure. (table_cells.c) */
copse_status copse__table_open(struct copse_csv *csv, struct copse_mem *mem,
                               const struct copse_table_source *from, size_t part);
/* Whether a cell is missing: empty, NA, N/A, NaN, null or ?. (table_cells.c) */
bool copse__table_is_missing(const struct copse_cell *cell);
/* A number that f32 holds; a text that is no number is COPSE_ERR_FORMAT, too. */
copse_status copse__table_number(const struct copse_csv *c, size_t column, const char *name,
                                 const struct copse_cell *cell, double *out);
/* "csv: FILE, row R, column C ("NAME"): " and a text about the cell. */
copse_status copse__table_fail(copse_status code, const char *path, size_t row, size_t column,
                               const char *name, const char *fmt, ...) COPSE_PRINTF(6, 7);
/* The first cell that is no date, of a column where nearly all are dates of an order. */
copse_status copse__table_fail_date(size_t column, const struct copse_table_column *c,
                                    copse_date_order order);
/* A missing cell that is not replaced. */
copse_status copse__table_fail_missing(const struct copse_csv *c, size_t column, const char *name,
                                       const struct copse_cell *cell, bool is_label,
                                       bool is_by_schema);
/* What the different texts of a column or label are if all are written numbers or dates, and what
   to do; else NULL. */
const char *copse__table_looks_like(const struct copse_dictionary *words, bool is_label);
/* Whether a cell is a number with a decimal comma. */
bool copse__table_has_comma(const struct copse_cell *cell);
/* Whether a number can be the name of a class. */
bool copse__table_is_whole(double v);

#endif
