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

#endif
