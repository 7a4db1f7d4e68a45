/* SPDX-License-Identifier: MIT */
/** @file Schemas: the meaning of the columns of a data set, and how they become inputs of a
 * network. A dataset makes its schema from the data; a model file stores it; later data is read by
 * it (copse_dataset_params.schema), with the same scaling, categories and classes; then `classes`,
 * `scale` and `task` of the params are not used. docs/model-file.md describes the text. All
 * functions: any thread.
 *
 * Tables (CSV files). A column of numbers becomes one number of "x". A column of text becomes
 * categories, one number of "x" each: at most 1000, and at most half as many as rows if there are
 * more than 20. A column of numbers and text becomes categories only with at most 20 different
 * cells, each text at least twice. The label is the last column unless params.csv names another. Means
 * and deviations are computed over all rows, before a split; a constant column has scale 1.
 *
 * If no column has the name params.csv.label_name, it is a list of names and positions, "u,v,5":
 * columns of numbers, which are the targets of a regression in the order of the columns. In this
 * list, and in params.ignore, a name in double quotes may have commas: "\"u, m\",v".
 *
 * A column of dates becomes numbers, always scaled: COPSE_COLUMN_DATE. Dates have four digits for
 * the year and '-', '/' or '.' between their parts, and may have a time, as
 * "2024-12-31T23:59:00Z"; the zone does not count. Where day and month could be exchanged in all
 * cells, '.' means the day first, and otherwise the month is first, with a warning. Where 9 of 10
 * cells are dates and another is none, it is COPSE_ERR_FORMAT, or with COPSE_MISSING_MEAN counts as
 * missing, with a warning; without that, up to 20 different texts are categories.
 *
 * Columns that number the rows are ignored: an unnamed first one that counts from 0 or 1, and in
 * tables of at least 20 rows one of whole numbers that rises in each row and has a name such as
 * "id", "row" or "user_id". The item "none" of params.ignore keeps them, and the only column is
 * kept. The log warns (COPSE_LOG_WARN) of a named one, and of columns that look like identifiers,
 * percent, money or dates, of columns with one value, and of rare classes.
 *
 * Of several IDX pairs in a folder "train..." is preferred, then uncompressed files, then the first
 * by name.
 *
 * Task, where params.task is AUTO. Tables: a classification if the labels are text, or whole
 * numbers with at most 20 different values, or 0..K-1 or 1..K with at least 20 rows for each on
 * average; otherwise a regression. The classes are the different labels, numbers in ascending
 * order, texts by bytes. Arrays: a regression if labels have a fraction, or a row has several;
 * otherwise a classification whose classes are 0 to the largest label.
 *
 * By a schema the columns of a table are found by name if the training data and the file have a
 * header, else by position; other columns are passed over, with a line in the log
 * (COPSE_LOG_INFO), and the label columns may be missing, all of them. A missing number becomes the `fill` of its
 * column, a missing date the mean of each part and no weekday; so does a cell that is no date,
 * unless params.unknown or params.missing refuses it. It is COPSE_ERR_FORMAT if no cell of a column
 * can be read as a date, unless params.missing is COPSE_MISSING_MEAN. A missing or unknown category
 * takes the place of missing cells if the column has one; otherwise all places of the column are 0. The log warns once for each kind and file, with the
 * number of the cells and the place of the first, unless training had missing cells in the column
 * or the caller asked for COPSE_MISSING_MEAN. Labels are never replaced.
 */
#ifndef COPSE_PUBLIC_DATA_SCHEMA_H
#define COPSE_PUBLIC_DATA_SCHEMA_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Source of the data. */
typedef enum copse_data_kind {
    COPSE_DATA_ARRAY, /**< other arrays, in memory or in .npy and IDX files */
    COPSE_DATA_TABLE, /**< CSV files */
    /** PNG, JPEG, and arrays of u8 with at least 3 axes: [rows, height, width, ...]. By default
       "x" stays u8 */
    COPSE_DATA_PICTURES,
    COPSE_DATA_TEXT, /**< windows of tokens, data/text.h */
} copse_data_kind;

/** What a schema says about the whole data set. */
struct copse_schema_info {
    copse_data_kind kind;
    copse_task task;   /**< COPSE_TASK_AUTO without labels */
    copse_type type;   /**< of column "x" of a dataset: f32 or u8; of a text u8 or i32 */
    copse_shape shape; /**< of one example of "x" */
    /** the network's input is (x - input_offset) * input_scale, computed on the device as f32. */
    float input_offset;
    float input_scale; /**< 0 and 1 where nothing is left to be done */
    /** classes, targets of a regression, or tokens of a text; 0 without labels */
    uint32_t outputs;
    uint32_t columns;     /**< of the file of a table, see copse_schema_column; otherwise 0 */
    uint64_t reserved[4]; /**< 0 */
};
COPSE_API COPSE_CHECKED copse_status copse_schema_describe(const copse_schema *schema,
                                                           struct copse_schema_info *out);

/** Name of class `i`, UTF-8; the number as text where labels are numbers. NULL past the end, for a
    regression, and for numbered classes from 65536 on. Lifetime: that of the schema, as of all
    texts here. */
COPSE_API const char *copse_schema_class(const copse_schema *schema, uint32_t i);

/** Use of a column of a table. */
typedef enum copse_column_role {
    COPSE_COLUMN_NUMBER, /**< one number of "x": (cell - mean) / scale, computed in double */
    /** `width` numbers of "x": 1 at the place of the cell's category, otherwise 0 */
    COPSE_COLUMN_CATEGORY,
    COPSE_COLUMN_LABEL, /**< class, or target of a regression */
    COPSE_COLUMN_IGNORED,
    /** `width` numbers of "x": year, month, day, day of the year; 1 at the place of the weekday,
        Monday to Sunday; hour and minute, if there are times */
    COPSE_COLUMN_DATE,
} copse_column_role;

/** Order of the parts of a date in a cell. */
typedef enum copse_date_order {
    COPSE_DATE_YMD, /**< "2024-12-31" */
    COPSE_DATE_DMY, /**< "31.12.2024", "31/12/2024" */
    COPSE_DATE_MDY, /**< "12/31/2024" */
} copse_date_order;

struct copse_schema_column {
    const char *name; /**< "" without a header */
    copse_column_role role;
    uint32_t first, width; /**< its place in "x"; width 0: none */
    double mean, scale;    /**< of a number; otherwise 0 and 1 */
    double fill;           /**< of a number: the mean of its cells, which replaces missing ones */
    const char *const *categories; /**< [width], sorted by bytes */
    bool has_missing;              /**< the last category, "", means missing cells */
    copse_date_order order;        /**< of a date; dates that begin with the year are known, too */
    const double *means, *scales;  /**< of a date, [width]: (part - mean) / scale */
    uint64_t reserved[2];          /**< 0 */
};
/** Column `i` of the file, from 0.
    @retval COPSE_ERR_ARGUMENT  The schema has no such column. */
COPSE_API COPSE_CHECKED copse_status copse_schema_column(const copse_schema *schema, uint32_t i,
                                                         struct copse_schema_column *out);

/** Target `i` of a regression: value = output * scale + mean, where `output` is in the scale of
    column "y".
    @param name  "" without a header.
    @retval COPSE_ERR_ARGUMENT  The schema has no such target. */
COPSE_API COPSE_CHECKED copse_status copse_schema_target(const copse_schema *schema, uint32_t i,
                                                         const char **name, double *mean,
                                                         double *scale);

/** The schema as JSON, UTF-8. */
COPSE_API const char *copse_schema_text(const copse_schema *schema);
/**
 * Make a schema from its text.
 * @retval COPSE_ERR_FORMAT       The text is not JSON, or a field is missing, repeated or has a
 *                                wrong value; the error text names the field.
 * @retval COPSE_ERR_UNSUPPORTED  The text is of a newer version, or has a field that this version
 *                                does not know.
 */
COPSE_API COPSE_CHECKED copse_status copse_schema_parse(copse_context *ctx, const char *json,
                                                        copse_schema **out);

COPSE_API copse_schema *copse_schema_retain(copse_schema *schema);
COPSE_API void copse_schema_release(copse_schema **schema);

#if defined(__cplusplus)
}
#endif
#endif
