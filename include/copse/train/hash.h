/* SPDX-License-Identifier: MIT */
/** @file
 * Hashes of the variables of a trainer, to compare two runs step by step. Moments of optimizers are
 * not hashed.
 *
 * A device computes a digest of each variable in its own memory; the host reads the digests alone.
 * Variables with equal bits have equal hashes. Others have equal hashes with a probability near
 * 2^-32.
 */
#ifndef COPSE_PUBLIC_TRAIN_HASH_H
#define COPSE_PUBLIC_TRAIN_HASH_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** The hash of a variable. */
struct copse_variable_hash {
    const char *name;
    uint64_t hash;
};

/** The hashes after a step. Lifetime: until the next copse_trainer_hash, or the end of the trainer.
 */
struct copse_trainer_hashes {
    uint64_t step; /**< steps so far */
    uint64_t all;  /**< of all variables, with their names */
    const struct copse_variable_hash *variables;
    size_t count;
};

/**
 * Hash what the newest step left: the variables that are trained, in order of creation, then the
 * ones that the step updates (train/update.h), such as the statistics of batch norm, if their bytes
 * are whole words of 4. Replica 0 computes it: one or two launches for each variable.
 * @retval COPSE_ERR_UNSUPPORTED  Parameter servers have the variables.
 * Blocks until queued steps have run. Not in the order of other workers: no worker waits for another
 * one.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_hash(copse_trainer *t,
                                                        struct copse_trainer_hashes *out);

/**
 * The hash of what a launch wrote.
 * @param launch  Its number on the replica, from 0, in the order of execution.
 * @param kernel  "matmul", "copy", ... Lifetime: of the call.
 */
typedef void copse_launch_hash_fn(void *user, uint32_t replica, size_t launch, const char *kernel,
                                  uint64_t hash);

/**
 * Hash the launches of the gradients in step number `step`, from 1: all replicas of this process
 * execute them one by one, and `fn` is called for each one, before the step goes on as always. The
 * bits of the step do not change. Of a step in micro-batches it is the first one; after an
 * all-reduce of the loss function launches read the result of the step before. A hash covers the
 * whole memory of a result, padding included.
 * @param step  0, or one that is done: none.
 * @param fn    May use nothing of the trainer. NULL: none.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_hash_launches(copse_trainer *t, uint64_t step,
                                                                 copse_launch_hash_fn *fn,
                                                                 void *user);

#if defined(__cplusplus)
}
#endif
#endif
