/* SPDX-License-Identifier: MIT */
/** @file One batch of examples: a list of named typed tensors in host memory; a loss function gets
 * them as symbolic tensors by name.
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
#define COPSE_MAX_INPUTS 64

/** One input of a batch: a tensor whose first axis counts the examples. */
struct copse_column {
    const char *name; /**< not empty, unique in its batch */
    copse_type type;
    copse_shape shape; /**< of one example, rank below COPSE_MAX_RANK */
    /** [count, shape...], row-major; NULL only where no loss function uses it */
    const void *data;
};

/** One global batch. Only columns and count are required. */
struct copse_host_batch {
    /** other columns, or another order, than before: the loss function is recorded again */
    const struct copse_column *columns;
    size_t column_count;  /**< 1 to COPSE_MAX_INPUTS */
    const uint32_t *rows; /**< their rows in the dataset; NULL = unknown */
    size_t count;         /**< examples */
    uint32_t epoch;       /**< from 0 */
    size_t index;         /**< of the batch in the epoch, from 0 */
    uint64_t first;       /**< position of its first example in the epoch, for dropout */
    uint64_t reserved[2];
};

/** The columns of a batch, in its initialiser. They live until the enclosing block ends.
    struct copse_host_batch b = { COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(64), x },
                                                { "y", COPSE_I32, COPSE_SCALAR, y }), .count = 32
                                                }; */
#define COPSE_COLUMNS(...)                                   \
    .columns = (const struct copse_column[]){ __VA_ARGS__ }, \
    .column_count =                                          \
        sizeof((const struct copse_column[]){ __VA_ARGS__ }) / sizeof(struct copse_column)

/** The column of a name, or NULL. */
COPSE_API const struct copse_column *copse_batch_column(const struct copse_host_batch *batch,
                                                        const char *name);

/** One replica's shard of a batch, during the call of a loss function. */
typedef struct copse_batch {
    bool is_training;           /**< false while evaluating: no dropout */
    uint32_t replica, replicas; /**< rank and number, over all workers */
    uint64_t reserved[4];
} copse_batch;

/**
 * The tensor of an input: [n, shape...] with the n examples of the replica's shard. Unused inputs
 * are not uploaded.
 * @retval COPSE_ERR_ARGUMENT  The batch has no such input; the text lists its inputs.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_input(const copse_batch *in, const char *name);

/** How the n rows of a batch are split into one shard for each of R replicas, in row order. Shards
    may be empty. */
typedef enum copse_shard_rule {
    /** "balanced": sizes differ by at most one, earlier replicas have more */
    COPSE_SHARD_BALANCED,
    COPSE_SHARD_CEIL,  /**< "ceil": ceil(n / R) each until the rows are used up */
    COPSE_SHARD_FIXED, /**< "fixed": full batch / R each until the rows are used up */
    /** "weighted": in proportion to weights; trainers only, as the next one */
    COPSE_SHARD_WEIGHTED,
    /** "measured": the first step measures each replica's speed and sets the weights. To repeat a
       run exactly, give them back: copse_trainer_shard_weights. Not on a collective strategy */
    COPSE_SHARD_MEASURED,
} copse_shard_rule;

#if defined(__cplusplus)
}
#endif
#endif
