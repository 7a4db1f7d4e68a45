/* SPDX-License-Identifier: MIT */
/** @file
 * One batch of examples: in host memory a list of named typed tensors, in a loss function the symbolic tensors that
 * it asks for by name.
 */
#ifndef COPSE_PUBLIC_BATCH_H
#define COPSE_PUBLIC_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Most inputs of a batch. */
#define COPSE_MAX_INPUTS 16

/** One input of a batch: a tensor whose first axis counts the examples. */
struct copse_column {
    const char *name;  /**< not empty, unique in its batch; copied where it is kept */
    copse_type type;
    copse_shape shape; /**< of one example, rank below COPSE_MAX_RANK */
    const void *data;  /**< [count, shape...], row-major; NULL only where no loss function asks for it */
};

/** One global batch. A zeroed struct with columns and count set is complete. */
struct copse_host_batch {
    const struct copse_column *columns; /**< its inputs; the same ones in the same order as in earlier batches,
                                             or the loss function is recorded again */
    size_t column_count;  /**< 1 to COPSE_MAX_INPUTS */
    const uint32_t *rows; /**< the rows of the dataset they come from; NULL = unknown */
    size_t count;         /**< examples */
    uint32_t epoch;       /**< from 0 */
    size_t index;         /**< of the batch in the epoch, from 0 */
    uint64_t first;       /**< position of its first example in the epoch, for dropout */
};

/** The columns of a batch, as fields of its initialiser. They live until the enclosing block ends.
    struct copse_host_batch b = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(64), x },
                                                { "y", COPSE_I32, COPSE_SCALAR, y }), .count = 32 }; */
#define COPSE_COLUMNS(...)                                                                         \
    .columns = (const struct copse_column[]){ __VA_ARGS__ },                                       \
    .column_count = sizeof((const struct copse_column[]){ __VA_ARGS__ }) / sizeof(struct copse_column)

/** The column of a name; NULL: there is none. Thread-safety: any. */
COPSE_API const struct copse_column *copse_batch_column(const struct copse_host_batch *batch,
                                                        const char *name);

/** What a loss function sees of one replica's share of a batch. Lifetime: the call of the loss function. */
typedef struct copse_batch {
    bool is_training;           /**< false while evaluating: no dropout */
    uint32_t replica, replicas; /**< which one of how many, those of all workers */
    struct copse_recording *recording; /**< the library's */
} copse_batch;

/**
 * The tensor of an input, [n, shape...] with the n examples of the replica's share. Inputs that no loss function asks
 * for are not uploaded.
 *
 * @retval COPSE_ERR_ARGUMENT  The batch has no such input; the text lists those that it has.
 * Lifetime: that of the graph. Thread-safety: the thread of the loss function.
 */
COPSE_API COPSE_CHECKED copse_status copse_input(const copse_batch *in, const char *name, copse_tensor **out);

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

#if defined(__cplusplus)
}
#endif
#endif
