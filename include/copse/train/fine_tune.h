/* SPDX-License-Identifier: MIT */
/** @file
 * Fine-tuning: a model goes on from the weights of a model of other data (docs/fine-tuning.md).
 *
 * The *head* of a network is its last layer with a matrix, and the norms around it; it depends on
 * the classes or targets. The first layer with a matrix depends on the columns of a table, or on
 * the tokens of a text. `groups` of an optimizer freezes layers (optim/groups.h).
 */
#ifndef COPSE_PUBLIC_TRAIN_FINE_TUNE_H
#define COPSE_PUBLIC_TRAIN_FINE_TUNE_H

#include "copse/model.h"
#include "copse/train/weights.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** What a model took of a file. */
struct copse_model_weights {
    struct copse_load_report load;
    /** why the head, or the first layer, keeps its values, as "the file has 5 classes, the data 3";
        "": it took its values, or the file lacks it */
    const char *head, *input;
    bool has_schema; /**< false: the file says nothing of its data; only shapes were compared */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Set the variables of a model from a model file, a checkpoint, or a file of arrays, by name. Where
 * the file's classes, targets, columns or tokens differ from the model's schema, the head or the
 * first layer keeps its values.
 * @param t       A trainer of the model; NULL: none, and no parameter servers.
 * @param params  `choose` is asked, too. NULL for defaults.
 * @param report  NULL = not wanted. Borrowed until the next call, or the release of the model.
 * @retval COPSE_ERR_ARGUMENT     Nothing of the file fits; the text says why.
 * @retval COPSE_ERR_UNSUPPORTED  `t` is NULL, and parameter servers have the variables.
 * Otherwise as copse_trainer_load.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_load_weights(
    copse_model *m, copse_trainer *t, const char *path, const struct copse_load_params *params,
    struct copse_model_weights *report);

/** The variables of the head, borrowed from the model. */
COPSE_API copse_variable *const *copse_model_head(const copse_model *m, size_t *count);
/** All variables of its layers, in their order, borrowed from the model. */
COPSE_API copse_variable *const *copse_model_variables(const copse_model *m, size_t *count);

#if defined(__cplusplus)
}
#endif
#endif
