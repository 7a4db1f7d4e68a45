/* SPDX-License-Identifier: MIT */
/** @file The loss that a model is trained with, by name. A description is a name and settings,
 * separated by spaces: `huber delta=0.5`.
 *
 * | description | model | loss | |---|---|---| | `cross_entropy [smoothing=E] [weights=W,...]
 * [ignore=N]` | classes, text | copse_cross_entropy: label smoothing E, a weight for each class,
 * or `weights=balanced`, examples of class N count nothing | | `binary_cross_entropy [positive=W]` | classes, text |
 * copse_binary_cross_entropy of each class against the others; W: weight of the class of the
 * example | | `mean_squared_error` | numbers | the mean of the squared errors | | `huber
 * [delta=D]`, `smooth_l1 [beta=B]` | numbers | copse_huber_loss [1], copse_smooth_l1_loss [1; 0:
 * the mean of the errors' magnitudes] | | `cosine` | numbers, 2 or more targets | 1 -
 * copse_cosine_similarity of outputs and targets |
 *
 * copse_model_evaluate reports cross-entropy and mean squared error, whatever the loss is.
 */
#ifndef COPSE_PUBLIC_TRAIN_MODEL_LOSS_H
#define COPSE_PUBLIC_TRAIN_MODEL_LOSS_H

#include "copse/model.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Choose the loss of copse_model_loss, before the model's first trainer. It is no part of the
 * model's file.
 * @retval COPSE_ERR_ARGUMENT  The text is no description, or the loss is not one for this model:
 *                             the error lists the names.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_set_loss(copse_model *m, const char *text);

/**
 * Give the classes of `weights=balanced` the weights of scikit-learn's class_weight="balanced":
 * rows / (classes * rows of the class), over the rows of `data` whose class is not ignored.
 * copse_model_fit does it; other loops call it before the model's first trainer. Other losses stay
 * as they are.
 * @param data  What trains: column "y" is an i32 for each row.
 * @retval COPSE_ERR_ARGUMENT  It has no such column, or more classes than the model.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_balance_loss(copse_model *m,
                                                              const copse_dataset *data);

/** Check a description without a model. Any thread. @retval COPSE_ERR_ARGUMENT  The error lists names or settings. */
COPSE_API COPSE_CHECKED copse_status copse_model_check_loss(const char *text);

#if defined(__cplusplus)
}
#endif
#endif
