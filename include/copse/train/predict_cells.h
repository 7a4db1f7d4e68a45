/* SPDX-License-Identifier: MIT */
/** @file Predictions for rows of a table in memory.
 */
#ifndef COPSE_PUBLIC_TRAIN_PREDICT_CELLS_H
#define COPSE_PUBLIC_TRAIN_PREDICT_CELLS_H

#include "copse/data/cells.h"
#include "copse/model.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Cells of one call that training did not know; data/schema.h says what takes their place. */
struct copse_cell_counts {
    size_t missing;       /**< missing cells */
    size_t unknown;       /**< categories that the schema has not */
    uint64_t reserved[4]; /**< set to 0 */
};

/** How to predict for cells. */
struct copse_predict_cells_params {
    copse_missing missing;
    copse_unknown unknown;
    struct copse_cell_counts *counts; /**< set, also on failure    [NULL] */
    uint64_t reserved[4];             /**< 0 */
};

/**
 * Predict for rows of a table, on this process's replicas. Columns are found by name; their order
 * may differ, and the label and other columns are passed over. Cells that training did not know
 * are replaced, with one warning in the log for each kind (`params`).
 *
 * The model keeps what it prepared: later calls with the same names, and no more rows than a call
 * before, allocate no host memory.
 * @param m       Of a table (COPSE_DATA_TABLE).
 * @param params  NULL for defaults.
 * @param values  [rows, outputs]: probabilities of classes, or values in the target's unit.
 * @retval COPSE_ERR_ARGUMENT  The model is not of a table. Otherwise as copse_dataset_cells and
 *                             copse_model_predict.
 * The thread of the model. Blocks until the values are there.
 */
COPSE_API COPSE_CHECKED copse_status
copse_model_predict_cells(copse_model *m, const struct copse_cells *cells,
                          const struct copse_predict_cells_params *params, float *values);

#if defined(__cplusplus)
}
#endif
#endif
