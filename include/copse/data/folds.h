/* SPDX-License-Identifier: MIT */
/** @file Parts for cross-validation: each row is held out in one fold and trains in all others.
 * `copse train --folds K` does it with a table; in Python cross_val_score of scikit-learn takes a
 * Classifier or a Regressor.
 */
#ifndef COPSE_PUBLIC_DATA_FOLDS_H
#define COPSE_PUBLIC_DATA_FOLDS_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Which fold of how many. */
struct copse_fold_params {
    uint32_t folds; /**< 2 to the number of rows */
    uint32_t fold;  /**< from 0: the fold that is held out */
    uint64_t seed;  /**< of the order of the rows; the same for all folds  [0] */
    /** each fold has of each class the same number of rows, or one more [false] */
    bool stratify;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Divide the rows by a fold. Folds have the same number of rows, or one more. Both parts share
 * memory, files and schema with `data`, as in copse_dataset_split.
 * @retval COPSE_ERR_ARGUMENT  Other numbers; the data is a text, whose windows overlap; `stratify`
 *                             and no column "y" with a class for each row.
 * Any thread.
 */
COPSE_API COPSE_CHECKED copse_status copse_dataset_fold(copse_dataset *data,
                                                        const struct copse_fold_params *params,
                                                        copse_dataset **train,
                                                        copse_dataset **held_out);

#if defined(__cplusplus)
}
#endif
#endif
