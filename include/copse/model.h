/* SPDX-License-Identifier: MIT */
/** @file Models: a network with the schema of its data. copse_model_fit trains it; a file keeps it
 * (docs/model-file.md); another process loads it and predicts (examples/predict.c).
 */
#ifndef COPSE_PUBLIC_MODEL_H
#define COPSE_PUBLIC_MODEL_H

#include "copse/data.h"
#include "copse/nn.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_model copse_model;

/** How to make a model. */
struct copse_model_params {
    const char *network; /**< description, see nn.h; it ends with `dense out` */
    copse_layer *layer;  /**< instead: layers that are not built; retained   [NULL] */
    const char *scope;   /**< of the variables' names                        [NULL] */
    uint64_t seed;       /**< of the initial values */
    uint64_t reserved[4];
};

/**
 * Make a model and its variables. It retains strategy and schema.
 * @param schema  Of labelled data.
 * Errors as copse_layer_build.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_create(copse_strategy *st,
                                                        const copse_schema *schema,
                                                        const struct copse_model_params *params,
                                                        copse_model **out);
COPSE_API copse_model *copse_model_retain(copse_model *m);
/** With its variables: train/model_file.h. */
COPSE_API void copse_model_release(copse_model **m);

/** A copse_loss_fn; `user` is the model. Classes: softmax cross-entropy; reports "accuracy". Texts:
    data/text.h. Regression: mean squared error; reports "mae", of a single target in its unit. */
COPSE_API COPSE_CHECKED copse_tensor *copse_model_loss(copse_graph *g, const copse_batch *in,
                                                       void *model);

/** How copse_model_fit trains. */
struct copse_model_fit_params {
    uint32_t epochs; /**< at least 1 */
    size_t batch;    /**< examples of a batch           [0 = 64, or all if they are fewer] */
    uint64_t seed;   /**< of the order of examples, and of dropout */
    struct copse_optimizer_params optimizer;
    copse_dataset *held_out;  /**< evaluated after each epoch          [NULL] */
    copse_epoch_fn *on_epoch; /**< [NULL] */
    void *user;               /**< passed to `on_epoch` */
    uint32_t patience;        /**< these three: copse_fit_params */
    float min_delta;
    bool keep_last;
    uint64_t reserved[6];
};

/** Train the model with copse_model_loss, by copse_trainer_fit on a trainer and a loader of its own: the
    state of the optimizer ends with the call. Errors as copse_trainer_fit. */
COPSE_API COPSE_CHECKED copse_status copse_model_fit(copse_model *m, copse_dataset *data,
                                                     const struct copse_model_fit_params *params);

/** Write a file, atomically. Errors as copse_trainer_checkpoint. @param params  See train/model_file.h; NULL for defaults. */
struct copse_model_save_params;
struct copse_model_load_params;
COPSE_API COPSE_CHECKED copse_status copse_model_save(copse_model *m, const char *path,
                                                      const struct copse_model_save_params *params);
/**
 * Make a model from a file. `params`: train/model_file.h.
 * @retval COPSE_ERR_FORMAT       It is damaged, or no model file.
 * @retval COPSE_ERR_UNSUPPORTED  It is of a newer version.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_load(copse_strategy *st, const char *path,
                                                      const struct copse_model_load_params *params,
                                                      copse_model **out);

/**
 * Predict for every row, on this process's replicas.
 * @param data    Read by the model's schema (copse_dataset_params.schema), labels or not. Or
 *                encoded rows: column "x" as the schema describes it.
 * @param values  [rows, outputs]: probabilities of classes, or values in the target's unit.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_predict(copse_model *m, const copse_dataset *data,
                                                         float *values);

/** Its schema, borrowed. */
COPSE_API const copse_schema *copse_model_schema(const copse_model *m);

#if defined(__cplusplus)
}
#endif
#endif
