/* SPDX-License-Identifier: MIT */
/** @file
 * One batch of examples in host memory: what `copse_batches_next` gives and a trainer takes.
 */
#ifndef COPSE_BATCH_H
#define COPSE_BATCH_H

#include <stddef.h>
#include <stdint.h>

/** One global batch. A zeroed struct with x, y and count set is complete. */
struct copse_host_batch {
    const float *x;       /**< features, row-major [count, example...] */
    const void *y;        /**< labels, i32 [count], or f32 targets [count, target...]; NULL = none */
    const uint32_t *rows; /**< the rows of the dataset they come from; NULL = unknown */
    size_t count;         /**< examples */
    uint32_t epoch;       /**< from 0 */
    size_t index;         /**< of the batch in the epoch, from 0 */
    uint64_t first;       /**< position of its first example in the epoch, for dropout */
};

/** How the n rows of a batch become one minibatch for each of R replicas, in row order. Minibatches may be
    empty. Input plans know the first three, which need nothing but numbers; trainers know all. */
typedef enum copse_shard_rule {
    COPSE_SHARD_BALANCED, /**< "balanced": sizes differ by at most one, earlier replicas have more */
    COPSE_SHARD_CEIL,     /**< "ceil": ceil(n / R) each until the rows are used up */
    COPSE_SHARD_FIXED,    /**< "fixed": full batch / R each until the rows are used up; R divides a
                               full batch */
    COPSE_SHARD_WEIGHTED, /**< "weighted": in proportion to weights, for devices of different speed */
    COPSE_SHARD_MEASURED, /**< "measured": the first step runs every replica alone a few times and sets the
                               weights in proportion to their speed; they are then frozen. Runs whose
                               figures must be repeated give them back: copse_trainer_shares,
                               COPSE_SHARD_WEIGHTED. Not on a collective strategy */
} copse_shard_rule;

#endif
