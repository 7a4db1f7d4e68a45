/* SPDX-License-Identifier: MIT */
/** @file
 * The learning-rate range test: the rate grows exponentially over some steps, and the losses show
 * which rates train (Smith, WACV 2017). docs/optimizers.md has the rule of the suggestion.
 */
#ifndef COPSE_PUBLIC_FIND_LR_H
#define COPSE_PUBLIC_FIND_LR_H

#include "copse/model.h"
#include "copse/optim/schedule.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Most steps of a test. */
#define COPSE_FIND_LR_MAX 1000

/** Settings of a test. */
struct copse_find_lr_params {
    float start_lr;       /**< > 0                                       [0 = 1e-7] */
    float end_lr;         /**< > start_lr                                [0 = 10] */
    uint32_t steps;       /**< 10 to COPSE_FIND_LR_MAX                   [0 = 100] */
    uint64_t reserved[4]; /**< 0 */
};

/** A step of a test. */
struct copse_lr_point {
    float lr;
    double loss;     /**< of the batch */
    double smoothed; /**< moving average of the losses, with decay 0.9, corrected for its start */
};

/** Result of a test. */
struct copse_lr_range {
    struct copse_lr_point points[COPSE_FIND_LR_MAX];
    uint32_t count; /**< of `points`; less than the steps: it diverged */
    /** a tenth of the rate at `best`, at least `start_lr`; 0: its smoothed loss is not 10 % below
        the baseline, the mean loss of the first tenth of the steps, at least 5 */
    float suggestion;
    /** the point with the lowest smoothed loss after the baseline's steps; 0: there is none */
    uint32_t best;
    /** the smoothed loss exceeded the baseline and 4 times the lowest one, or a loss or, where the
        trainer checks them, a gradient was not finite: the test ended there */
    bool has_diverged;
    uint64_t reserved[4];
};

/** The rates of a test, for copse_schedule_rate of the trainer that makes it.
    @param params  NULL for defaults.
    @retval COPSE_ERR_ARGUMENT  A setting breaks its rule. */
COPSE_API COPSE_CHECKED copse_status copse_find_lr_schedule(
    copse_context *ctx, const struct copse_find_lr_params *params, copse_schedule **out);

/**
 * Make the test with a new trainer, whose optimizer has the schedule of copse_find_lr_schedule.
 * Afterwards the variables have the values that they had before, but the optimizer has no use:
 * release the trainer. The batches begin at epoch 0, and begin again where an epoch is over.
 * @param params  As for the schedule.
 * @retval COPSE_ERR_ARGUMENT     The trainer has made steps; a setting breaks its rule.
 * @retval COPSE_ERR_UNSUPPORTED  Parameter servers have the variables.
 * Otherwise as copse_trainer_step. Blocks.
 */
COPSE_API COPSE_CHECKED copse_status
copse_trainer_find_lr(copse_trainer *t, copse_loader *batches,
                      const struct copse_find_lr_params *params, struct copse_lr_range *out);

/**
 * The same for a model, with the trainer and loader that copse_model_fit makes.
 * @param how  `batch`, `seed` and `optimizer` count; `learning_rate` and `schedule` do not.
 */
COPSE_API COPSE_CHECKED copse_status copse_model_find_lr(copse_model *m, copse_dataset *data,
                                                         const struct copse_model_fit_params *how,
                                                         const struct copse_find_lr_params *params,
                                                         struct copse_lr_range *out);

#if defined(__cplusplus)
}
#endif
#endif
