/* SPDX-License-Identifier: MIT */
/** @file
 * The state of a training run: written to a file, and taken over from one. docs/checkpoints.md describes the file.
 */
#ifndef COPSE_PUBLIC_STATE_H
#define COPSE_PUBLIC_STATE_H

#include "copse/checkpoint.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Write every variable, and nothing else, as safetensors, atomically: see checkpoint.h. With several workers in step
 * all call this, and the first writes; the others' `path` is not looked at, and may be NULL.
 * @retval COPSE_ERR_ARGUMENT     There is no path.
 * @retval COPSE_ERR_IO           The file cannot be written; what stood there is untouched.
 * @retval COPSE_ERR_DEVICE_LOST  A device failed, now or in the last update.
 * @retval COPSE_ERR_COMM         Another worker could not take part, or is lost; the text names it.
 * Blocking: until queued steps have run and the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_save(copse_trainer *t, const char *path);

/** Where a run stands in its data: the batch that comes next, as `copse_batches_start` takes it. */
struct copse_position {
    uint32_t epoch; /**< from 0 */
    uint64_t batch; /**< in the epoch, from 0 */
};

/** What goes into a checkpoint beside the trainer's own state. Zeroed: the start of the data. */
struct copse_state_params {
    struct copse_position position;
    const struct copse_named_array *arrays; /**< names begin with "application/"   [NULL] */
    size_t array_count;                     /**<                                   [0] */
    const struct copse_metadata *metadata;  /**< keys begin with "application."    [NULL] */
    size_t metadata_count;                  /**<                                   [0] */
};

/**
 * Write all that a run needs to go on: variables, optimizer slots, step counter, seed, position in the data; of
 * the strategy's tower optimizers (copse/compat/replicated.h) the slots and counts. One entry per variable and slot,
 * whatever the number of replicas. Atomic: under `path` stands the old file or the new one, also after a power
 * cut; the same state gives the same bytes. Shares that were measured are in it, too. With several workers in
 * step all call this; the first writes, when all can take part, and the others' `params` and `path`, which may be
 * NULL, are for their texts alone. With parameter servers the chief alone writes, whoever calls: for each server the
 * values, slots, count of updates and every worker's place in its data as they were at one moment, the servers one
 * after the other, while other workers train on. A step of which one server was looked at before and another
 * one after it comes again.
 *
 * @param params  NULL: position 0, nothing beside.
 *
 * @retval COPSE_ERR_NONFINITE    A trained variable is NaN or infinite; nothing was written.
 * @retval COPSE_ERR_DEVICE_LOST  A device failed, now or in the last update; nothing was written.
 * @retval COPSE_ERR_ARGUMENT     No path; a name that is not allowed, or two entries of one name: a variable
 *                                "w/m" beside a slot "m" of a variable "w". Or micro-batches are
 *                                gathered since the last update.
 * @retval COPSE_ERR_IO           The file cannot be written; what stood there is untouched.
 * @retval COPSE_ERR_COMM         Another worker could not take part, or is lost; the text names it.
 * Blocking: until queued steps have run and the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_checkpoint(
    copse_trainer *t, const char *path, const struct copse_state_params *params);

/**
 * Take over the state of a checkpoint: all of it, or nothing. With the same replicas, devices and
 * settings the run goes on with the same bits as if it had not been interrupted. The number of
 * replicas and the devices may be others; then the sums round differently. Results not yet taken,
 * micro-batches gathered since the last update and batches fed for a run are dropped. A trainer whose last
 * update was cut short is whole again, if its devices still work.
 *
 * With several workers in step all call this. The first reads the file and sends it to the others, who get
 * the same `position` and `file`, and whose `path` is for their texts alone and may be NULL; nobody is changed unless
 * all can be.
 *
 * With the parameter servers of a job all workers call it, too, before they train. The chief reads the file and
 * sets what the servers keep. Others do not look at `path`: they wait until the chief has done so, or has
 * written a checkpoint since its trainer was made, and get this worker's own steps and `position` (what
 * `copse_host_batch` said in its last step, and one batch more) and no `file`. With more or fewer workers than
 * then, all go on where the slowest was.
 *
 * @param position  Receives where to go on in the data; NULL to skip.
 * @param file      Receives the file, with the application's arrays and metadata; NULL to skip.
 *
 * @retval COPSE_ERR_IO        The file cannot be read.
 * @retval COPSE_ERR_FORMAT    It is damaged (format, checksum), or is no checkpoint of a trainer.
 * @retval COPSE_ERR_ARGUMENT  It is of another model or optimizer: the text names the entry that is
 *                             missing or too much. Or there is no path.
 * @retval COPSE_ERR_SHAPE     An entry has another type or shape than its variable; the text names it.
 * @retval COPSE_ERR_COMM      Another worker could not take part, or is lost; the text names it.
 * @retval COPSE_ERR_TIMEOUT   The chief has not done it within the cluster's deadline.
 * Other settings than the checkpoint's (learning rate, seed of the variables, ...) are kept, and
 * logged as a warning where they change the run; the seed of dropout is the checkpoint's.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_restore(copse_trainer *t, const char *path,
                                                           struct copse_position *position,
                                                           copse_checkpoint **file);

#if defined(__cplusplus)
}
#endif
#endif
