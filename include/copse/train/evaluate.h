/* SPDX-License-Identifier: MIT */
/** @file
 * Comparison of a model's predictions with labels.
 */
#ifndef COPSE_PUBLIC_TRAIN_EVALUATE_H
#define COPSE_PUBLIC_TRAIN_EVALUATE_H

#include "copse/model.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What to compute besides the mean values. */
struct copse_evaluation_params {
    /** receives the number of rows of each label and prediction, [classes, classes] [NULL] */
    uint64_t *confusion;
    /** receives the rows with the largest loss, the largest first [NULL] */
    uint32_t *worst;
    /** receives their losses [NULL] */
    double *worst_losses;
    size_t worst_count; /**< room in `worst` and `worst_losses` */
    /** of a regression: receives the coefficient of determination of each target [NULL] */
    double *target_r2;
    /** and the mean absolute error of each target in its unit, [targets] [NULL] */
    double *target_mae;
    /** of a classification: receives the area under the ROC curve of each class against the
       others, [classes]; NaN: a class without rows, the only one, or tokens of a text. Keeps the probabilities of all
       rows in memory [NULL] */
    double *class_auc;
    uint64_t reserved[1]; /**< 0 */
};

/** Mean values over all rows; of a text over all tokens that are predicted. */
struct copse_evaluation {
    size_t rows;
    double loss;     /**< as copse_model_loss */
    double accuracy; /**< of a classification; of a text the share of tokens */
    /** of a regression: coefficient of determination, averaged over targets; NaN: constant
       labels */
    double r2;
    /** of a regression: mean absolute error in the unit of the target, averaged over targets */
    double mae;
    size_t worst_count; /**< rows in `worst` */
    /** of a text: the loss in bits, for each byte of the tokens that are predicted. Comparable
       between kinds of tokens, as `loss` is not */
    double bits_per_byte;
    /** of a classification: mean recall of the classes that have rows */
    double balanced_accuracy;
    /** and mean F1 of the classes that have rows or were predicted */
    double f1;
    uint64_t reserved[1]; /**< 0 */
};

/**
 * Compare predictions with labels.
 * @param data    As for copse_model_predict, with labels.
 * @param params  NULL: nothing more.
 * @retval COPSE_ERR_ARGUMENT  The data is of another schema, or has no labels.
 * @retval COPSE_ERR_TIMEOUT   A device does not answer.
 * Blocks until all rows are computed.
 */
COPSE_API COPSE_CHECKED copse_status
copse_model_evaluate(copse_model *m, const copse_dataset *data,
                     const struct copse_evaluation_params *params, struct copse_evaluation *out);

#if defined(__cplusplus)
}
#endif
#endif
