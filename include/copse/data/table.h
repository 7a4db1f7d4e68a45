/* SPDX-License-Identifier: MIT */
/** @file
 * How tables are read, for copse_dataset_params of data.h: CSV, tasks, missing cells.
 */
#ifndef COPSE_PUBLIC_DATA_TABLE_H
#define COPSE_PUBLIC_DATA_TABLE_H

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/** Whether the first line of a CSV file holds column names. */
typedef enum copse_csv_header {
    COPSE_CSV_HEADER_AUTO, /**< yes when none of its cells is a number (for a dataset: unless most occur again in their
                                columns), or when it has at least three, which count the columns: 0,1,2,... or 1,2,3,... */
    COPSE_CSV_HEADER_YES,
    COPSE_CSV_HEADER_NO,
} copse_csv_header;

/** How to read a CSV file: numbers are decimal with '.' in every locale, cells may be quoted, all lines have the same
    number of cells and at most 1 MiB, empty lines are skipped. Error texts count rows and columns from 1, header included. */
struct copse_csv_params {
    const char *label_name;  /**< label column by its name in the header        [NULL] */
    uint32_t label_column;   /**< label column by position, from 1              [0 = the last] */
    copse_csv_header header;
    char delimiter;          /**< ',' ';' '|' or a tab  [0 = the first of , ; tab | that occurs outside quotes in the
                                  first line, else ','] */
    uint32_t classes;        /**< labels are 0..classes-1                       [0 = not checked] */
    uint64_t max_bytes;      /**< most bytes after decompression                [0 = 8 GiB] */
    uint64_t reserved[4]; /**< 0 */
};

/** The use of labels. */
typedef enum copse_task {
    COPSE_TASK_AUTO,           /**< recognised from the labels, see data/schema.h */
    COPSE_TASK_CLASSIFICATION, /**< "y" is i32, a class */
    COPSE_TASK_REGRESSION,     /**< "y" is f32 [targets], standardised unless features are unscaled */
    COPSE_TASK_SEQUENCE,
} copse_task;

/** Missing cells of a table: empty, NA, N/A, NaN, null or ?. */
typedef enum copse_missing {
    COPSE_MISSING_REFUSE,
    COPSE_MISSING_MEAN, /**< become the column's mean, or a category of their own */
} copse_missing;

#if defined(__cplusplus)
}
#endif
#endif
