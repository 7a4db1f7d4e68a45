/* SPDX-License-Identifier: MIT */
/** @file The standard step of a training loop: several iterations of a trainer over a dataset,
 * which keeps the outputs of the last one.
 *
 * Objects of this header: one thread at a time.
 */
#ifndef COPSE_PUBLIC_COMPAT_SINGLE_LOSS_H
#define COPSE_PUBLIC_COMPAT_SINGLE_LOSS_H

#include "copse/data.h"
#include "copse/distribute/value.h"
#include "copse/loop/step.h"
#include "copse/state.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- outputs of the last iteration ---- */

/** How the values of the replicas become one. */
typedef enum copse_output_reduction {
    COPSE_OUTPUT_NONE, /**< they do not: one value per replica */
    COPSE_OUTPUT_SUM,
    COPSE_OUTPUT_MEAN,
} copse_output_reduction;

/**
 * A table of named outputs that iterations set; it holds those of the last one that set them. Every
 * step has one, its *context*: iterations get it (copse_iteration_fn), copse_step_outputs gives it
 * to others. An output is numbers (copse_outputs_set), a value such as an array
 * (copse_outputs_set_value), or pointers of the application.
 *
 * The table of a step belongs to the replicas of the step's strategy. On a collective strategy
 * outputs are those of all replicas of all workers, the same on each: all workers make the same
 * calls in the same order, and a call waits for the others. What one worker is refused, all are.
 */
typedef struct copse_outputs copse_outputs;

/** An empty table of no step, for replicas of one process. Lifetime: retains the context.
    @param replicas  1 to COPSE_MAX_REPLICAS. */
COPSE_API COPSE_CHECKED copse_status copse_outputs_create(copse_context *ctx, uint32_t replicas,
                                                          copse_outputs **out);
/** Free it and set `*outputs` to NULL; NULL is fine. */
COPSE_API void copse_outputs_release(copse_outputs **outputs);

/**
 * Set an output from outside of the replicas; a name that is there is overwritten.
 * @param values     One per replica; in the table of a step one per replica of this worker.
 * @param reduction  NONE keeps them apart; SUM and MEAN (arithmetic) keep one value.
 * @retval COPSE_ERR_COMM      A worker is lost; the text names it.
 * @retval COPSE_ERR_ARGUMENT  A worker is at another call; the text names it.
 */
COPSE_API COPSE_CHECKED copse_status copse_outputs_set(copse_outputs *o, const char *name,
                                                       const double *values,
                                                       copse_output_reduction reduction);
/**
 * Set an output as a replica does. The values are reduced when every replica has set its own; until
 * then the output is what it was.
 * @param replica  Its number, among those of all workers (copse_replica_id).
 * @retval COPSE_ERR_ARGUMENT  Without a reduction, or with another one than the first replica of
 *                             this round, or for a second time in a round; then the round is
 *                             dropped.
 */
COPSE_API COPSE_CHECKED copse_status copse_outputs_set_replica(copse_outputs *o, uint32_t replica,
                                                               const char *name, double value,
                                                               copse_output_reduction reduction);
/**
 * Set an output to a value: in a replica (of copse_strategy_run) as one of all replicas, which all
 * make the call; else from outside of them.
 * @param value      In a replica: an array, a sparse value or a structure of them. Outside: the
 *                   same, or a per-replica value such as a run returns.
 * @param reduction  SUM, MEAN: over the replicas of all workers, as copse_strategy_reduce. NONE,
 *                   not in a replica: a per-replica value of arrays becomes a list with an array
 *                   for each replica of all workers, which may differ in shape; other values are
 *                   kept as they are. On a collective strategy an array of a worker with one
 *                   replica is that replica's.
 * @retval COPSE_ERR_ARGUMENT  No value, NONE in a replica, or no arrays for a list.
 * @retval COPSE_ERR_SHAPE     Values to be reduced differ in type or shape between replicas or
 *                             workers.
 * @retval COPSE_ERR_CONTEXT   The thread is in another strategy than the step's; or in a loss
 *                             function, where copse_step_output is the call to make.
 */
COPSE_API COPSE_CHECKED copse_status copse_outputs_set_value(copse_outputs *o, const char *name,
                                                             copse_value *value,
                                                             copse_output_reduction reduction);
/** A value that was set. @param out  Receives a reference.
    @retval COPSE_ERR_ARGUMENT  No value of that name was set. */
COPSE_API COPSE_CHECKED copse_status copse_outputs_value(const copse_outputs *o, const char *name,
                                                         copse_value **out);
/** Keep a pointer of the application under a name, from outside of the replicas. Pointers are this
    worker's own. */
COPSE_API COPSE_CHECKED copse_status copse_outputs_set_object(copse_outputs *o, const char *name,
                                                              void *object);
/** The same as a replica: when all have, the list of their pointers, or a list of one when all are
    the same pointer. */
COPSE_API COPSE_CHECKED copse_status copse_outputs_set_replica_object(copse_outputs *o,
                                                                      uint32_t replica,
                                                                      const char *name,
                                                                      void *object);

/** An output. Lifetime of what it points to: until the table changes. */
struct copse_output {
    const double *values;
    /** 1 when reduced or with one replica, else one per replica of all workers */
    size_t count;
    bool is_reduced;
    uint64_t reserved[4]; /**< 0 */
};
/** @retval COPSE_ERR_ARGUMENT  No numbers of that name were set. */
COPSE_API COPSE_CHECKED copse_status copse_outputs_get(const copse_outputs *o, const char *name,
                                                       struct copse_output *out);
/** Pointers kept under a name. @retval COPSE_ERR_ARGUMENT  None were. */
COPSE_API COPSE_CHECKED copse_status copse_outputs_objects(const copse_outputs *o, const char *name,
                                                           void *const **list, size_t *count);

/* ---- a step with input ---- */

/** Gives the dataset, with a reference for the caller. Called once, when the step is made. */
typedef copse_status copse_dataset_fn(void *user, copse_strategy *st, copse_dataset **out);

/** Where the batches of a step come from. */
struct copse_input_params {
    copse_dataset_fn *dataset;
    void *user;
    struct copse_loader_params batches; /**< `batch`: examples of all replicas together */
    uint32_t epochs;                    /**< passes over the data              [0 = 1] */
    uint64_t reserved[4];               /**< 0 */
};

/**
 * A step that owns a walk over a dataset. Without functions it is abstract: it makes the input and
 * nothing else.
 * @param functions  As for `copse_step_create`; NULL for none.
 * @retval COPSE_ERR_ARGUMENT  No dataset function, or it gave no dataset.
 */
COPSE_API COPSE_CHECKED copse_status copse_input_step_create(
    copse_context *ctx, copse_strategy *strategy, const struct copse_input_params *params,
    const struct copse_step_functions *functions, void *user, copse_step **out);

/**
 * The next batch of a step with input; the epochs follow one another.
 * @retval COPSE_ERR_END          All epochs are over. Leaves the text of the last error as it was.
 * @retval COPSE_ERR_UNSUPPORTED  The step has no input.
 * Lifetime: what `out` points to is valid until the next call on `step`.
 */
COPSE_API COPSE_CHECKED copse_status copse_step_next(copse_step *step,
                                                     struct copse_host_batch *out);
/** The position of the input: of the first batch that no iteration has trained; batches uploaded
    ahead do not count.
    @retval COPSE_ERR_UNSUPPORTED  The step has no input. */
COPSE_API COPSE_CHECKED copse_status copse_step_position(const copse_step *step,
                                                         struct copse_position *out);
/** Go there. @retval COPSE_ERR_ARGUMENT  There is no such batch. */
COPSE_API COPSE_CHECKED copse_status copse_step_seek(copse_step *step,
                                                     const struct copse_position *position);

/** One iteration on a batch. @param context  The step's outputs: those of earlier iterations until this one sets its
    own. */
typedef copse_status copse_iteration_fn(void *user, const struct copse_host_batch *in,
                                        copse_outputs *context);

/**
 * For a step with input whose iterations are functions of the application, not steps of a trainer
 * (copse_trainer_step): run some one after the other, each on a batch of its own.
 * @retval COPSE_ERR_END  The data ended inside; earlier iterations stay done.
 * The first error of `fn` ends the loop and is returned.
 */
COPSE_API COPSE_CHECKED copse_status copse_step_iterate(copse_step *step, uint32_t iterations,
                                                        copse_iteration_fn *fn, void *user);

/* ---- the standard step: one loss, several iterations ---- */

/**
 * Makes the trainer, with its strategy and variables. Called when the step is made, and again after
 * a device failed: then with the devices opened anew, or without the failed one; and after workers
 * were lost, when the others have regrouped. The trainer becomes the step's, which releases it; it
 * retains its strategy, so the caller's references may be dropped.
 */
typedef copse_status copse_make_trainer_fn(void *user, copse_trainer **out);

/** An output that is wanted: "loss", or a name that the loss function reports. */
struct copse_output_params {
    const char *name;
    /** over the replicas of all workers; MEAN weights them by their examples */
    copse_output_reduction reduction;
    /** before the first iteration; without reduction for each replica */
    double initial;
};

#define COPSE_NO_ITERATIONS UINT32_MAX

struct copse_single_loss_params {
    struct copse_input_params input;
    copse_make_trainer_fn *make;
    void *make_user;
    uint32_t iterations_per_step;              /**< COPSE_NO_ITERATIONS: a step does nothing
                                       [0 = 1; accelerator: its steps_per_run] */
    const struct copse_output_params *outputs; /**< [NULL] */
    size_t output_count;                       /**< at most 1 + COPSE_MAX_REPORTS */
    uint64_t reserved[4];                      /**< 0 */
};

/**
 * The standard single-loss step. A run is `iterations_per_step` training steps; their number does
 * not scale anything. Whether the gradients of replicas are averaged or added is the trainer's
 * `reduction`. Runs only queue work: an error of a device or a loss that is not finite may come
 * from a later run, from copse_step_outputs, or when the step is saved. When the data ends inside a
 * run, the iterations before stay applied. It can be saved, restored and recovered.
 *
 * With `prefetch` in the trainer's params a run feeds the trainer that many batches ahead of its
 * iterations, those of later runs too (copse_trainer_feed); the input's position, and so a
 * checkpoint's, is before those that were not trained, and seeking, restoring or a failure has them
 * read again.
 *
 * With an accelerator strategy iterations are runs of up to `steps_per_run` training steps each
 * (copse/distribute/accelerator.h).
 * @retval COPSE_ERR_ARGUMENT  There, a last batch that would be smaller than the others: set
 *                             drop_last.
 */
COPSE_API COPSE_CHECKED copse_status copse_single_loss_step_create(
    copse_context *ctx, const struct copse_single_loss_params *params, copse_step **out);

/** Its trainer, NULL for other steps and after a failed recovery. Lifetime: as the strategy's. */
COPSE_API copse_trainer *copse_step_trainer(const copse_step *step);

/**
 * In a loss function of a trainer: set an output of the step to an array. copse_step_outputs gives
 * it as a value (copse_outputs_value) of the last iteration, with accumulation of its last
 * micro-batch. At most COPSE_MAX_OUTPUTS per graph.
 * @param t          f32 or i32 tensor of this graph.
 * @param reduction  Over the replicas of all workers. SUM adds up. MEAN, of f32, weights replicas
 *                   by their examples. Both need a shape that is the same for every shard. NONE: a
 *                   list with the array of each replica, in rank order, whose shape may depend on
 *                   the shard; with one replica the array.
 * A replica without examples adds zeros; in a list it has an array of no rows, or a zero where the
 * others have scalars.
 * @retval COPSE_ERR_ARGUMENT  A name that is set twice, a mean of i32, too many outputs. Calls for
 *                             other shards that set other outputs are refused when they are
 *                             recorded, other shapes with COPSE_ERR_SHAPE.
 */
COPSE_API void copse_step_output(copse_graph *g, const char *name, copse_tensor *t,
                                 copse_output_reduction reduction);

/**
 * The outputs of a step's last iteration: its context. Of the single-loss step those that its
 * params name, at first and after a restore with their initial values, and the arrays that its loss
 * function set (copse_step_output), which are not set then and where a later iteration has failed.
 * With a collective strategy they are those of the replicas of all workers, the same on every
 * worker; where the loss function sets arrays, all workers make this call.
 * @retval COPSE_ERR_ARGUMENT   An output that the loss function does not report.
 * @retval COPSE_ERR_NONFINITE  A loss was NaN or infinite.
 * Lifetime: that of the step, or until it recovers from a failed device. Blocking: of the
 * single-loss step until the last iteration has run.
 */
COPSE_API COPSE_CHECKED copse_status copse_step_outputs(copse_step *step, copse_outputs **out);

#if defined(__cplusplus)
}
#endif
#endif
