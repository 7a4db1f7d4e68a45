/* SPDX-License-Identifier: MIT */
/** @file How long to train on a data set, and what of it to keep, where nothing else is asked for:
 * the rule of `copse train`, and of Classifier and Regressor in Python.
 */
#ifndef COPSE_PUBLIC_TRAIN_DEFAULTS_H
#define COPSE_PUBLIC_TRAIN_DEFAULTS_H

#include "copse/data.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Settings that depend on the rows. docs/performance.md has how they were chosen. */
struct copse_training_defaults {
    uint32_t batch;  /**< rows of a step */
    uint32_t epochs; /**< passes over the rows */
    uint32_t
        patience; /**< epochs without a lower held-out loss that end training; 0 = all epochs */
    /** the last epoch is the result: too few rows are held out to choose another by their loss */
    bool keep_last;
    float dropout;        /**< after each hidden layer of a perceptron, `mlp:... dropout=X` */
    float weight_decay;   /**< of Adam with a perceptron: it times the weights adds to gradients */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * @param train     The rows that train; its schema says whether it is a table, a text or another.
 * @param held_out  What judges an epoch; NULL: nothing, and the last epoch is kept.
 * @param batch     Rows of a step, if they are given [0].
 * @retval COPSE_ERR_ARGUMENT  `train` has no schema or no rows.
 * Any thread.
 */
COPSE_API COPSE_CHECKED copse_status copse_training_defaults(const copse_dataset *train,
                                                             const copse_dataset *held_out,
                                                             uint32_t batch,
                                                             struct copse_training_defaults *out);

#if defined(__cplusplus)
}
#endif
#endif
