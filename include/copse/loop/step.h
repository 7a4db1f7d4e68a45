/* SPDX-License-Identifier: MIT */
/** @file Steps: what a training loop repeats, as an object that a monitor (monitor.h) runs, saves
 * and restores.
 */
#ifndef COPSE_PUBLIC_STEP_H
#define COPSE_PUBLIC_STEP_H

#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Until the data ends. */
#define COPSE_ALL UINT64_MAX

typedef struct copse_step copse_step;

/** What a step can do. Each may be NULL; `save`, `restore` and `progress` come together. */
struct copse_step_functions {
    /** One step. COPSE_ERR_END: the data has ended. */
    copse_status (*run)(void *user);
    /** Write all state to a file, atomically; restore all of it or nothing. With parameter servers
        the path is "" for workers other than the chief, see copse_trainer_restore. */
    copse_status (*save)(void *user, const char *path);
    copse_status (*restore)(void *user, const char *path);
    /** A number that is part of the state and grows with every change of it, such as updates
        done. */
    uint64_t (*progress)(void *user);
    /** After a device failed or a worker was lost: release what is broken, call
        copse_cluster_regroup where workers are lost (copse_cluster_lost), and make it again.
        `restore` follows. */
    copse_status (*recover)(void *user);
    /** The step is released. */
    void (*release)(void *user);
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Make a step of the application's own functions.
 * @param strategy   What it runs on; NULL for none.
 * @param functions  NULL for none.
 * @param user       Passed to the functions. When this call fails, `release` is not called.
 * @retval COPSE_ERR_ARGUMENT  Only some of `save`, `restore` and `progress` are given.
 */
COPSE_API COPSE_CHECKED copse_status copse_step_create(copse_context *ctx, copse_strategy *strategy,
                                                       const struct copse_step_functions *functions,
                                                       void *user, copse_step **out);
COPSE_API copse_step *copse_step_retain(copse_step *step);
COPSE_API void copse_step_release(copse_step **step);

/** Its strategy or NULL; borrowed, until the step recovers. */
COPSE_API copse_strategy *copse_step_strategy(const copse_step *step);

/**
 * Run a step once, in a program that replaces the monitor (copse_monitor_run). Errors of `run` are
 * returned.
 * @retval COPSE_ERR_UNSUPPORTED  It has no `run`.
 * @retval COPSE_ERR_END          The data has ended.
 */
COPSE_API COPSE_CHECKED copse_status copse_step_run(copse_step *step);

#if defined(__cplusplus)
}
#endif
#endif
