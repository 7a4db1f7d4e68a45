/* SPDX-License-Identifier: MIT */
/** @file Training: a loss function, an optimizer and a strategy make a trainer; each step takes one
 * global batch, split over the replicas.
 */
#ifndef COPSE_PUBLIC_TRAINER_H
#define COPSE_PUBLIC_TRAINER_H

#include "copse/data.h"
#include "copse/optimizer.h"
#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_trainer copse_trainer;

/**
 * Builds the loss of one replica's shard of the batch, a mean over its examples (or a sum:
 * `reduction`), from inputs by name (copse_input); copse_report names further scalars. The library
 * weights the loss by the shard's part of the examples. It is called once for each replica, size of
 * shard and list of inputs, and again after their recording was evicted (`recordings`). Calls for
 * one size must build the same graph. docs/callbacks.md lists the calls that it may make.
 */
typedef copse_tensor *copse_loss_fn(copse_graph *g, const copse_batch *in, void *user);

/** How the replicas' losses become the loss of the global batch. */
typedef enum copse_loss_reduction {
    COPSE_LOSS_MEAN, /**< the loss function gives a mean over its examples */
    COPSE_LOSS_SUM,  /**< the loss function gives a sum over its examples */
} copse_loss_reduction;
/** Of the loss function at hand; elsewhere COPSE_LOSS_SUM. Any thread. */
COPSE_API copse_loss_reduction copse_current_loss_reduction(void);

/** When gradients are reduced. */
typedef enum copse_gating {
    COPSE_GATE_OP, /**< a bucket as soon as all of its gradients are computed */
    /** after all gradients are computed; computation and exchange do not overlap */
    COPSE_GATE_GRAPH,
} copse_gating;

/** A gradient and its variable. */
struct copse_gradient {
    copse_tensor *gradient; /**< of the variable's shape; NULL = the loss does not depend on it */
    copse_variable *variable;
};
/**
 * Replaces pairs[i].gradient with other tensors of the graph. Called when a step is recorded. It
 * sees the gradients of one replica before their sum over the replicas, with COPSE_LOSS_MEAN
 * weighted by its shard: a linear change acts on the gradient of the global batch, any other one on
 * each replica's part.
 */
typedef void copse_transform_fn(copse_graph *g, struct copse_gradient *pairs, size_t count,
                                void *user);

/** Settings of a trainer. */
struct copse_trainer_params {
    copse_loss_fn *loss; /**< required */
    void *user;          /**< passed to `loss` */
    copse_loss_reduction reduction;
    struct copse_optimizer_params optimizer;
    uint64_t seed; /**< of dropout */
    /** trained variables, each once, at least one [NULL = all] */
    copse_variable *const *variables;
    size_t variable_count; /**< of `variables` */
    uint32_t accumulate;   /**< calls of copse_trainer_step per update       [0 = 1] */
    /** how a global batch is split, see batch.h. The split does not change a result beyond
       rounding [COPSE_SHARD_BALANCED] */
    copse_shard_rule sharding;
    /** COPSE_SHARD_FIXED: examples of a full batch, a multiple of the replicas */
    size_t batch_size;
    /** COPSE_SHARD_WEIGHTED: one weight >= 0 for each replica of all workers */
    const float *shard_weights;
    copse_gating gating;
    /** COPSE_ERR_NONFINITE for a loss that is NaN or infinite, before anything changes; the host
       waits for the losses of every step */
    bool check_numerics;
    /** the same for each replica's gradients; implies COPSE_GATE_GRAPH */
    bool check_gradients;
    /** for copse_trainer_gradient (compat/gradients.h); implies COPSE_GATE_GRAPH and a host wait */
    bool summarize_gradients;
    copse_transform_fn *transform; /**< of gradients                                 [NULL] */
    void *transform_user;
    /** batches uploaded ahead of their steps (copse_trainer_feed), each with device memory of its
       own; 2 is enough. Not for distribute/accelerator.h. At most COPSE_PREFETCH_MAX [0 = none] */
    uint32_t prefetch;
    /** recorded graphs to keep for each replica, one for every size of its shard (with
       `accumulate` up to two). Each has device memory for its values. The least recently used one
       is evicted; recorded again, it computes the same bits [0 = 32] */
    uint32_t recordings;
    copse_type precision;   /**< of products: docs/half-precision.md */
    uint64_t memory_budget; /**< bytes per device: docs/memory.md [0 = none] */
    uint64_t reserved[6];
};

/**
 * Trainers of one strategy share its variables; each has its own optimizer slots.
 * @retval COPSE_ERR_ARGUMENT     A setting breaks its rule, a slot's name is taken. On collective
 *                                strategies also: another worker's settings or variables differ;
 *                                the text names it.
 * @retval COPSE_ERR_UNSUPPORTED  The strategy is the default one, or is collective and shards are
 *                                measured.
 * @retval COPSE_ERR_COMM         Another worker is lost; the text names it.
 * Blocks until all collective workers make the call.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_create(copse_strategy *st,
                                                          const struct copse_trainer_params *params,
                                                          copse_trainer **out);
/** Wait for its steps and free it. */
COPSE_API void copse_trainer_release(copse_trainer **t);

/** Result of a step or an evaluation. */
struct copse_step_result {
    uint64_t step; /**< from 1 */
    double loss;   /**< of the global batch */
    uint32_t report_count;
    const char *report_names[COPSE_MAX_REPORTS]; /**< borrowed from the trainer */
    double reports[COPSE_MAX_REPORTS]; /**< means over the global batch, see copse_report */
    /** gradient scaling skipped the update (optimizer.h); `step` counts it */
    bool is_skipped;
    float loss_scale; /**< of the step; 0 = gradients are not scaled */
    uint64_t reserved[8];
};

/** A report by its name: copse_step_report(&e->held_out, "accuracy", &accuracy).
    @retval COPSE_ERR_ARGUMENT  There is none; the text lists those that there are. Any thread. */
COPSE_API COPSE_CHECKED copse_status copse_step_report(const struct copse_step_result *r,
                                                       const char *name, double *out);

/** An epoch of copse_trainer_fit. */
struct copse_epoch {
    uint32_t epoch; /**< from 1 */
    /** the last step, with means over the examples of the epoch, computed while the variables
       change */
    struct copse_step_result training;
    /** means over the examples of `held_out` after the epoch; without: step 0, no report */
    struct copse_step_result held_out;
    uint32_t best_epoch; /**< with the lowest held-out loss so far; 0 = none */
    uint64_t reserved[7];
};

/** Called after each epoch, with no step in progress. It may make every call, but not release the
 * trainer or its loaders. stop = true ends the training; an error ends it with this status. */
typedef copse_status copse_epoch_fn(void *user, const struct copse_epoch *epoch, bool *stop);

/** Called after each batch, also of `held_out` (docs/callbacks.md); `trained` counts the batches of
 * training from 1. stop = true ends the training when they are trained; the epoch is not judged, and
 * `on_epoch` is not called for it. Collective workers must stop at the same batch. An error ends it
 * with this status. */
typedef copse_status copse_batch_fn(void *user, uint64_t trained, bool *stop);

/** How copse_trainer_fit trains. */
struct copse_fit_params {
    uint32_t epochs;          /**< at least 1, with the earlier run's */
    uint32_t first;           /**< complete epochs of an earlier run                       [0] */
    copse_loader *held_out;   /**< evaluated after each epoch                              [NULL] */
    copse_epoch_fn *on_epoch; /**< [NULL] */
    void *user;               /**< passed to `on_epoch` and `on_batch` */
    /** early stopping: epochs in a row without a lower held-out loss [0 = none] */
    uint32_t patience;
    float min_delta; /**< lower by more than this [0] */
    /** end with the last values; else, with `held_out`, with the values of `best_epoch` [false] */
    bool keep_last;
    /** instead of these three, for a resumed run: loop/early_stopping.h [NULL] */
    struct copse_early_stopping *stopping;
    copse_batch_fn *on_batch; /**< [NULL] */
    uint64_t reserved[4];
};

/**
 * Train epochs `first` + 1 to `epochs`. With `prefetch` it feeds batches ahead; on an accelerator it
 * makes runs of several steps. Micro-batches that are left at the end of an epoch make one update.
 * Results of earlier steps are dropped.
 * @retval COPSE_ERR_ARGUMENT   `epochs` is 0, or less than `first`; `patience` without
 *                              `held_out`.
 * @retval COPSE_ERR_NONFINITE  The loss of a step is NaN or infinite; the text names the step.
 * @retval COPSE_ERR_CONTEXT    In a function of the application that may not train
 *                              (docs/callbacks.md).
 * @retval COPSE_ERR_UNSUPPORTED  `patience` with parameter servers.
 * Otherwise as copse_loader_next, copse_trainer_step and copse_trainer_result; or the status of
 * `on_epoch` or `on_batch`. The steps before the error are done. Blocks.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_fit(copse_trainer *t, copse_loader *batches,
                                                       const struct copse_fit_params *params);

/** Most steps that run, and most results that wait to be taken. */
#define COPSE_STEPS_IN_PROGRESS 8

/**
 * Queue one training step, in a program with a loop of its own: forward, backward, reduction and
 * update. A batch may have fewer examples than there are replicas. Every later call sees the
 * variables after the step; copse_trainer_result gives the result. When COPSE_STEPS_IN_PROGRESS
 * results wait, the oldest is dropped; the log warns once. With `accumulate` = k every k-th call
 * updates; update and result are those of the k batches as one, and a failed call drops what was
 * accumulated.
 *
 * @param batch  At least one example; copied. NULL with `prefetch`: the oldest batch that was fed.
 *               It stays fed when the step fails before it begins.
 * @retval COPSE_ERR_ARGUMENT     The batch is empty, lacks an input of the loss or has two of one
 *                                name; NULL, and none is fed; the loss depends on no trained
 *                                variable; another trainer of the strategy accumulates gradients of
 *                                one of them; a worker is at another step or batch.
 * @retval COPSE_ERR_SHAPE        Replicas differ in their sums over replicas, see
 *                                distribute/sync.h.
 * @retval COPSE_ERR_CANCELLED    See copse_trainer_cancel. Nothing changed.
 * @retval COPSE_ERR_NONFINITE    `check_numerics` or `check_gradients` failed, or the loss of the
 *                                dropped result is not finite. This call changed nothing.
 * @retval COPSE_ERR_COMM         Another worker or a server is lost; the text names it. Release the
 *                                trainer.
 * @retval COPSE_ERR_CONTEXT      The thread is in a replica. With parameter servers: a tower
 *                                optimizer (compat/replicated.h) holds gradients. Nothing changed.
 * Blocks while COPSE_STEPS_IN_PROGRESS steps run or replicas wait for each other; with parameter
 * servers until they have answered.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_step(copse_trainer *t,
                                                        const struct copse_host_batch *batch);

/**
 * Take the oldest result. After a failure other than COPSE_ERR_NONFINITE it still waits: call again.
 * @param wait  Wait for it, at most as long as copse_queue_finish and the cluster's deadline;
 *              false: COPSE_ERR_TIMEOUT while it is not complete.
 * @retval COPSE_ERR_END        No result is outstanding.
 * @retval COPSE_ERR_NONFINITE  The loss of that step is NaN or infinite; `out` is filled, the text
 *                              names the step.
 * @retval COPSE_ERR_COMM       A worker of a collective strategy is lost, or at another step.
 * Blocks with `wait`.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_result(copse_trainer *t, bool wait,
                                                          struct copse_step_result *out);

/** Update with the micro-batches since the last update, if any. Errors as copse_trainer_step. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_flush(copse_trainer *t);
/** Micro-batches since the last update. */
COPSE_API uint32_t copse_trainer_accumulated(const copse_trainer *t);

/** Loss and reports of one global batch without training. Fetches parameter servers' values, but
    not in a replica or while gradients accumulate. Blocks until it is computed. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_evaluate(copse_trainer *t,
                                                            const struct copse_host_batch *batch,
                                                            struct copse_step_result *out);

/**
 * Let the current or next step return COPSE_ERR_CANCELLED and change nothing. A step checks at its
 * start, before its update, and every 50 ms while it waits for devices of this process. It finishes
 * an update that it has begun. copse_trainer_result, copse_trainer_evaluate and waits for other
 * workers are not interrupted. Any thread.
 */
COPSE_API void copse_trainer_cancel(copse_trainer *t);

/** Number of the last step begun; a restored trainer continues to count. */
COPSE_API uint64_t copse_trainer_steps(const copse_trainer *t);
/** Its strategy, borrowed. */
COPSE_API copse_strategy *copse_trainer_strategy(const copse_trainer *t);

#if defined(__cplusplus)
}
#endif
#endif
