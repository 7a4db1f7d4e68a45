/* SPDX-License-Identifier: MIT */
/** @file
 * Batches uploaded ahead of their steps; trainer.h has `prefetch`, their number.
 */
#ifndef COPSE_PUBLIC_LOOP_FEED_H
#define COPSE_PUBLIC_LOOP_FEED_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Upload a batch ahead of its step, while the devices compute; copse_trainer_step takes it when its
 * batch is NULL. An accelerator strategy takes batches of one size for its next run
 * (distribute/accelerator.h).
 * @retval COPSE_ERR_ARGUMENT     `prefetch` batches are fed (`steps_per_run` with an accelerator),
 *                                or as copse_trainer_step. Earlier batches stay fed.
 * @retval COPSE_ERR_UNSUPPORTED  `prefetch` is 0, and the strategy is not an accelerator.
 * Blocks while the batch is copied, and while a new size is recorded.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_feed(copse_trainer *t,
                                                        const struct copse_host_batch *batch);
/** Batches that are fed. */
COPSE_API uint32_t copse_trainer_fed(const copse_trainer *t);
/** Drop them. */
COPSE_API void copse_trainer_unfeed(copse_trainer *t);

#if defined(__cplusplus)
}
#endif
#endif
