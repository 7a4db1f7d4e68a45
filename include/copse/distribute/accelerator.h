/* SPDX-License-Identifier: MIT */
/** @file The accelerator strategy: several training steps to one call of the host, run as one loop
 * on the device.
 *
 * Replicas run on *cores*. A core is an entry of the list of devices; entries of one device are
 * *logical cores*, which share the device, opened once, and its one queue. Where all replicas do, a
 * run of K steps is queued as a whole, sums over replicas and updates included, and started with
 * one submission; the host waits only when results are requested. This saves time where a step is
 * short.
 *
 * Between different devices a sum needs the host, in every step. Such a run is the same call with
 * the same results, but the host takes part: copse_accelerator_is_resident returns which of the two
 * it is, copse_strategy_submissions the number of submissions.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_ACCELERATOR_H
#define COPSE_PUBLIC_DISTRIBUTE_ACCELERATOR_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Most steps to a run. */
#define COPSE_MAX_STEPS_PER_RUN 1024

/** Settings of an accelerator strategy. A zeroed struct, or NULL, means the defaults in
    brackets. */
struct copse_accelerator_params {
    /** transfer STAGED, on one device: copies instead of reading in place */
    struct copse_strategy_params strategy;
    uint32_t steps_per_run; /**< batches taken ahead, at most COPSE_MAX_STEPS_PER_RUN   [0 = 1] */
    uint32_t cores;         /**< replicas  [0 = one on every core; with an assignment needed] */
    const uint32_t *assignment; /**< the core of each replica, `cores` different ones; copied
                                     [NULL = replica r on core r] */
    uint64_t reserved[4];       /**< 0 */
};

/**
 * Replicas on the first `cores` of the listed devices, in the order of their ids: by name, then by
 * number, so that opencl:2 comes before opencl:10, whatever the order of the list. With the same
 * devices, results have the bits of a mirrored strategy whose replicas have that order and run the
 * same kernels.
 *
 * Variables, contexts, runs and values are those of a mirrored strategy; its MEAN divides after the
 * sum. There is no separate call to start or to end it: this one and copse_strategy_release are
 * all.
 *
 * @param devices  Ids; one may occur several times.
 * @retval COPSE_ERR_ARGUMENT   More cores than there are, an assignment to no core or twice to one,
 *                              too many steps to a run.
 * @retval COPSE_ERR_NO_DEVICE  A chosen device is not there, or not usable.
 * Lifetime, threads, blocking: as for copse_mirrored_create.
 */
COPSE_API COPSE_CHECKED copse_status
copse_accelerator_create(copse_context *ctx, const char *const *devices, size_t count,
                         const struct copse_accelerator_params *params, copse_strategy **out);

/** Batches that a trainer of the strategy takes ahead; 1 for strategies of other kinds. */
COPSE_API uint32_t copse_accelerator_steps_per_run(const copse_strategy *st);
/** The core of a replica: its place among the listed devices in the order of ids, from 0.
    UINT32_MAX when there is no such replica or the strategy is of another kind. */
COPSE_API uint32_t copse_accelerator_core(const copse_strategy *st, uint32_t replica);
/** Whether it is an accelerator all of whose replicas share one queue, so that runs need no
    host. */
COPSE_API bool copse_accelerator_is_resident(const copse_strategy *st);

/* ---- runs of several steps ---- */

/*
 * copse_trainer_feed takes a batch for the next run: it is uploaded to the devices, and nothing is
 * computed. Memory for `steps_per_run` batches is allocated with the first batch of a size. Shapes
 * within a run are static: every batch has as many examples as the first. The last, smaller batch
 * of an epoch needs a run of its own or copse_trainer_step, or is left out (`drop_last`).
 *
 * Other strategies take up to `prefetch` batches of any sizes. copse_trainer_step takes the oldest
 * when its batch is NULL:
 *
 *     feed 0; for n = 0, 1, ...: feed n + 1; step NULL (trains on n while n + 1 is uploaded)
 */

/**
 * In a program with a loop of its own instead of copse_trainer_fit, which makes the call: run one
 * training step on each batch that was taken, in their order, with the bits of as many calls of
 * copse_trainer_step, and the same results through copse_trainer_result. Twice `steps_per_run`
 * results, at least COPSE_STEPS_IN_PROGRESS, are kept. Losses and reports stay on the device until
 * the end of the run. Nothing is done when no batch was taken. With `accumulate` every batch is a
 * micro-batch. Strategies of other kinds call copse_trainer_step on each.
 *
 * On a resident strategy the host submits once. The exceptions are check_numerics, check_gradients,
 * summarize_gradients and cross-device operations of the application, for which it has to look at
 * every step. A run is one piece of work for
 * the driver: keep it well below the time after which a driver takes a device for hanging, often 2
 * s.
 *
 * @retval COPSE_ERR_CANCELLED  Between two steps, or in one before its update. As with every error
 *                              that copse_trainer_step returns and after which the trainer is
 *                              usable: the steps before stay done and are counted by
 *                              copse_trainer_steps, batches that are left are dropped.
 * Blocking: resident: only while results of earlier runs are not taken; else as
 * copse_trainer_step.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_run(copse_trainer *t);

/** Submissions to the queues of this worker's replicas since they were made, see
    copse_queue_submissions. Those of batches that are uploaded ahead of their steps, on other
    queues, are not counted. */
COPSE_API uint64_t copse_strategy_submissions(const copse_strategy *st);

#if defined(__cplusplus)
}
#endif
#endif
