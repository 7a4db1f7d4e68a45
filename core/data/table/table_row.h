/* SPDX-License-Identifier: MIT */
/* Rows of a table by a schema, whose data it may be or not: which column of the source is which of
   the schema (table_columns.c), and the numbers of a row (table_row.c). Users: files and datasets
   of cells (table_read.c), predictions for cells. */
#ifndef COPSE_DATA_TABLE_ROW_H
#define COPSE_DATA_TABLE_ROW_H

#include "core/data/table/table.h"

/* A use of a column of the source. */
struct copse_table_use {
    const struct copse_schema_column *column; /* NULL: none */
    const struct copse_dictionary *codes;     /* of a category: entry i is category i */
    uint32_t target;                          /* of a label: which one */
    /* of dates: cells that were read, and the first one that is no date; NULL: there is none */
    size_t dates, fault_row;
    const char *date_fault;
};

/* Cells of one kind that were replaced. */
struct copse_replaced {
    size_t count;
    size_t told;     /* of these: in the warning */
    char first[200]; /* text and place of the first one in the warning */
};

struct copse_row_reader {
    struct copse_mem *mem;
    const struct copse_logger *log;
    struct copse_arena arena; /* of the dictionaries */
    const struct copse_schema_parts *schema;
    bool is_counted; /* classes are 0..outputs-1 */
    bool wants_labels;
    bool is_surveyed;      /* the schema was made from this source */
    copse_missing missing; /* of new data: AUTO replaces and warns */
    copse_unknown unknown;
    copse_csv_header header;
    const struct copse_csv *csv;    /* the source at hand */
    struct copse_dictionary *codes; /* for each column of the schema */
    struct copse_dictionary classes;
    struct {
        struct copse_table_use *at;
        size_t count, room;
    } uses;          /* for each column of the source */
    uint32_t labels; /* columns with labels: of the schema */
    uint32_t found;  /* and of the source */
    bool has_label;  /* the source has all of them, and there are any */
    int32_t class;   /* of the row that was read */
    float *targets;
    /* since the last report */
    struct copse_replaced missing_cells, unknown_cells, date_cells, time_cells;
    const char *date_form, *date_fault; /* of the first of date_cells */
};

/* Retains nothing: the schema outlives the reader. Fini also on failure. */
copse_status copse__row_reader_init(struct copse_row_reader *r, copse_context *ctx,
                                    const copse_schema *schema,
                                    const struct copse_dataset_params *params);
void copse__row_reader_fini(struct copse_row_reader *r); /* a zeroed one is allowed */

/* Map the columns of r->csv to the schema's by the cells of its first line; *is_header: the
   line is a header. */
copse_status copse__row_columns(struct copse_row_reader *r, const struct copse_csv_names *line,
                                bool *is_header);
/* The numbers of a line, [width] of the schema; r->class or r->targets if there is a label. */
copse_status copse__row_read(struct copse_row_reader *r, struct copse_cell line, float *to);
/* COPSE_ERR_FORMAT if a column of dates has cells, and none of them is a date as training had. */
copse_status copse__row_check_dates(const struct copse_row_reader *r);
/* Forget what was replaced. */
void copse__row_forget(struct copse_row_reader *r);
/* Log what was replaced since the last report. */
void copse__row_report(struct copse_row_reader *r, const char *path);

#endif
