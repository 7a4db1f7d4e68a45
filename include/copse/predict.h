/* SPDX-License-Identifier: MIT */
/** @file
 * Predictions with the variables of a trainer.
 */
#ifndef COPSE_PUBLIC_PREDICT_H
#define COPSE_PUBLIC_PREDICT_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Builds what a network predicts for one replica's shard, f32 or i32, [examples of the shard, ...],
    under the rules of a copse_loss_fn. `in->is_training` is false. */
typedef copse_tensor *copse_predict_fn(copse_graph *g, const copse_batch *in, void *user);

/**
 * Compute a function of a batch on the replicas of this process, with the variables as after the
 * last step that was begun. Nothing is trained. Other workers take no part. A repeated call with a
 * batch of the same size and inputs allocates nothing.
 *
 * A batch is split as for a step; across several workers, and while measured weights are unknown,
 * evenly. A replica-local variable (COPSE_SYNC_ON_READ) has its replica's own value.
 *
 * @param fn      One recording is kept for each pair of `fn` and `user`, replica and size of shard;
 *                `recordings` of the trainer limits their number.
 * @param values  The result, row-major, in the order of the batch's rows.
 * @param bytes   Of `values`: exactly those of the result.
 * @retval COPSE_ERR_ARGUMENT     The batch is empty or lacks an input.
 * @retval COPSE_ERR_SHAPE        The result of `fn` has no row for each example, or replicas differ
 *                                in the shape of a row; or `bytes` is not the size of the result.
 * @retval COPSE_ERR_UNSUPPORTED  The result is neither f32 nor i32, or depends on a sum over
 *                                replicas (distribute/sync.h).
 * @retval COPSE_ERR_TIMEOUT      A device does not answer; it may still write to `values`.
 * Blocks until the values are in host memory.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_predict(copse_trainer *t, copse_predict_fn *fn,
                                                           void *user,
                                                           const struct copse_host_batch *batch,
                                                           void *values, size_t bytes);

#if defined(__cplusplus)
}
#endif
#endif
