/* SPDX-License-Identifier: MIT */
/** @file Training inside an application that has other work for its thread and its device: all that
 * compiles is done before the first step, and a step is executed in slices of a few milliseconds
 * (docs/embedding.md).
 */
#ifndef COPSE_PUBLIC_TRAIN_ADVANCE_H
#define COPSE_PUBLIC_TRAIN_ADVANCE_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What copse_trainer_prepare makes ready besides copse_trainer_step. */
struct copse_prepare_params {
    bool advances;  /**< copse_trainer_advance: recordings are divided into slices [false] */
    bool evaluates; /**< copse_trainer_evaluate for a batch like this one [false] */
    uint64_t reserved[4];
};

/**
 * Record, compile and cross-check what a step needs for batches like this one, and execute the
 * recordings once, so that the driver has compiled them, too. The first such step afterwards
 * compiles, records and allocates nothing (but with `prefetch`: the slots of batches that are fed;
 * and audits, train/audit.h).
 * No variable, slot, count or random number changes; a schedule of the application is asked for the
 * next step. Call it again for other sizes, such as the last batch of an epoch.
 *
 * Any thread, while no other thread uses the trainer or its strategy: a thread of the application
 * may make it while another one renders. The `progress` of the context comes from the thread of the
 * call. copse_trainer_cancel ends it before the next recording or check.
 *
 * @param batch   Inputs of the shapes and types to come. The values are computed with, not trained.
 * @param params  NULL: all false.
 * @retval COPSE_ERR_ARGUMENT     Gradients of micro-batches are accumulated (flush first), or as
 *                                copse_trainer_step.
 * @retval COPSE_ERR_CANCELLED    What is recorded so far is kept.
 * @retval COPSE_ERR_UNRELIABLE   The cross-check found wrong results.
 * @retval COPSE_ERR_UNSUPPORTED  `advances`: see copse_trainer_advance.
 * Blocks.
 */
COPSE_API COPSE_CHECKED copse_status
copse_trainer_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                      const struct copse_prepare_params *params);

/** What copse_trainer_advance has done. */
struct copse_advance {
    bool is_step_done;   /**< the batch is trained, as by copse_trainer_step */
    bool is_in_progress; /**< it is begun and not complete: the next call continues */
    uint32_t slices;     /**< that this call has executed, at least 1 without an error */
    uint64_t used_us;    /**< time that the call took [us] */
    uint64_t next_us;    /**< measured time of the next slice; 0 = not measured yet [us] */
    uint64_t left_us;    /**< measured time until the batch is trained, or of a whole one where none
                              is in progress; 0 = not measured yet [us] */
    uint64_t reserved[4];
};

/**
 * Do as much of a step as fits into a time, and return. The first call begins copse_trainer_step
 * for its batch; later calls continue where the one before has ended, between any two launches,
 * until the batch is trained. Whatever the times are, all results have the bits of
 * copse_trainer_step. A slice is begun if its measured time fits into the rest of the budget; a
 * slice that was never measured is executed alone. The call returns when the devices are done with
 * its slices, so a frame that is submitted next does not wait for training. It ends with the batch,
 * even if time is left: take the next batch and call again with the rest.
 *
 * Slices are launches, exchanges of a bucket between devices, and the end of the update. If one is
 * longer than the budget, the log says so once; smaller batches make shorter launches. An audited
 * step (train/audit.h) computes its gradients for the first time in one slice.
 *
 * While a batch is in progress, every other call that uses the trainer, the variables or another
 * trainer of the strategy finishes the step first, without regard to a budget, and returns the
 * error of the step where that fails. copse_trainer_steps and copse_trainer_result count the step
 * when it is complete; copse_trainer_cancel lets the next call drop it, unless its update has
 * begun. After an error no batch is in progress.
 *
 * The first call records again what was recorded without slices (copse_trainer_prepare avoids it),
 * unless batches are fed: a warning says that.
 *
 * @param batch         As for copse_trainer_step; not read, and may be NULL, while a batch is in
 *                      progress.
 * @param microseconds  0: one slice.
 * @param out           NULL: not wanted.
 * @retval COPSE_ERR_UNSUPPORTED  The strategy has several workers or a parameter server: others
 *                                would wait within the step.
 * Otherwise as copse_trainer_step. The same thread as other calls of the trainer.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_advance(copse_trainer *t,
                                                           const struct copse_host_batch *batch,
                                                           uint64_t microseconds,
                                                           struct copse_advance *out);

#if defined(__cplusplus)
}
#endif
#endif
