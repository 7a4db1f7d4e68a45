/* SPDX-License-Identifier: MIT */
/** @file
 * Models: a network, the schema of its data and its variables. A model is trained by a trainer, saved to a file, and
 * loaded by another process, which predicts from new data. docs/model-file.md describes the file.
 *
 *     copse_model_create(st, copse_dataset_schema(data), &(struct copse_model_params){ .network = "dense 64 relu; dense out" }, &m);
 *     copse_trainer_create(st, &(struct copse_trainer_params){ .loss = copse_model_loss, .user = m }, &t);
 *     ... steps ...
 *     copse_model_save(m, "model.safetensors", NULL);
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
    const char *network; /**< description, see nn.h; its output is `dense out` */
    copse_layer *layer;  /**< layers that are not built, instead of `network`; retained [NULL] */
    const char *scope;   /**< prefix of the variables' names, see nn.h                 [NULL] */
    uint64_t seed;       /**< of the initial values */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Make a model for data of a schema, with its variables. It retains the strategy and the schema.
 * @param schema  Of a classification or regression (copse_dataset_schema).
 * @retval COPSE_ERR_ARGUMENT     The description is wrong, or the schema has no task.
 * @retval COPSE_ERR_SHAPE        The network gives other outputs than the task needs, or layers do not fit.
 * @retval COPSE_ERR_UNSUPPORTED  The task is a sequence.
 * Errors and blocking otherwise as copse_layer_build.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_create(copse_strategy *st, const copse_schema *schema,
                                                        const struct copse_model_params *params, copse_model **out);
COPSE_API copse_model *copse_model_retain(copse_model *m);
COPSE_API void copse_model_release(copse_model **m);

/**
 * A copse_loss_fn; `user` is the model. Classification: softmax cross-entropy; reports "accuracy". Regression: mean squared
 * error of column "y"; reports "mae", the mean absolute error, of a single target in its unit. The model must outlive
 * trainers that use it.
 */
COPSE_API copse_status copse_model_loss(copse_graph *g, const copse_batch *in, void *model, copse_tensor **loss);

/** What a model file holds in addition. */
struct copse_model_save_params {
    const struct copse_named_array *arrays; /**< names begin with "application/"   [NULL] */
    size_t array_count;
    const struct copse_metadata *metadata;  /**< keys begin with "application."    [NULL] */
    size_t metadata_count;
    uint64_t reserved[4]; /**< 0 */
};

/** Write the model, atomically. Errors and other workers as copse_trainer_checkpoint. @param params  NULL: nothing more. */
COPSE_API COPSE_CHECKED copse_status copse_model_save(copse_model *m, const char *path,
                                                      const struct copse_model_save_params *params);
/** Lines that make a checkpoint a model file, for copse_state_params.metadata; borrowed. */
COPSE_API const struct copse_metadata *copse_model_metadata(const copse_model *m, size_t *count);

/**
 * Make a model from a file of copse_model_save, or from a checkpoint with the lines of copse_model_metadata.
 * @retval COPSE_ERR_IO           The file cannot be read.
 * @retval COPSE_ERR_FORMAT       It is damaged, or no model file; the text says what it is.
 * @retval COPSE_ERR_UNSUPPORTED  It is of a newer version.
 * Otherwise as copse_model_create. After an error the strategy may have variables of the model.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_load(copse_strategy *st, const char *path, copse_model **out);

/**
 * Predict for every row, on the replicas of this process. Repeated calls with as many rows record nothing.
 * @param data    Read by the model's schema (copse_dataset_params.schema); needs no labels.
 * @param values  [rows, outputs]. Classification: probabilities; regression: values in the unit of the target.
 * @retval COPSE_ERR_ARGUMENT  The data is of another schema.
 * @retval COPSE_ERR_TIMEOUT   A device does not answer.
 * Blocks until the values are there.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_predict(copse_model *m, const copse_dataset *data, float *values);

/** What to compute besides the mean values. */
struct copse_evaluation_params {
    uint64_t *confusion;  /**< receives the number of rows of each label and prediction, [classes, classes] [NULL] */
    uint32_t *worst;      /**< receives the rows with the largest loss, the largest first                   [NULL] */
    double *worst_losses; /**< receives their losses                                                        [NULL] */
    size_t worst_count;   /**< room in `worst` and `worst_losses` */
    uint64_t reserved[4]; /**< 0 */
};
/** Mean values over all rows. */
struct copse_evaluation {
    size_t rows;
    double loss;        /**< as copse_model_loss */
    double accuracy;    /**< of a classification */
    double r2;          /**< of a regression: coefficient of determination, averaged over targets; NaN: constant labels */
    double mae;         /**< of a regression: mean absolute error in the unit of the target, averaged over targets */
    size_t worst_count; /**< rows in `worst` */
    uint64_t reserved[4]; /**< 0 */
};
/** Compare predictions with labels. @param params  NULL: nothing more. Errors as copse_model_predict. */
COPSE_API COPSE_CHECKED copse_status copse_model_evaluate(copse_model *m, const copse_dataset *data,
                                                          const struct copse_evaluation_params *params,
                                                          struct copse_evaluation *out);

/** Its schema, layers and strategy, borrowed. */
COPSE_API const copse_schema *copse_model_schema(const copse_model *m);
COPSE_API copse_layer *copse_model_layer(const copse_model *m);
COPSE_API copse_strategy *copse_model_strategy(const copse_model *m);

#if defined(__cplusplus)
}
#endif
#endif
