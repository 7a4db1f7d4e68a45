/* SPDX-License-Identifier: MIT */
/** @file
 * The memory of a training step, planned without executing it, and given back: docs/memory.md.
 */
#ifndef COPSE_PUBLIC_TRAIN_MEMORY_H
#define COPSE_PUBLIC_TRAIN_MEMORY_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** The values of a step in device memory [bytes]: inputs, and all that its forward and backward
    pass compute. */
struct copse_value_memory {
    uint64_t bytes; /**< of the buffers for them */
    uint64_t kept;  /**< results of the forward pass that the backward pass reads */
    uint64_t peak;  /**< the most that is in use at once */
    /** the op at which that is, and its result: "gelu_grad f32[8, 128, 256], backward pass" */
    char op[120];
    uint32_t recomputed;  /**< ops of the forward pass that are computed again */
    uint64_t reserved[4]; /**< 0 */
};

/** Device memory of a training step on one replica [bytes]. */
struct copse_step_memory {
    uint64_t variables, gradients; /**< of the strategy */
    uint64_t slots;                /**< of its optimizers */
    /** allocated on the device besides, without values of steps: batches, reports */
    uint64_t others;
    uint64_t available;              /**< of device memory, for values of steps [0 = unknown] */
    struct copse_value_memory plain; /**< without a budget */
    /** with the budget; without one: the least that recomputation needs */
    struct copse_value_memory recomputed;
    bool fits;            /**< `recomputed` keeps the budget; without one: true */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Plan the step of a replica's shard of a batch, as copse_trainer_step does before it makes a
 * program. The loss function is called. Nothing is compiled, executed or allocated for the values.
 * @param replica  Of this process, from 0.
 * @param batch    Columns and count are used, their data is not.
 * @param budget   As copse_trainer_params.memory_budget, which is not used here [0 = none].
 * @retval COPSE_ERR_ARGUMENT  There is no such replica, or it has no shard of the batch.
 * Errors of the batch and of the loss function as copse_trainer_step. Blocks until queued steps
 * have run.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_memory(copse_trainer *t, uint32_t replica,
                                                          const struct copse_host_batch *batch,
                                                          uint64_t budget,
                                                          struct copse_step_memory *out);

/**
 * Give device memory to other users of the devices: buffers that are kept for reuse, then the
 * least recently used recordings, until each device of this process reports so many bytes as free
 * (copse_device_memory). Recordings of batches that are fed stay. Later calls record again what
 * they need, and compute the same bits. The log has a line of what was given. In a program that
 * renders: call it with what the next scene needs. Where a device is over the budget that
 * VK_EXT_memory_budget reports, trainers give back by themselves. A device that does not report its free memory counts as full.
 *
 * @param wanted  0: only what is kept for reuse; UINT64_MAX: all that can be given [bytes].
 * @param freed   Bytes given, over all devices; NULL: not wanted.
 * Errors as copse_device_memory. Blocks until queued steps have run.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_trim(copse_trainer *t, uint64_t wanted,
                                                        uint64_t *freed);

#if defined(__cplusplus)
}
#endif
#endif
