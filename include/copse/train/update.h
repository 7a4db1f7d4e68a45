/* SPDX-License-Identifier: MIT */
/** @file
 * Assignments to variables in a training step or a call: moving averages, counters.
 */
#ifndef COPSE_PUBLIC_TRAIN_UPDATE_H
#define COPSE_PUBLIC_TRAIN_UPDATE_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * In a loss function: assign a tensor to a variable that is not trained, with each training
 * (micro-)batch whose losses and gradients pass the checks. The loss function reads the value
 * before the update. Evaluation updates nothing. In a function of a call (distribute/call.h):
 * assign to any variable, with every call.
 *
 * A replica-local variable (COPSE_SYNC_ON_READ) takes its replica's own value. Of others the
 * aggregation decides, with the same bits on all replicas of all workers: SUM; MEAN, weighted by
 * examples; ONLY_FIRST_REPLICA, the first replica with examples. With parameter servers the newest
 * assignment counts.
 * @param value  Of the variable's type and shape.
 * @retval COPSE_ERR_ARGUMENT     The variable is trained (in a loss function of a trainer), is
 *                                updated twice, or has no aggregation although several replicas
 *                                write it.
 * @retval COPSE_ERR_SHAPE        Another type or shape.
 * @retval COPSE_ERR_UNSUPPORTED  The graph is no trainer's and no call's; or several replicas write an i32
 *                                variable.
 */
COPSE_API void copse_update(copse_graph *g, copse_variable *v, copse_tensor *value);

#if defined(__cplusplus)
}
#endif
#endif
