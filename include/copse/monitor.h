/* SPDX-License-Identifier: MIT */
/** @file
 * The monitor: runs a step again and again, writes checkpoints, goes on from the newest one after an
 * interruption, and brings a run back when a device failed or a worker was lost.
 *
 * Where a step runs on several workers, each has a monitor with the same settings, and all make the same
 * calls. The first worker alone looks at files and clock; saving and restoring are done by all.
 *
 * With parameter servers each worker has one, too, with the same place for checkpoints, but runs for itself.
 * The chief saves, and restores when its monitor is made; the others' monitors write nothing, and making one
 * calls the step's `restore` with an empty path, which waits for the chief (copse_trainer_restore). A worker
 * whose device fails is lost to the job.
 */
#ifndef COPSE_PUBLIC_MONITOR_H
#define COPSE_PUBLIC_MONITOR_H

#include "copse/step.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_monitor copse_monitor;
typedef struct copse_cluster copse_cluster; /* distribute/cluster.h */

#define COPSE_NO_RETRIES UINT32_MAX

/** What the survivors do when a worker is lost. */
typedef enum copse_on_loss {
    COPSE_LOSS_STOPS,     /**< the call fails and says who is gone */
    COPSE_LOSS_CONTINUES, /**< they connect anew and go on from the newest checkpoint, with fewer replicas:
                               copse_cluster_regroup says when they may */
} copse_on_loss;

/** Settings of a monitor. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_monitor_params {
    /** Folder for checkpoints, made when it is missing; files are named step-<progress>.safetensors.
        One monitor at a time may use it.                             [NULL = no checkpoints] */
    const char *folder;
    /** One file instead, which each checkpoint replaces.             [NULL] */
    const char *file;
    uint64_t every_steps; /**< checkpoint after so many steps         [0 = not by steps] */
    /** Or after a step with which its progress has grown by so much since the last one: for steps
        that train several times.                                     [0 = not by progress] */
    uint64_t every_progress;
    double every_seconds; /**< or when so much time has passed since the last one, looked at after a
                               step                  [0 = not by time; all 0: 600] */
    uint32_t keep;        /**< checkpoints kept in the folder         [0 = 3] */
    /** How often to start over from the last checkpoint when a device fails, without a new
        checkpoint in between.                                        [0 = 3; COPSE_NO_RETRIES] */
    uint32_t retries;
    copse_on_loss on_loss; /**< [COPSE_LOSS_STOPS] */
    /** The workers that the step runs on                    [NULL = those of its strategy] */
    copse_cluster *cluster;
    bool is_new;          /**< refuse to begin where there are checkpoints, instead of going on */
};

/**
 * Make a monitor. With a place for checkpoints: leftovers of killed processes are removed there; the
 * step takes over the newest checkpoint that is whole, with a warning in the log for each damaged one;
 * where there is none, a first one is written.
 *
 * @retval COPSE_ERR_ARGUMENT  A place for checkpoints, but the step cannot be saved; settings of
 *                             checkpoints, but no place; folder and file, or a file and `keep` > 1;
 *                             `is_new` and there is a checkpoint; a checkpoint is of another model; or
 *                             going on without lost workers, but no place or nothing to recover with.
 * @retval COPSE_ERR_UNSUPPORTED  Going on without lost workers, over an engine that cannot, or with
 *                             parameter servers, where they go on anyway.
 * @retval COPSE_ERR_FORMAT    There are checkpoints, and all are damaged.
 * @retval COPSE_ERR_IO        The place cannot be used.
 * Lifetime: retains the step. Thread-safety: one thread at a time.
 */
COPSE_API COPSE_CHECKED copse_status copse_monitor_create(copse_step *step,
                                                          const struct copse_monitor_params *params,
                                                          copse_monitor **out);
/** Writes nothing: see copse_monitor_checkpoint. */
COPSE_API void copse_monitor_release(copse_monitor **monitor);

/**
 * Run steps until `steps` have succeeded or the data ends. The end of data is no error: a checkpoint
 * is written, and the call returns. Every call counts anew; the data goes on where it was.
 *
 * When a device fails (COPSE_ERR_DEVICE_LOST) and there is a checkpoint, the step recovers, takes over
 * the last checkpoint, and repeats what was lost; a log line says so.
 *
 * When a worker is lost (COPSE_ERR_COMM, COPSE_ERR_TIMEOUT) and `on_loss` says so, the survivors do the
 * same, after the step's `recover` has connected them anew. The first of them must see the checkpoints.
 * With several workers a failed device is not opened again: its worker fails with COPSE_ERR_DEVICE_LOST, and is lost
 * to the others, whose text names it and the device. They do not wait for it.
 *
 * @param steps  How many; COPSE_ALL: until the data ends.
 * @param done   Receives the steps that succeeded in this call, on failure too; NULL to skip.
 * Any other error is returned as it came; the monitor stays usable, and the checkpoints are as they were.
 */
COPSE_API COPSE_CHECKED copse_status copse_monitor_run(copse_monitor *m, uint64_t steps,
                                                       uint64_t *done);

/** Write a checkpoint now, unless the newest one is of this state.
 * @retval COPSE_ERR_ARGUMENT  The monitor has no place for them. */
COPSE_API COPSE_CHECKED copse_status copse_monitor_checkpoint(copse_monitor *m);

/** What a monitor has done so far. Lifetime of the texts: until the next call on the monitor. */
struct copse_monitor_info {
    const char *resumed_from; /**< the checkpoint taken over when it was made; NULL: none */
    const char *newest;       /**< the newest one; NULL: none */
    uint64_t saved;           /**< checkpoints written */
    uint64_t skipped;         /**< damaged ones passed over */
    uint64_t recoveries;      /**< failed devices and lost workers survived */
};
COPSE_API void copse_monitor_describe(const copse_monitor *m, struct copse_monitor_info *out);

/** A checkpoint in a monitor's folder. */
struct copse_found_checkpoint {
    uint64_t progress; /**< of the step, as the file's name has it */
    char path[4096];
};

/**
 * Find a checkpoint in the folder of a monitor, for a process beside it that only reads, such as an evaluator.
 * Nothing is opened, and nothing changed. The monitor may remove the file again before it is read (`keep`): then
 * reading fails with COPSE_ERR_IO, and the next call finds another one.
 *
 * @param from       Only checkpoints of this progress or more.
 * @param is_newest  Of these the newest, else the oldest.
 *
 * @retval COPSE_ERR_END       There is none now. Leaves the text of the last error as it was.
 * @retval COPSE_ERR_IO        The folder cannot be listed, for example because it is not there yet.
 * @retval COPSE_ERR_ARGUMENT  A pointer is NULL, the path is empty, or too long for `path`.
 * Thread-safety: any. Blocking: while the folder is listed.
 */
COPSE_API COPSE_CHECKED copse_status copse_monitor_find(copse_context *ctx, const char *folder, uint64_t from,
                                                        bool is_newest, struct copse_found_checkpoint *out);

#if defined(__cplusplus)
}
#endif
#endif
