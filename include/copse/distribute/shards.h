/* SPDX-License-Identifier: MIT */
/** @file
 * What single replicas have of a step: their shards of a batch, and their part of the result.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_SHARDS_H
#define COPSE_PUBLIC_DISTRIBUTE_SHARDS_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Weights of the replicas' shards.
 * @param weights   One for each replica; all 1 where the split is not weighted.
 * @param is_known  false while they are still to be measured.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_shard_weights(const copse_trainer *t,
                                                                 float *weights, bool *is_known);
/** Set the weights of a weighted or measured split; then nothing is measured.
    @retval COPSE_ERR_ARGUMENT  The split is not weighted, or a weight breaks its rule. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_set_shard_weights(copse_trainer *t,
                                                                     const float *weights);

/** What one replica contributed to a result. */
struct copse_replica_result {
    double fraction; /**< its part of the examples, 0..1; 0: the other values are 0 */
    double loss;     /**< of its shard */
    /** in the order of `copse_step_result.report_names` */
    double reports[COPSE_MAX_REPORTS];
    uint64_t reserved[4]; /**< 0 */
};

/**
 * A replica's part of the result that copse_trainer_result gave last.
 * @retval COPSE_ERR_ARGUMENT  No such replica, no result was taken yet, or later steps have reused
 *                             its memory.
 */
COPSE_API COPSE_CHECKED copse_status copse_trainer_replica_result(copse_trainer *t,
                                                                  uint32_t replica,
                                                                  struct copse_replica_result *out);

#if defined(__cplusplus)
}
#endif
#endif
