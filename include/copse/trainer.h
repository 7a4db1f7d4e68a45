/* SPDX-License-Identifier: MIT */
/** @file
 * Training: a loss function, an optimizer and a strategy make a trainer; each step takes one global
 * batch, split over the replicas.
 */
#ifndef COPSE_PUBLIC_TRAINER_H
#define COPSE_PUBLIC_TRAINER_H

#include "copse/batch.h"
#include "copse/optimizer.h"
#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_trainer copse_trainer;

/**
 * Builds the loss of one replica's share from the inputs that it asks for by name (copse_input). Called once for each
 * replica, size of its share and list of inputs (name, type, shape), and again when these come back after their
 * recording was released (`recordings`), never in a step of which the recording is kept. The calls for one size must
 * build the same. It only builds: strategy.h says what it may call.
 * The loss is a mean over the examples of `in`; the library weights it by the replica's share of
 * the global batch, so unequal shares are right. `copse_report` names further scalars.
 */
typedef copse_status copse_loss_fn(copse_graph *g, const copse_batch *in, void *user,
                                   copse_tensor **loss);

/**
 * Assign a tensor to a variable that is not trained, with the step: moving averages of batch normalisation, counters.
 * What the loss function reads of the variable is the value before the update. Executed with every training
 * (micro-)batch, when its losses and gradients have passed the checks; a step that is refused or cancelled changes
 * nothing. An evaluation executes none.
 *
 * A replica-local variable (COPSE_SYNC_ON_READ) takes its replica's own value; without examples it keeps the old one.
 * Of others the aggregation says what is stored, the same bits on all replicas of all workers: SUM; MEAN, weighted by
 * the replicas' shares of the examples; ONLY_FIRST_REPLICA, that of the first replica with examples, which must be
 * finite on all. These are synchronisation points as in copse/distribute/sync.h. With parameter servers the newest assignment of any
 * worker counts.
 *
 * @param value  Of the variable's type and shape.
 *
 * @retval COPSE_ERR_ARGUMENT     The variable is trained, is updated twice, or has no aggregation although several
 *                                replicas write it.
 * @retval COPSE_ERR_SHAPE        Another type or shape.
 * @retval COPSE_ERR_UNSUPPORTED  The graph is no trainer's; or an i32 variable that several replicas write.
 */
COPSE_API COPSE_CHECKED copse_status copse_update(copse_graph *g, copse_variable *v, copse_tensor *value);

/** How the loss of the global batch comes from the replicas'. */
typedef enum copse_loss_reduction {
    COPSE_LOSS_MEAN, /**< the loss function gives a mean over its examples; weighted by shares */
    COPSE_LOSS_SUM,  /**< the loss function gives a sum over its examples; added up */
} copse_loss_reduction;

/** What must be done before a gradient is used. */
typedef enum copse_gating {
    COPSE_GATE_OP,    /**< the variables of a bucket are updated when all of the bucket's gradients are
                           there, while those of other buckets are still computed */
    COPSE_GATE_NONE,  /**< the same: nothing is used earlier, since buckets are reduced as a whole */
    COPSE_GATE_GRAPH, /**< all gradients are there before the first is reduced; computing and exchange do
                           not overlap */
} copse_gating;

/** A gradient and the variable that it is of. */
struct copse_gradient {
    copse_tensor *gradient;   /**< of the variable's shape; NULL = the loss does not depend on it */
    copse_variable *variable;
};
/**
 * Changes gradients: replaces pairs[i].gradient with other tensors of the graph and leaves the variables
 * as they are. Called when a step is recorded, as the loss function is. It sees the *replica's* gradients,
 * before they are added up over the replicas: with COPSE_LOSS_MEAN they are weighted by the replica's
 * share, so that the sum of all is the gradient of the global batch. What is linear (factors) therefore
 * acts on that gradient, what is not (clipping) acts on each replica's part of it.
 */
typedef copse_status copse_transform_fn(copse_graph *g, struct copse_gradient *pairs, size_t count,
                                        void *user);

/** How to make a trainer. */
struct copse_trainer_params {
    copse_loss_fn *loss;
    void *user;                  /**< passed to `loss` */
    copse_loss_reduction reduction; /**< never inferred from the loss function */
    struct copse_optimizer_params optimizer;
    uint64_t seed;               /**< of dropout */
    copse_variable *const *variables; /**< what is trained, each once, not empty [NULL = all] */
    size_t variable_count;       /**< of `variables` */
    uint32_t accumulate;         /**< micro-batches to an update: each call of copse_trainer_step takes
                                      one, every accumulate-th reduces and updates     [0 = 1] */
    copse_shard_rule sharing;    /**< how a global batch is split (batch.h); the result of a step is that of
                                      the whole batch whatever the split, up to rounding: shares count
                                      by their examples              [COPSE_SHARD_BALANCED] */
    size_t batch_size;           /**< COPSE_SHARD_FIXED: examples of a full batch, a multiple of the
                                      replicas */
    const float *shares;         /**< COPSE_SHARD_WEIGHTED: one weight >= 0 per replica, those of all
                                      workers; copied */
    copse_gating gating;
    bool check_numerics;         /**< a loss that is NaN or infinite ends the step with
                                      COPSE_ERR_NONFINITE before anything is changed. The host waits for
                                      the losses before the first update of every step */
    bool check_gradients;        /**< the same for gradients, each replica's own; implies
                                      COPSE_GATE_GRAPH and a host wait */
    bool summarize_gradients;    /**< for copse_trainer_gradient; implies COPSE_GATE_GRAPH and a host
                                      wait */
    copse_transform_fn *transform; /**< of gradients                            [NULL] */
    void *transform_user;
    uint32_t prefetch;           /**< batches that are uploaded ahead of their steps, at most
                                      COPSE_PREFETCH_MAX; each needs as much memory on the devices as a
                                      batch, and its step one copy there. The upload runs on a queue of its
                                      own, beside the steps under way. 2 is enough; not with an accelerator,
                                      whose runs take their batches ahead in any case. See
                                      copse_trainer_feed (copse/distribute/accelerator.h)             [0 = none] */
    uint32_t recordings;         /**< kept for each replica: one for every size of its share that it trains or
                                      evaluates, and a second one for sizes of later micro-batches of
                                      `accumulate`. Each has memory on the device for all values between input
                                      and loss. A size beyond that releases the least recently used one, but none
                                      that the call at hand or a batch that is fed needs; one that is still being
                                      computed is waited for. What was released is recorded again when it is
                                      needed, and computes the same bits              [0 = 32] */
};
#define COPSE_PREFETCH_MAX 64

/**
 * Make a trainer. A strategy may have several: they share its variables, and each has optimizer slots
 * of its own.
 * @retval COPSE_ERR_ARGUMENT  A setting breaks its rule: an empty list of variables, a variable that is
 *                             another strategy's or not trainable, shares without a weighted split. Or, with
 *                             a collective strategy, another worker has other settings or variables; the text
 *                             names it.
 * @retval COPSE_ERR_UNSUPPORTED  The default strategy; or shares to be measured on a collective one.
 * @retval COPSE_ERR_COMM      Another worker is lost; the text names it.
 * Lifetime: retains the strategy. Thread-safety: one thread at a time, except
 * `copse_trainer_cancel`. Blocking: while memory is allocated; with a collective strategy until all workers
 * have come here.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_create(
    copse_strategy *st, const struct copse_trainer_params *params, copse_trainer **out);
/** Wait for its steps and free it; sets `*t` to NULL. Refused in its own functions, see strategy.h. */
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
 * one example and is taken before the call returns; replicas without one are legal. With `prefetch` NULL stands
 * for the oldest batch that was fed (copse_trainer_feed), which stays fed when the step fails before it has
 * begun, as a cancelled one does; and a batch that is given while none is fed is uploaded on the queue for
 * uploads, too, beside earlier steps that are still computed. The parameters after the
 * call are those of the step for every later call; the result comes through
 * `copse_trainer_result`. Up to 8 steps may be under way: when the results of 8 are waiting to be taken,
 * the oldest is dropped. Each new size of batch is recorded once and kept, see `recordings`.
 *
 * With `accumulate` = k the call takes a micro-batch: gradients are gathered on the devices, and the k-th
 * call reduces and updates. The update, and the result, are those of the k batches as one; unequal ones
 * weigh by their examples. Steps are counted in updates. When a call fails, what was gathered is dropped.
 *
 * @retval COPSE_ERR_ARGUMENT     The batch is empty, or NULL and none is fed, or lacks an input that the loss asks for,
 *                                or two of its inputs have one name; the loss depends on none of the variables that were listed;
 *                                another trainer of the strategy gathers gradients of one of them.
 * @retval COPSE_ERR_SHAPE        Replicas differ in their sums over replicas, see copse/distribute/sync.h.
 * @retval COPSE_ERR_CANCELLED    `copse_trainer_cancel` was called; nothing was changed.
 * @retval COPSE_ERR_NONFINITE    `check_numerics` or `check_gradients` found something; or the result to
 *                                be dropped has a loss that is NaN or infinite. Nothing was changed: no
 *                                variable, no slot, no step counter. The trainer can be used on.
 * @retval COPSE_ERR_DEVICE_LOST  A device failed.
 * @retval COPSE_ERR_COMM         Another worker, or a server, is lost, or is at another step or batch; the text names
 *                                it. The trainer cannot be used on.
 * @retval COPSE_ERR_CONTEXT      With parameter servers and several replicas: the thread is in one of the replicas, or
 *                                a tower optimizer (copse/compat/replicated.h) has gradients of some and not yet of all. A step
 *                                brings what the servers have to all replicas, and these would compute from
 *                                different values. Nothing was changed.
 * Blocking: while 8 steps are under way, and where replicas must wait for each other; with parameter servers
 * until the gradients are computed and the servers have answered.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_step(copse_trainer *t,
                                                        const struct copse_host_batch *batch);

/**
 * Take the result of the oldest step not yet taken. After a failure other than COPSE_ERR_NONFINITE it is not taken,
 * and the call may be repeated.
 * @param wait  Wait for it; else COPSE_ERR_TIMEOUT when it is still running, or parts of other workers have not come.
 * @retval COPSE_ERR_END          No step is under way.
 * @retval COPSE_ERR_NONFINITE    The loss of that step is NaN or infinite; `out` is filled, the text
 *                                names the step.
 * @retval COPSE_ERR_DEVICE_LOST  A device failed.
 * @retval COPSE_ERR_TIMEOUT      With `wait`: a device has not finished it within the
 *                                deadline of copse_queue_finish; or, with a collective strategy,
 *                                a worker's part did not come within the cluster's deadline, and the cluster has failed.
 * @retval COPSE_ERR_COMM         With a collective strategy: a worker is lost, or at another step.
 * Where the call fails and a device of this worker has failed, or an update was cut short, other workers of a
 * collective strategy are told that this one cannot go on. They hear of nothing else from here: what they need of
 * this worker for a step was sent before that step returned.
 * Thread-safety: as the trainer. Blocking: with `wait` until the step is computed and all parts have come.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_result(copse_trainer *t, bool wait,
                                                          struct copse_step_result *out);

/** Update with the micro-batches that were gathered since the last update, fewer than `accumulate`; nothing
    happens when there are none. Blocking: as copse_trainer_step. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_flush(copse_trainer *t);
/** Micro-batches gathered since the last update. */
COPSE_API uint32_t copse_trainer_gathered(const copse_trainer *t);

/**
 * The weights of the replicas' shares.
 * @param shares    One for each replica; all 1 where the split is not weighted.
 * @param is_known  Receives false while they are still to be measured.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_shares(const copse_trainer *t, float *shares,
                                                          bool *is_known);
/** Set the weights of a weighted or measured split, such as those of a checkpoint; nothing is measured
    then. @retval COPSE_ERR_ARGUMENT The split is not weighted, or a weight is none. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_set_shares(copse_trainer *t,
                                                              const float *shares);

/* ---- gradients ---- */

/** sqrt(sum of squares) of a tensor, for transforms. */
COPSE_API COPSE_CHECKED copse_status copse_gradient_norm(copse_graph *g, copse_tensor *gradient,
                                                         copse_tensor **norm);
/** Scale each gradient with a larger norm down to the norm `largest` > 0; others keep their bits, one
    with a norm of NaN becomes NaN. */
COPSE_API COPSE_CHECKED copse_status copse_gradients_clip_norms(copse_graph *g,
                                                                struct copse_gradient *pairs,
                                                                size_t count, float largest);
/** Scale all gradients by one factor so that the norm of all together is at most `largest` > 0.
    @param norm  Receives their norm before; NULL = not wanted. */
COPSE_API COPSE_CHECKED copse_status copse_gradients_clip_global_norm(copse_graph *g,
                                                                      struct copse_gradient *pairs,
                                                                      size_t count, float largest,
                                                                      copse_tensor **norm);
/** A factor on the gradient of one variable. */
struct copse_multiplier {
    copse_variable *variable;
    float factor;
};
/** @retval COPSE_ERR_ARGUMENT  A variable is not trained here. */
COPSE_API COPSE_CHECKED copse_status copse_gradients_multiply(copse_graph *g,
                                                              struct copse_gradient *pairs,
                                                              size_t count,
                                                              const struct copse_multiplier *factors,
                                                              size_t factor_count);

/** Magnitudes from 10^-8 on, a factor of 10 to a bin. */
#define COPSE_GRADIENT_LOW  (-8)
#define COPSE_GRADIENT_BINS 12
/** What a replica's gradient of a variable was like in the newest (micro-)batch, after the transform and
    before it was added up over the replicas. */
struct copse_gradient_summary {
    bool is_known; /**< false: the replica had no example */
    double norm;
    /** bins[0]: elements of a magnitude below 10^-8, and NaN; bins[i]: from 10^(i-9) to below 10^(i-8); the
        last: from 10^3 on. Exact up to 2^24 elements. */
    uint64_t bins[COPSE_GRADIENT_BINS + 1];
};
/** @retval COPSE_ERR_ARGUMENT  Gradients of the variable are not summarized by this trainer. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_gradient(const copse_trainer *t,
                                                            const copse_variable *v,
                                                            uint32_t replica,
                                                            struct copse_gradient_summary *out);

/**
 * Read an optimizer slot of a variable: "m" and "v" of Adam, "v" of momentum, "average" (optimizer.h). By all workers
 * of a collective strategy, each of which gets all of it; with parameter servers, what the server has.
 *
 * @param values  Receives as many f32 as the variable has elements.
 *
 * @retval COPSE_ERR_ARGUMENT  A pointer is NULL, the trainer does not train the variable, or its rule has no such slot.
 *
 * Blocking: until queued steps have run.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_slot(copse_trainer *t, const copse_variable *v, const char *name,
                                                        float *values);

/** What one replica contributed to a result. */
struct copse_replica_result {
    double share;      /**< its part of the examples, 0..1; 0: it had none, and the values are 0 */
    double loss;       /**< its share's, as its loss function gave it */
    double reports[7]; /**< in the order of `copse_step_result.report_names` */
};

/**
 * A replica's part of the result that `copse_trainer_result` gave last.
 * @retval COPSE_ERR_ARGUMENT  There is no such replica, or no result was taken yet, or so many steps
 *                             were begun since that its memory is in use again: take it before.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_replica_result(copse_trainer *t, uint32_t replica,
                                                                  struct copse_replica_result *out);

/** Loss and reports of one global batch without training. With parameter servers of what these have, but for an
    evaluation in one of several replicas, or while gradients are gathered or kept: then of what the replicas have.
    Blocking: until it is computed. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_evaluate(copse_trainer *t,
                                                            const struct copse_host_batch *batch,
                                                            struct copse_step_result *out);

/**
 * Let the running or next step return COPSE_ERR_CANCELLED, with nothing changed. A step looks for it when it begins,
 * before its update, and every 50 ms while the host waits for the results of earlier steps, for losses and gradients
 * that it has to look at, or for replicas of this process to compute what the first exchange needs. An update that
 * has begun is finished. Not interrupted: waits for other workers and for servers, which have deadlines of
 * their own; recording; waits for staging memory, and of exchanges through the host once they have begun, each
 * with the deadline of copse_queue_finish; copse_trainer_result and copse_trainer_evaluate, of which the request
 * waits for the next step. What the devices have been given they compute, and later steps stand behind it.
 * Thread-safety: any. Never blocks.
 */
COPSE_API void copse_trainer_cancel(copse_trainer *t);

/** Number of the last step begun; a restored trainer goes on counting. */
COPSE_API uint64_t copse_trainer_steps(const copse_trainer *t);
/** The strategy it trains with. Lifetime: that of the trainer. */
COPSE_API copse_strategy *copse_trainer_strategy(const copse_trainer *t);

#if defined(__cplusplus)
}
#endif
#endif
