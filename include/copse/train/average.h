/* SPDX-License-Identifier: MIT */
/** @file Evaluation and saving with the moving averages of the variables (`average` of
 * copse_optimizer_params).
 *
 *     copse_trainer_average_begin(t);
 *     copse_trainer_evaluate(t, &batch, &result);   or copse_trainer_predict, copse_model_evaluate, copse_model_save, ...
 *     copse_trainer_average_end(t);                 training goes on with the same bits
 *
 * In between, each trained variable has the value of its slot "average". Variables that the trainer
 * does not update (frozen ones, statistics of batch normalisation) keep their values. Before the
 * first update the averages are the values.
 */
#ifndef COPSE_PUBLIC_TRAIN_AVERAGE_H
#define COPSE_PUBLIC_TRAIN_AVERAGE_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Give the variables their averages. Until copse_trainer_average_end, or until a restore, steps,
 * checkpoints and loads of this trainer are refused with COPSE_ERR_ARGUMENT, and the application
 * changes no variable of it. With several workers all of them call it, behind the same step. Takes
 * host memory of the size of the trained variables. Blocks.
 *
 * @retval COPSE_ERR_ARGUMENT     The optimizer has no average, or the variables have their averages
 *                                already.
 * @retval COPSE_ERR_UNSUPPORTED  Parameter servers have the variables: other workers would read the
 *                                averages and train them.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_average_begin(copse_trainer *t);
/**
 * Give the variables their values back, with the same bits. Blocks.
 * @retval COPSE_ERR_ARGUMENT  There was no copse_trainer_average_begin.
 * After another failure the trainer cannot be used any more, until it is restored.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_average_end(copse_trainer *t);

/** Whether the variables have their averages; false for NULL. */
COPSE_API bool copse_trainer_is_averaged(const copse_trainer *t);

#if defined(__cplusplus)
}
#endif
#endif
