/* SPDX-License-Identifier: MIT */
/** @file Early stopping in a loop of one's own, and of a run that is resumed. copse_trainer_fit has
 * it with `patience`.
 *
 *     copse_early_stopping_observe(e, epoch, loss, &stop);    after each epoch; until `stop`
 *     copse_early_stopping_swap(e);                           the variables get the best values
 *
 * With a collective strategy all workers make these calls. The first worker decides for all.
 */
#ifndef COPSE_PUBLIC_EARLY_STOPPING_H
#define COPSE_PUBLIC_EARLY_STOPPING_H

#include "copse/data/checkpoint.h"
#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** The lowest loss so far, and the values that the variables had then, in host memory: of those
    that the trainer trains, and of those that no gradient trains (statistics). One thread. */
typedef struct copse_early_stopping copse_early_stopping;

/** When training ends. */
struct copse_early_stopping_params {
    uint32_t patience; /**< stop after so many epochs in a row without a lower loss [0 = never] */
    float min_delta;   /**< a loss is lower by more than this, >= 0           [0] */
    bool keep_last;    /**< do not keep values                                [false] */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * It borrows the trainer, which must outlive it.
 * @param params  NULL for defaults.
 * @retval COPSE_ERR_ARGUMENT     `min_delta` is negative or not finite.
 * @retval COPSE_ERR_UNSUPPORTED  Parameter servers have the variables: other workers train them.
 */
COPSE_API COPSE_CHECKED copse_status copse_early_stopping_create(
    copse_trainer *t, const struct copse_early_stopping_params *params, copse_early_stopping **out);
COPSE_API void copse_early_stopping_release(copse_early_stopping **e);

/**
 * After an epoch: keep the variables' values if the loss is the lowest so far. NaN and infinities
 * are never the lowest. A trainer with averages (train/average.h) keeps the values that the
 * variables have. Blocks until queued steps have run.
 * @param epoch  From 1; greater than in earlier calls.
 * @param loss   On data that does not train. Only the first worker's counts.
 * @param stop   Whether `patience` epochs in a row were not lower than the lowest loss before them
 *               by more than `min_delta`; the same on all workers.
 * @retval COPSE_ERR_ARGUMENT  `epoch` is not greater.
 * @retval COPSE_ERR_COMM      Another worker is lost.
 */
COPSE_API COPSE_CHECKED copse_status copse_early_stopping_observe(copse_early_stopping *e,
                                                                  uint32_t epoch, double loss,
                                                                  bool *stop);

/** What was observed. */
struct copse_early_stopping_info {
    uint32_t best_epoch;  /**< with the lowest loss, from 1; 0 = none */
    uint32_t waited;      /**< epochs in a row that were not lower */
    double best_loss;     /**< infinite: none */
    bool is_over;         /**< `waited` has reached `patience` */
    bool has_values;      /**< values of `best_epoch` are kept */
    uint64_t reserved[4]; /**< 0 */
};
COPSE_API void copse_early_stopping_describe(const copse_early_stopping *e,
                                             struct copse_early_stopping_info *out);

/**
 * The variables get the kept values. A second call before the next observation gives them back what
 * they had, with the same bits; training between the two is lost. Slots of the optimizer stay as
 * they are. Blocks.
 * @retval COPSE_ERR_ARGUMENT  No values are kept, or the variables have their averages.
 * @retval COPSE_ERR_COMM      Another worker is lost.
 * After another failure the trainer cannot be used any more, until it is restored.
 */
COPSE_API COPSE_CHECKED copse_status copse_early_stopping_swap(copse_early_stopping *e);

/**
 * Arrays for a checkpoint (`arrays` of copse_state_params), with which a resumed run stops in the
 * same epoch with the same values. Borrowed until the next call on `e`.
 */
COPSE_API COPSE_CHECKED copse_status copse_early_stopping_arrays(
    copse_early_stopping *e, const struct copse_named_array **arrays, size_t *count);
/**
 * Go on from these arrays. A checkpoint without them changes nothing; of one without values the
 * best epoch is yet to come, unless `keep_last` is set.
 * @param file  Of copse_trainer_restore.
 * @retval COPSE_ERR_ARGUMENT  An array of a variable is missing.
 * @retval COPSE_ERR_SHAPE     It has another type or shape than its variable.
 * @retval COPSE_ERR_FORMAT    The counters are damaged.
 */
COPSE_API COPSE_CHECKED copse_status copse_early_stopping_resume(copse_early_stopping *e,
                                                                 const copse_checkpoint *file);

#if defined(__cplusplus)
}
#endif
#endif
