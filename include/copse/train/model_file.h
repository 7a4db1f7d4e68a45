/* SPDX-License-Identifier: MIT */
/** @file
 * The parts of a model, what model files and checkpoints hold besides its variables, and models
 * that are replaced.
 *
 * copse_model_release releases the variables of a model whose strategy has one worker and no
 * server, if nothing else can use them: no trainer, tower optimizer or call of the strategy, no
 * value of them (copse_variable_value), no retained layer of the model. Handles of released
 * variables are refused. Otherwise the variables stay with the strategy, as the log says
 * (COPSE_LOG_INFO). A running program replaces a model so: it loads the newer file with another
 * `scope`, then releases the older model.
 */
#ifndef COPSE_PUBLIC_TRAIN_MODEL_FILE_H
#define COPSE_PUBLIC_TRAIN_MODEL_FILE_H

#include "copse/data/checkpoint.h"
#include "copse/model.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What a model file holds in addition. */
struct copse_model_save_params {
    const struct copse_named_array *arrays; /**< names begin with "application/"   [NULL] */
    size_t array_count;
    const struct copse_metadata *metadata; /**< keys begin with "application."    [NULL] */
    size_t metadata_count;
    uint64_t reserved[4]; /**< 0 */
};

/** How to load a model. */
struct copse_model_load_params {
    const char *scope;    /**< of the variables' names, "" for none     [NULL = of the file] */
    uint64_t reserved[4]; /**< 0 */
};

/** Lines that make a checkpoint a model file, for copse_state_params.metadata: copse_model_load
    reads it. Borrowed. */
COPSE_API const struct copse_metadata *copse_model_metadata(const copse_model *m, size_t *count);

/**
 * What a model file, or a checkpoint of a model, describes, from its header alone
 * (copse_checkpoint_open).
 * @param layer  Receives the layers, without variables: copse_layer_summary, copse_layer_text and
 *               copse_layer_parameters describe them.
 * @retval COPSE_ERR_FORMAT  It describes no model, or more than it has.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_describe(copse_context *ctx,
                                                          const copse_checkpoint *file,
                                                          copse_schema **schema,
                                                          copse_layer **layer);

/** Its layers and strategy, borrowed. */
COPSE_API copse_layer *copse_model_layer(const copse_model *m);
COPSE_API copse_strategy *copse_model_strategy(const copse_model *m);

/** Whether one of these layers has more than one reference. NULL: false. */
COPSE_API bool copse_layer_is_shared(const copse_layer *l);

/** Set what copse_layer_build sets, but make no variables, so that copse_layer_summary describes
    the layers.
    @param elements  Receives the number of elements of all variables; NULL is allowed.
    Errors as copse_layer_build. */
COPSE_API COPSE_CHECKED copse_status copse_layer_plan(copse_layer *l,
                                                      const struct copse_build_params *params,
                                                      uint64_t *elements);
/** Shape of the output for one example if these layers were built with `params`, without a
    strategy.
    @param elements  Receives the number of elements of all variables; NULL is allowed.
    Errors as copse_layer_build. */
COPSE_API COPSE_CHECKED copse_status copse_layer_shape(const copse_layer *l,
                                                       const struct copse_build_params *params,
                                                       copse_shape *out, uint64_t *elements);

#if defined(__cplusplus)
}
#endif
#endif
