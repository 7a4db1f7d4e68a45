/* SPDX-License-Identifier: MIT */
/** @file
 * Training: a loss function, an optimizer and a strategy make a trainer; each step takes one global
 * batch, split over the replicas.
 */
#ifndef COPSE_TRAIN_H
#define COPSE_TRAIN_H

#include "copse/batch.h"
#include "copse/optimizer.h"
#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_trainer copse_trainer;

/** What a loss function sees: symbolic tensors of the replica's share of a batch. */
typedef struct copse_batch {
    copse_tensor *x;  /**< f32 [n, example...] */
    copse_tensor *y;  /**< i32 [n], or f32 [n, target...] */
    bool is_training; /**< false while evaluating: no dropout */
    uint32_t replica, replicas;
} copse_batch;

/**
 * Builds the loss of one replica's share. Called once per replica and batch size, never in a step.
 * The loss is a mean over the examples of `in`; the library weights it by the replica's share of
 * the global batch, so unequal shares are right. `copse_report` names further scalars.
 */
typedef copse_status copse_loss_fn(copse_graph *g, const copse_batch *in, void *user,
                                   copse_tensor **loss);

/** How the loss of the global batch comes from the replicas'. */
typedef enum copse_loss_reduction {
    COPSE_LOSS_MEAN, /**< the loss function gives a mean over its examples; weighted by shares */
    COPSE_LOSS_SUM,  /**< the loss function gives a sum over its examples; added up */
} copse_loss_reduction;

/** How to make a trainer. */
struct copse_trainer_params {
    copse_loss_fn *loss;
    void *user;                  /**< passed to `loss` */
    copse_loss_reduction reduction;
    copse_shape example;         /**< shape of one example of x */
    copse_shape target;          /**< shape of one example of y; rank 0: one value */
    copse_type target_type;      /**< COPSE_I32 for labels */
    struct copse_optimizer_params optimizer;
    uint64_t seed;               /**< of dropout */
};

/**
 * Make a trainer. Builds the flat store of the strategy's variables.
 * Lifetime: retains the strategy. Thread-safety: one thread at a time, except
 * `copse_trainer_cancel`. Blocking: while memory is allocated.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_create(
    copse_strategy *st, const struct copse_trainer_params *params, copse_trainer **out);
COPSE_API void copse_trainer_release(copse_trainer **t);

/** What a step, or an evaluation, came to. */
struct copse_step_result {
    uint64_t step;          /**< from 1 */
    double loss;            /**< of the global batch */
    uint32_t report_count;
    const char *report_names[7]; /**< lifetime: that of the trainer */
    double reports[7];      /**< means over the global batch, see copse_report */
};

/**
 * Run one training step: queue forward, backward, reduction and update. `batch` holds at least
 * one example and is taken before the call returns; replicas without one are legal. The parameters after the
 * call are those of the step for every later call; the result comes through
 * `copse_trainer_result`. Up to 8 steps may be under way: when the results of 8 are waiting to be taken,
 * the oldest is dropped. Each new size of batch is recorded once and kept.
 *
 * @retval COPSE_ERR_CANCELLED    `copse_trainer_cancel` was called; nothing was changed.
 * @retval COPSE_ERR_NONFINITE    The result to be dropped has a loss that is NaN or infinite; nothing
 *                                was changed.
 * @retval COPSE_ERR_DEVICE_LOST  A device failed.
 * Blocking: while 8 steps are under way, and where replicas must wait for each other.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_step(copse_trainer *t,
                                                        const struct copse_host_batch *batch);

/**
 * Take the result of the oldest step not yet taken.
 * @param wait  Wait for it; else COPSE_ERR_TIMEOUT when it is still running.
 * @retval COPSE_ERR_END        No step is under way.
 * @retval COPSE_ERR_NONFINITE  The loss of that step is NaN or infinite; `out` is filled, the text
 *                              names the step.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_result(copse_trainer *t, bool wait,
                                                          struct copse_step_result *out);

/** Loss and reports of one global batch without training. Blocking: until it is computed. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_evaluate(copse_trainer *t,
                                                            const struct copse_host_batch *batch,
                                                            struct copse_step_result *out);

/** Let the running or next step return COPSE_ERR_CANCELLED. Thread-safety: any. Never blocks. */
COPSE_API void copse_trainer_cancel(copse_trainer *t);

/** Write every variable as safetensors, atomically: see checkpoint.h. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_save(copse_trainer *t, const char *path);

#if defined(__cplusplus)
}
#endif
#endif
