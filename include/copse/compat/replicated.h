/* SPDX-License-Identifier: MIT */
/** @file Replicated models: a function that is called once per replica with its part of a batch,
 * computes gradients, hands them to an optimizer, and returns a loss, outputs or metrics; and the
 * *tower optimizer*, which waits for the gradients of all replicas before it changes anything. The
 * model is replicate_model_fn and TowerOptimizer of tf.contrib.estimator.
 *
 * This is the form for steps that the application puts together call by call: values are made on
 * the way. Where loss function, optimizer and batch are all there is to a step, a trainer
 * (copse/trainer.h) does the same without allocating, and overlaps computing and exchange.
 */
#ifndef COPSE_PUBLIC_COMPAT_REPLICATED_H
#define COPSE_PUBLIC_COMPAT_REPLICATED_H

#include "copse/distribute/call.h"
#include "copse/state.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_tower_optimizer copse_tower_optimizer;

/** Gives the settings of the optimizer; called once, when the tower optimizer is first used. */
typedef copse_status copse_optimizer_factory_fn(void *user, struct copse_optimizer_params *out);

/** How to make a tower optimizer. */
struct copse_tower_params {
    struct copse_optimizer_params optimizer;
    copse_optimizer_factory_fn *factory; /**< instead of `optimizer`             [NULL] */
    void *factory_user;
    /** MEAN: with N replicas every loss is divided by N before it is differentiated; in
       copse_replicated_run that call's applies. copse_current_loss_reduction gives the one in use,
       in model functions, too */
    copse_loss_reduction reduction;
    uint64_t seed; /**< of dropout */
    /** of its slots in checkpoints, 1 to 63 bytes, another than those of the strategy's other
       ones; NULL: "tower", "tower_1", ... the first that is free [NULL] */
    const char *name;
    /** of loss functions, kept for each replica: one for every function, `user`, list of
       variables and shape of arguments. One more releases the least recently used, which is
       recorded again when it is needed, and computes the same bits [0 = 32] */
    uint32_t recordings;
    /** do not compare the first launches of its loss functions and updates with the host
       (train/audit.h) */
    bool no_cross_check;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Make one. A strategy may have several; each has slots of its own, one per variable whatever the
 * number of replicas.
 *
 * With a collective strategy all workers do the same in the same order, as with everything else:
 * make the same optimizers, record, hand gradients over equally often, end their steps. Replicas
 * are those of all workers: sums go over them, 1/N counts them, and with the same power of two of
 * replicas on every worker the bits are those of one process that has all of them, as long as no
 * loss depends on what an earlier call of the same step updates: the last replica of a worker sees
 * that update, the ones before it do not. With a parameter server strategy the replicas are one
 * worker's. Their sum goes to the server of each variable, which applies the rule on its own device
 * and has the slots; the rule sees that server's count of the variable's updates, and a schedule is
 * asked for the next after those that were seen. Optimizers of the same name on all workers share
 * slots; others do not wait. The first replica's compute, when no gradients are kept, begins from
 * what the servers have then, and so does whatever follows an update. In between, until all
 * replicas have handed over, the values stay the same for all of them: a trainer's step is refused
 * there (copse/trainer.h).
 *
 * @retval COPSE_ERR_ARGUMENT     A setting breaks its rule, the name is taken, or another worker
 *                                has other settings; the text names it.
 * @retval COPSE_ERR_UNSUPPORTED  The default strategy.
 * @retval COPSE_ERR_COMM         Another worker is lost; the text names it.
 * Lifetime: retains the strategy. Thread-safety: one thread at a time, as the strategy. Blocking:
 * with a collective strategy until all workers have come here.
 */
COPSE_API COPSE_CHECKED copse_status copse_tower_create(copse_strategy *st,
                                                        const struct copse_tower_params *params,
                                                        copse_tower_optimizer **out);
COPSE_API void copse_tower_release(copse_tower_optimizer **t);

/** What a replica differentiates: a loss function and its arguments. The function is called once
    per replica and signature, as copse_call does (again when `recordings` was too few to keep what
    it built).
    Sums over replicas (copse/distribute/sync.h) are refused in it. */
struct copse_tower_loss {
    copse_loss_fn *loss;
    void *user;
    /** Arrays and variables as copse_call takes them, of every type. An array is the input "x", or
        "y"; the items of a structure are inputs of their names, the items of both in one batch. The
        first axis of the first array counts the examples. NULL: none. */
    copse_value *x, *y;
    /** f32, of the shape of the loss: the derivative of what follows the loss by it. It is the input
        "grad_loss". NULL: the loss is a scalar, and this is 1. */
    copse_value *grad_loss;
};
/** A replica's gradient of a variable. */
struct copse_tower_gradient {
    copse_value *gradient; /**< array or sparse value of the variable's shape; NULL = none */
    copse_variable *variable;
};

/**
 * [replica] Differentiate: the loss times 1/N with COPSE_LOSS_MEAN. Assigns to the variables that
 * the function updates (copse_update), as copse_call does.
 * @param pairs  `variable` of each is given; `gradient` receives a reference, or NULL where the
 *               loss does not depend on the variable.
 * @param loss   Receives the loss, not scaled, as a value on the replica's device; NULL = not
 *               wanted.
 * @retval COPSE_ERR_CONTEXT   The thread is not in a replica of the optimizer's strategy.
 * @retval COPSE_ERR_SHAPE     The loss is no f32 scalar, or not of the shape of `grad_loss`.
 * @retval COPSE_ERR_ARGUMENT  A variable is not trained, or twice in the list; two inputs have one
 *                             name; or as copse_call.
 * Blocking: while a new shape is recorded.
 */
COPSE_API COPSE_CHECKED copse_status copse_tower_compute(copse_tower_optimizer *t,
                                                         const struct copse_tower_loss *of,
                                                         struct copse_tower_gradient *pairs,
                                                         size_t count, copse_value **loss);
/** [replica] What the function returns, of any shape, or a dictionary of what it sets (copse_output);
    without derivatives and with `is_training` false. Assigns as copse_tower_compute does. */
COPSE_API COPSE_CHECKED copse_status copse_tower_forward(copse_tower_optimizer *t,
                                                         const struct copse_tower_loss *of,
                                                         copse_value **out);

/**
 * [replica, or C] Hand gradients over. They are kept, and no variable, slot or counter changes, until all
 * replicas have made the call; the k-th calls of all belong together. Then what is there for each
 * variable is summed, dense gradients by the canonical tree, and the variables are updated once. A
 * replica without a gradient of a variable adds nothing, and the sum is not rescaled; a variable
 * without any is left alone. [C] One call hands over the gradients of all replicas of this worker:
 * the components of per-replica values, as copse_strategy_map (distribute/call.h) gives them; a
 * plain or mirrored value counts once for each replica. Sparse gradients of all replicas are joined
 * in rank order, slices of one row are added in that order, and the rule sees zeros in the other
 * rows.
 * @param moves_step  Whether that update adds 1 to copse_global_step; the last replica's counts.
 * @retval COPSE_ERR_CONTEXT      The thread is in no replica of the optimizer's strategy, and not in
 *                                its cross-replica context.
 * @retval COPSE_ERR_ARGUMENT     No gradient at all; a variable twice, not trained, or whose
 *                                gradients a trainer accumulates; workers are at different calls.
 * @retval COPSE_ERR_SHAPE        A gradient has not the shape of its variable.
 * @retval COPSE_ERR_DEVICE_LOST  An earlier update was cut short.
 * @retval COPSE_ERR_COMM         A worker or a server was lost.
 * If a worker fails after all its replicas have made the call and before the update has begun, all
 * workers return its status, and nothing has changed. copse_replicated_run notifies the other
 * workers of a failure elsewhere in a replica; without it they wait for their deadline.
 * Blocking: the last replica's call waits as an exchange does; with a collective strategy for the
 * other workers, and with parameter servers for the devices.
 */
COPSE_API COPSE_CHECKED copse_status copse_tower_apply(copse_tower_optimizer *t,
                                                       const struct copse_tower_gradient *pairs,
                                                       size_t count, bool moves_step);
/** [replica] Compute and apply. @param variables  NULL: all that are trained. */
COPSE_API COPSE_CHECKED copse_status copse_tower_minimize(copse_tower_optimizer *t,
                                                          const struct copse_tower_loss *of,
                                                          copse_variable *const *variables,
                                                          size_t count, bool moves_step,
                                                          copse_value **loss);
/**
 * [C] End a step that was made of copse_tower_apply and not of copse_replicated_run or
 * copse_trainer_step: all replicas must have made the same number of calls of copse_tower_apply.
 * What is kept is dropped in any case.
 * @retval COPSE_ERR_CONTEXT  They have not; the text names the replicas. Updates of the calls that
 *                            all have made stay.
 * Blocking: with a collective strategy until all workers have come here; what one fails with, all
 * return.
 */
COPSE_API COPSE_CHECKED copse_status copse_tower_finish(copse_tower_optimizer *t);

/** Whether gradients were computed or handed over. */
COPSE_API bool copse_tower_is_used(const copse_tower_optimizer *t);
/** Updates so far; with parameter servers this worker's. */
COPSE_API uint64_t copse_tower_steps(const copse_tower_optimizer *t);
/** Scale of the gradients that copse_tower_compute gives and copse_tower_apply takes (optimizer.h),
    the same until copse_tower_finish; 0 = they are not scaled. And whether the newest update was
    skipped. */
COPSE_API float copse_tower_loss_scale(const copse_tower_optimizer *t);
COPSE_API bool copse_tower_is_skipped(const copse_tower_optimizer *t);
/** "adam", "sgd", ... and the names of the rule's slots; a first use. Lifetime: static; that of
    `t`. */
COPSE_API COPSE_CHECKED copse_status copse_tower_name(copse_tower_optimizer *t, const char **name);
COPSE_API COPSE_CHECKED copse_status copse_tower_slot_names(copse_tower_optimizer *t,
                                                            const char *const **names,
                                                            size_t *count);
/** Slots that there are, of all variables. */
COPSE_API size_t copse_tower_slot_count(const copse_tower_optimizer *t);
/**
 * A slot as an array on the host. [C] and by all workers with a collective strategy; each gets all
 * of it.
 * @param out  Receives NULL where the rule has no slot of the name, or the variable was not updated
 *             yet.
 * Blocking: until queued work has run.
 */
COPSE_API COPSE_CHECKED copse_status copse_tower_slot(copse_tower_optimizer *t,
                                                      const copse_variable *v, const char *name,
                                                      copse_value **out);

/* ---- replicated models ---- */

typedef enum copse_model_mode {
    COPSE_MODEL_TRAIN,
    COPSE_MODEL_EVAL,
    COPSE_MODEL_PREDICT,
} copse_model_mode;

/** Most metrics of a model. */
#define COPSE_MAX_METRICS 32

/** What a model function sees. Borrowed: for the call. */
struct copse_model_call {
    copse_model_mode mode;
    copse_value *features, *labels; /**< this replica's part; NULL where none were given */
    void *user;
    uint64_t reserved[4]; /**< 0 */
};
/** What it gives back. Zeroed before the call; references are taken over, on failure too. */
struct copse_model_spec {
    copse_value *loss;    /**< f32, one element; needed to train and to evaluate */
    copse_value *outputs; /**< structure of arrays [n, ...]; required to predict */
    /** replica-local states, the same on all replicas */
    copse_variable *metrics[COPSE_MAX_METRICS];
    size_t metric_count;
    uint64_t reserved[4]; /**< 0 */
};
typedef copse_status copse_model_fn(copse_replica_context *rc, const struct copse_model_call *call,
                                    struct copse_model_spec *spec);

/** A model; a zeroed reduction means MEAN. */
struct copse_replicated_params {
    copse_model_fn *model;
    void *user;
    copse_loss_reduction reduction;
};
/** What all replicas together gave. */
struct copse_replicated_result {
    /** sum of the replicas' losses, with MEAN each divided by N; 0 where there is none */
    double loss;
    /** those of this worker's replicas one behind another along axis 0, on the host; a reference
       for the caller. NULL where there are none */
    copse_value *outputs;
    uint64_t reserved[4]; /**< 0 */
};
/**
 * [C] For a step that a function of the application computes call by call, where a loss function
 * and copse_trainer_step do not do: call a model function once per replica, in rank order, with the
 * features' and labels' parts along axis 0; the variables are those of the strategy, the same for
 * all. One replica gets the values as they are, and gives its results unchanged.
 *
 * @param features  A structure of arrays and sparse values, or NULL. Arrays must divide evenly; of
 *                  the rows of a sparse value the first replicas get one more each.
 * @param labels    The same.
 * @retval COPSE_ERR_ARGUMENT  Rows do not divide evenly; a loss, outputs, or the same metrics on
 *                             all replicas are missing; several replicas trained without a tower
 *                             optimizer; a worker has another reduction, or does something else.
 * @retval COPSE_ERR_CONTEXT   As copse_strategy_run and copse_tower_finish.
 * @retval COPSE_ERR_SHAPE     Replicas' outputs differ in structure or shape.
 * @retval COPSE_ERR_UNSUPPORTED  The default strategy.
 * @retval COPSE_ERR_COMM      A worker was lost. When one fails in the call, those that wait for
 *                             it in the call return its status.
 * With COPSE_MODEL_EVAL metrics are reduced as by copse_metrics_reduce. With a collective strategy
 * all workers call this, each with features and labels of its own replicas, and get the outputs of
 * those; the loss is that of all replicas, on all workers. What one of them fails with, all return.
 */
COPSE_API COPSE_CHECKED copse_status copse_replicated_run(
    copse_strategy *st, const struct copse_replicated_params *params, copse_model_mode mode,
    copse_value *features, copse_value *labels, struct copse_replicated_result *out);

/**
 * [C] Write all that a replicated model needs to go on: every variable of the strategy, the slots
 * of all of its tower optimizers, their counts of updates, copse_global_step, and what `params`
 * says. It is what copse_trainer_checkpoint writes, without a trainer; with one, that writes the
 * tower optimizers, too. Entries of slots are named "<variable>/<name of the optimizer>/<name of
 * the slot>", one for each variable that was updated, whatever the number of replicas. A step
 * (copse_step_create) that saves and restores this way can be monitored.
 *
 * With a collective strategy all workers call this, and the first writes; with parameter servers
 * the chief writes what it has updated, while others train on, and for others this does nothing.
 * @retval COPSE_ERR_ARGUMENT  Gradients are kept, or as copse_trainer_checkpoint.
 * Other errors, and blocking: as copse_trainer_checkpoint.
 */
COPSE_API COPSE_CHECKED copse_status copse_replicated_checkpoint(
    copse_strategy *st, const char *path, const struct copse_state_params *params);
/**
 * [C] Take it over: all of it, or nothing; as copse_trainer_restore. The strategy must have the
 * tower optimizers of the file, by their names, with the same rules, and no other ones. Gradients
 * that are kept are dropped; an optimizer whose last update was cut short is whole again.
 *
 * With the parameter servers of a job all workers call it before they train. The chief reads the
 * file and sets what the servers keep. Others do not look at `path`, which may be "": they wait
 * until the chief has done so, or has written a checkpoint since its variables were made, and get
 * its position and no `file`. Slots stay for workers that have not used theirs yet, also where the
 * chief has released its tower optimizers, or has left: they go when every worker has released its
 * optimizer of the name or is gone.
 *
 * @retval COPSE_ERR_ARGUMENT  An optimizer, a variable or a slot is missing or too much, or another
 *                             rule; the text names it. Or the path is empty, where it is looked at.
 * @retval COPSE_ERR_SHAPE     An entry has another shape; the text names it.
 * Other errors, and blocking: as copse_trainer_restore.
 */
COPSE_API COPSE_CHECKED copse_status copse_replicated_restore(copse_strategy *st, const char *path,
                                                              struct copse_position *position,
                                                              copse_checkpoint **file);

/**
 * [C] Add the components of replicas 1 ... to replica 0's, by the canonical tree, and zero them:
 * what a variable reads as with SUM stays, and a second call changes nothing. With several workers
 * all call this, and replica 0 is the first worker's. A variable with a server has one copy, and
 * stays as it is.
 * @retval COPSE_ERR_ARGUMENT  A variable is not replica-local, of another strategy, or twice in the
 *                             list.
 */
COPSE_API COPSE_CHECKED copse_status copse_metrics_reduce(copse_strategy *st,
                                                          copse_variable *const *states,
                                                          size_t count);

#if defined(__cplusplus)
}
#endif
#endif
