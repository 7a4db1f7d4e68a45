/* SPDX-License-Identifier: MIT */
/** @file The state of a training run: written to a file, and restored from one. docs/checkpoints.md
 * describes the file.
 *
 * With a collective strategy all workers make these calls; the first writes and reads, and the
 * others' paths may be NULL. Either all workers succeed or all fail. With parameter servers the
 * chief writes and reads, while other workers train.
 */
#ifndef COPSE_PUBLIC_STATE_H
#define COPSE_PUBLIC_STATE_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* data/checkpoint.h, as copse_named_array and copse_metadata */
typedef struct copse_checkpoint copse_checkpoint;

/** A position in the data: the next batch, as copse_loader_start takes it. */
struct copse_position {
    uint32_t epoch; /**< from 0 */
    uint64_t batch; /**< in the epoch, from 0 */
};

/** What a checkpoint holds in addition to the trainer's state. */
struct copse_state_params {
    struct copse_position position;
    const struct copse_named_array *arrays; /**< names begin with "application/"   [NULL] */
    size_t array_count;
    const struct copse_metadata *metadata; /**< keys begin with "application."    [NULL] */
    size_t metadata_count;
    uint64_t reserved[4];
};

/**
 * Write every variable, and nothing else, as safetensors, atomically.
 * @retval COPSE_ERR_ARGUMENT  There is no path.
 * @retval COPSE_ERR_IO        The file cannot be written; an older file is unchanged.
 * @retval COPSE_ERR_COMM      Another worker could not take part, or is lost; the text names it.
 * Blocks until queued steps have run and the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_save(copse_trainer *t, const char *path);

/**
 * Write everything that a run needs to continue: variables, slots, step counter, seed, measured
 * weights of shards, the position in the data, and the slots and counts of the strategy's tower
 * optimizers. Atomic; the same state gives the same bytes. With parameter servers each server's
 * part is of one moment.
 * @param params  NULL: position 0, nothing more.
 * @retval COPSE_ERR_NONFINITE  A trained variable is NaN or infinite.
 * @retval COPSE_ERR_ARGUMENT   No path; a name that is not allowed, or two entries of one name; or
 *                              micro-batches since the last update.
 * @retval COPSE_ERR_IO         The file cannot be written; an older file is unchanged.
 * @retval COPSE_ERR_COMM       Another worker could not take part, or is lost; the text names it.
 * Blocks until queued steps have run and the bytes are on the disk.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_checkpoint(
    copse_trainer *t, const char *path, const struct copse_state_params *params);

/**
 * Restore a checkpoint: all of it, or nothing. With the same replicas, devices and settings the run
 * continues with the same bits; with others sums round differently. Untaken results, micro-batches
 * since the last update and fed batches are dropped. A trainer whose last update was interrupted
 * becomes usable again. Settings that differ from the checkpoint's are kept and logged; the seed of
 * dropout is restored.
 *
 * With parameter servers all workers make the call before they train. The chief reads the file; the
 * others wait until it has restored or written a checkpoint. They get their own position, or with
 * another number of workers the slowest one's, and no `file`.
 * @param position  Where to continue in the data; NULL = not wanted.
 * @param file      The file, with the application's arrays and metadata; NULL = not wanted.
 * @retval COPSE_ERR_IO        The file cannot be read.
 * @retval COPSE_ERR_FORMAT    It is damaged, or not a checkpoint of a trainer.
 * @retval COPSE_ERR_ARGUMENT  It is of another model or optimizer; the text names the missing or
 *                             surplus entry. Or there is no path.
 * @retval COPSE_ERR_SHAPE     An entry has another type or shape than its variable; the text names
 *                             it.
 * @retval COPSE_ERR_COMM      Another worker could not take part, or is lost; the text names it.
 * @retval COPSE_ERR_TIMEOUT   The chief has not restored within the cluster's deadline.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_restore(copse_trainer *t, const char *path,
                                                           struct copse_position *position,
                                                           copse_checkpoint **file);

#if defined(__cplusplus)
}
#endif
#endif
