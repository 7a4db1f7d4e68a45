/* SPDX-License-Identifier: MIT */
/** @file Tables in memory: rows of cells that are text, as in a CSV file, or numbers.
 * docs/use-a-model.md shows the use.
 */
#ifndef COPSE_PUBLIC_DATA_CELLS_H
#define COPSE_PUBLIC_DATA_CELLS_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** The cells of a table. All texts are UTF-8, and are used during the call only. */
struct copse_cells {
    const char *const *names; /**< [columns], of the columns; NULL: columns go by position */
    size_t columns;
    size_t rows;
    /** [rows * columns], row after row: numbers as decimal text with '.', categories, classes.
        Blanks around a text do not count. NULL is a missing cell, as "" is and the words of
        copse_missing. NULL if all columns have `numbers` */
    const char *const *cells;
    /** [columns]: a column as numbers, [rows], whose texts are not read; or NULL: it has texts.
        NULL: all columns have texts. Infinities are refused, NaN is a missing cell. As a category
        or a class a number is its shortest decimal text: 1, or else 1.0; -0 is 0   [NULL] */
    const double *const *numbers;
    uint64_t reserved[3]; /**< 0 */
};

/**
 * Make a dataset of cells in memory: the same as copse_dataset_open of a CSV file of these rows.
 * Without `params->schema` the schema is decided from the cells (data/schema.h).
 * @param params  As for a CSV file. `labels` and `csv.header` are not used, of `source` only
 *                `is_weighted`. NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT  A pointer or a name is missing, or `params` breaks a rule.
 * @retval COPSE_ERR_FORMAT    A cell is refused, or a text is not UTF-8; the text names row, from
 *                             1, and column.
 * @retval COPSE_ERR_SHAPE     There is no row, or a column of the schema is missing; the text
 *                             lists them.
 * Any thread.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_cells(copse_context *ctx,
                                                         const struct copse_cells *cells,
                                                         const struct copse_dataset_params *params,
                                                         copse_dataset **out);

#if defined(__cplusplus)
}
#endif
#endif
