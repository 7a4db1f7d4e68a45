/* SPDX-License-Identifier: MIT */
/** @file The monitor: runs a step repeatedly, writes checkpoints, resumes from the newest one, and
 * recovers from failed devices and lost workers.
 *
 * With several workers each has a monitor with the same settings, and all make the same calls; the
 * first worker accesses files and clock. With parameter servers each monitor runs on its own: the
 * chief saves and restores, the others write nothing and wait for the chief when they are made
 * (copse_trainer_restore).
 */
#ifndef COPSE_PUBLIC_MONITOR_H
#define COPSE_PUBLIC_MONITOR_H

#include "copse/loop/step.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_monitor copse_monitor;
typedef struct copse_cluster copse_cluster; /* distribute/cluster.h */

#define COPSE_NO_RETRIES UINT32_MAX

/** What the other workers do when one is lost. */
typedef enum copse_on_loss {
    COPSE_LOSS_STOPS, /**< the call fails and names the lost worker */
    /** they regroup (copse_cluster_regroup) and continue from the newest checkpoint with fewer
       replicas */
    COPSE_LOSS_CONTINUES,
} copse_on_loss;

/** Settings of a monitor. */
struct copse_monitor_params {
    /** for checkpoints step-<progress>.safetensors; made when it is missing; for one monitor at a
       time [NULL = no checkpoints] */
    const char *folder;
    const char *file;        /**< one file instead, which each checkpoint replaces [NULL] */
    uint64_t every_steps;    /**< checkpoint after so many steps      [0 = not by steps] */
    uint64_t every_progress; /**< or when the progress has grown by so much [0 = not by progress] */
    /** or after so much time, checked after each step [0 = not by time; all 0: 600] */
    double every_seconds;
    uint32_t keep;         /**< checkpoints to keep in the folder   [0 = 3] */
    uint32_t retries;      /**< how often to restart from one checkpoint after device failures
                                                                      [0 = 3; COPSE_NO_RETRIES] */
    copse_on_loss on_loss; /**< [COPSE_LOSS_STOPS] */
    /** workers that the step runs on [NULL = those of its strategy] */
    copse_cluster *cluster;
    /** refuse to start where there are checkpoints, instead of resuming */
    bool is_new;
    uint64_t reserved[8]; /**< 0 */
};

/**
 * Make a monitor. With a place for checkpoints it removes the temporary files of killed processes,
 * restores the newest undamaged checkpoint into the step (the log warns of each damaged one), or
 * writes a first one.
 * @param params  NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT     The step cannot be saved; settings of checkpoints without a place;
 *                                `folder` and `file`; `file` and `keep` > 1; `is_new` and a
 *                                checkpoint exists; a checkpoint of another model; or
 *                                COPSE_LOSS_CONTINUES without a place or `recover`.
 * @retval COPSE_ERR_UNSUPPORTED  COPSE_LOSS_CONTINUES over an engine that cannot regroup, or with
 *                                parameter servers.
 * @retval COPSE_ERR_FORMAT       All checkpoints are damaged.
 * @retval COPSE_ERR_IO           The place cannot be used.
 */
COPSE_API COPSE_CHECKED copse_status copse_monitor_create(copse_step *step,
                                                          const struct copse_monitor_params *params,
                                                          copse_monitor **out);
/** Writes no checkpoint. */
COPSE_API void copse_monitor_release(copse_monitor **monitor);

/**
 * In place of copse_trainer_fit where a run must survive kills, failed devices and lost workers:
 * run steps until `steps` have succeeded or the data ends, which is a success, with a checkpoint.
 *
 * After COPSE_ERR_DEVICE_LOST the step recovers, restores the last checkpoint and repeats the lost
 * steps; the log says so. With several workers the worker of a failed device fails instead. After
 * COPSE_ERR_COMM or COPSE_ERR_TIMEOUT with COPSE_LOSS_CONTINUES the remaining workers do the same.
 * If a checkpoint cannot be written (COPSE_ERR_IO), the log warns and the steps go on: the newest
 * checkpoint stays, and another is tried when it is due. The checkpoint at the end of the data is
 * no exception: its error is returned. Other errors are returned; the monitor stays usable.
 * @param steps  COPSE_ALL: until the data ends.
 * @param done   Steps that succeeded in this call, also on failure; NULL = not wanted.
 */
COPSE_API COPSE_CHECKED copse_status copse_monitor_run(copse_monitor *m, uint64_t steps,
                                                       uint64_t *done);

/** Write a checkpoint now, unless the newest one is of this state.
    @retval COPSE_ERR_ARGUMENT  The monitor has no place for checkpoints. */
COPSE_API COPSE_CHECKED copse_status copse_monitor_checkpoint(copse_monitor *m);

/** What a monitor has done. The texts are valid until the next call on the monitor. */
struct copse_monitor_info {
    const char *resumed_from; /**< the checkpoint that was restored first; NULL: none */
    const char *newest;       /**< the newest checkpoint; NULL: none */
    uint64_t saved;           /**< checkpoints written */
    uint64_t skipped;         /**< damaged checkpoints */
    uint64_t recoveries;      /**< failed devices and lost workers */
    uint64_t failed;          /**< checkpoints that could not be written */
    uint64_t reserved[3];     /**< 0 */
};
COPSE_API void copse_monitor_describe(const copse_monitor *m, struct copse_monitor_info *out);

#if defined(__cplusplus)
}
#endif
#endif
