/* SPDX-License-Identifier: MIT */
/** @file
 * Steps: what a training loop repeats, as an object that a monitor (monitor.h) can run, save and
 * bring back.
 *
 * Objects of this header: one thread at a time.
 */
#ifndef COPSE_PUBLIC_STEP_H
#define COPSE_PUBLIC_STEP_H

#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Means: until the data ends, or for ever. */
#define COPSE_ALL UINT64_MAX

typedef struct copse_step copse_step;

/** What a step can do. All may be NULL; `save`, `restore` and `progress` come together. */
struct copse_step_functions {
    /** One step. COPSE_ERR_END: the data has ended; what was done before stays. */
    copse_status (*run)(void *user);
    /** Write all state to a file, atomically; bring it back, all or nothing. With parameter servers the path
        is "" for workers beside the chief, who take over what it has restored: see copse_trainer_restore. */
    copse_status (*save)(void *user, const char *path);
    copse_status (*restore)(void *user, const char *path);
    /** A number that grows with every change of the state and is part of it: such as updates done. */
    uint64_t (*progress)(void *user);
    /** Make anew what a failed device or a lost worker took along: release it; where workers are lost
        (copse_cluster_lost), call copse_cluster_regroup; make it. `restore` follows. */
    copse_status (*recover)(void *user);
    /** The step is released. */
    void (*release)(void *user);
};

/**
 * A step of the application's own functions.
 * @param strategy  What it runs on, retained; NULL for none.
 * @param functions  NULL for none.
 * @param user      Passed to the functions. When this call fails, `release` is not called.
 * @retval COPSE_ERR_ARGUMENT  `save`, `restore` and `progress` are not all there or all NULL.
 * Lifetime: retains the context.
 */
COPSE_API COPSE_CHECKED copse_status copse_step_create(copse_context *ctx, copse_strategy *strategy,
                                                       const struct copse_step_functions *functions,
                                                       void *user, copse_step **out);
COPSE_API copse_step *copse_step_retain(copse_step *step);
COPSE_API void copse_step_release(copse_step **step);

/** Its strategy or NULL. Lifetime: that of the step, or until it recovers from a failed device. */
COPSE_API copse_strategy *copse_step_strategy(const copse_step *step);

/**
 * Run it once.
 * @retval COPSE_ERR_UNSUPPORTED  It is abstract: it has no `run`.
 * @retval COPSE_ERR_END          The data has ended.
 * Other errors are those of `run`.
 */
COPSE_API COPSE_CHECKED copse_status copse_step_run(copse_step *step);

#if defined(__cplusplus)
}
#endif
#endif
