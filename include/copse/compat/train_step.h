/* SPDX-License-Identifier: MIT */
/** @file A train step as one function: losses in, losses out, with everything that may be asked for
 * between them. It is a trainer with a blocking run; the model is create_train_step of
 * tf.contrib.training.
 *
 * The order of a run: update hooks, forward, the total loss is checked, backward, transform,
 * summaries, reduction over the replicas, update, global step. The losses that a run returns are
 * those before its update, and are returned when the update has been queued: whatever reads a
 * variable afterwards sees it updated.
 */
#ifndef COPSE_PUBLIC_COMPAT_TRAIN_STEP_H
#define COPSE_PUBLIC_COMPAT_TRAIN_STEP_H

#include "copse/loop/event_file.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_train_step copse_train_step;

/** Named losses, one scalar each; they are reports of the step. Structure goes into the names:
    "decoder/length". */
struct copse_losses {
    const char *names[COPSE_MAX_REPORTS]; /**< different, not empty; copied after the call */
    copse_tensor *at[COPSE_MAX_REPORTS];  /**< f32 scalars of the graph */
    size_t count;
};

/** Builds the losses of one replica's shard, as copse_loss_fn does; sets names, at and count. */
typedef void copse_losses_fn(copse_graph *g, const copse_batch *in, void *user,
                             struct copse_losses *losses);
/** Makes the scalar to minimise out of the losses. */
typedef copse_tensor *copse_total_loss_fn(copse_graph *g, const struct copse_losses *losses,
                                          void *user);
/** Runs on the host before the losses are computed; may read and assign variables, and use the
    strategy, but not this train step or its trainer: see docs/callbacks.md. An error ends the run,
    and nothing is changed; the other workers of a collective strategy return its status. */
typedef copse_status copse_update_hook_fn(copse_strategy *st, void *user);
struct copse_update_hook {
    copse_update_hook_fn *fn;
    void *user;
};

/** What counts the steps. */
typedef enum copse_global_step_kind {
    COPSE_GLOBAL_STEP_DEFAULT, /**< the strategy's counter, copse_global_step */
    COPSE_GLOBAL_STEP_NONE,    /**< nothing is counted */
    COPSE_GLOBAL_STEP_OWN,     /**< the application's, `counter` */
} copse_global_step_kind;

/** How to make a train step. */
struct copse_train_step_params {
    copse_losses_fn *losses;
    void *user;                      /**< of `losses` */
    copse_total_loss_fn *total_loss; /**< [NULL = the loss itself, where there is one] */
    void *total_user;
    copse_loss_reduction reduction;
    struct copse_optimizer_params optimizer;
    uint64_t seed;
    copse_global_step_kind global_step;
    /** COPSE_GLOBAL_STEP_OWN: 1 is added per update; outlives the step */
    uint64_t *counter;
    const struct copse_update_hook *update_hooks; /**< run in this order; copied */
    size_t update_hook_count;
    copse_variable *const *variables; /**< to train, each once, not empty    [NULL = all] */
    size_t variable_count;
    copse_transform_fn *transform; /**< of gradients, see copse/trainer.h            [NULL] */
    void *transform_user;
    bool summarize_gradients; /**< see copse_trainer_gradient            [false] */
    copse_gating gating;      /**< [COPSE_GATE_OP] */
    bool skip_numerics;       /**< let NaN and infinite losses update the variables [false] */
    bool check_gradients;     /**< gradients too must be finite          [false] */
    uint32_t accumulate;      /**< micro-batches to an update            [0 = 1] */
    copse_shard_rule sharding;
    size_t batch_size;
    const float *shard_weights;
    /** batches uploaded ahead, see copse_trainer_feed: feed the trainer inside, and run with a
       batch of NULL [0 = none] */
    uint32_t prefetch;
    uint32_t recordings;    /**< see copse/trainer.h            [0 = 32] */
    copse_type precision;   /**< see copse/trainer.h            [0 = COPSE_F32] */
    uint64_t memory_budget; /**< see copse/trainer.h            [0 = none] */
    /** each run that completes a step, also one whose update is skipped (optimizer.h), writes its
        summaries of gradients to it (copse_event_file_gradients), at the global step, or else the
        step; needs `summarize_gradients`; outlives the train step [NULL] */
    copse_event_file *gradient_events;
    uint64_t reserved[1]; /**< 0 */
};

/** @retval COPSE_ERR_ARGUMENT  A setting breaks its rule; the text names it.
    Lifetime: retains the strategy. Thread-safety: one thread at a time. */
COPSE_API COPSE_CHECKED copse_status copse_train_step_create(
    copse_strategy *st, const struct copse_train_step_params *params, copse_train_step **out);
COPSE_API void copse_train_step_release(copse_train_step **ts);
/** The trainer inside, for evaluation, saving, summaries. Lifetime: that of the train step. */
COPSE_API copse_trainer *copse_train_step_trainer(copse_train_step *ts);

/** What a run came to. */
struct copse_train_step_result {
    bool is_updated;      /**< false: a micro-batch was accumulated, and nothing else is set */
    uint64_t step;        /**< updates of this train step, from 1 */
    uint64_t global_step; /**< after the run; 0 with COPSE_GLOBAL_STEP_NONE */
    double total;         /**< loss of the global batch that was minimised */
    size_t loss_count;
    const char *names[COPSE_MAX_REPORTS]; /**< lifetime: that of the train step */
    /** of the global batch, in the order they were given in */
    double losses[COPSE_MAX_REPORTS];
    uint64_t reserved[4]; /**< 0 */
};
/**
 * One step, for named losses, hooks before it, or a result at once, which copse_trainer_step does not
 * have.
 * @retval COPSE_ERR_ARGUMENT   The batch is empty; several losses and no total_loss function; the
 *                              total depends on none of the variables to train.
 * @retval COPSE_ERR_NONFINITE  The total loss is NaN or infinite. Without skip_numerics no
 *                              variable, slot or counter was changed; with it the update was made,
 *                              `out` is filled, and COPSE_OK is returned instead.
 * @retval COPSE_ERR_IO         The update was made, and `out` is filled, but `gradient_events` could
 *                              not be written.
 * Blocking: until the losses are computed.
 */
COPSE_API COPSE_CHECKED copse_status copse_train_step_run(copse_train_step *ts,
                                                          const struct copse_host_batch *batch,
                                                          struct copse_train_step_result *out);

/** The strategy's count of updates by all train steps that count there; it starts at 0. */
COPSE_API uint64_t copse_global_step(const copse_strategy *st);
COPSE_API void copse_global_step_set(copse_strategy *st, uint64_t value);

#if defined(__cplusplus)
}
#endif
#endif
