/* SPDX-License-Identifier: MIT */
/** @file
 * The collective strategy: replicas of several workers in step.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_COLLECTIVE_H
#define COPSE_PUBLIC_DISTRIBUTE_COLLECTIVE_H

#include "copse/distribute/cluster.h"
#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * As copse_mirrored_create, across workers: one replica on each of the named devices of this
 * worker, in step with those of all other workers of the cluster. All of them call this, and
 * everything else that the workers do together, in the same order: make the same variables and
 * trainers, run the same steps with the same global batches, evaluate and save. Every replica takes
 * its shard of a batch.
 *
 * The rank order is that of the workers, and within each that of the list. With the same power of
 * two of replicas on every worker, results have the bits of one process with all the replicas. All
 * variables have the first worker's values when they are made. Reductions of values, what replicas
 * assign to a variable by its aggregation, and reading a replica-local one across replicas go over
 * the replicas of all workers, see copse/distribute/cross_device.h and copse/distribute/replica.h.
 * Places stay this worker's affair: ranks of components and destinations count its replicas, from
 * 0.
 * @param cluster  NULL: no job is described, and this process trains alone, as one worker.
 * @retval COPSE_ERR_ARGUMENT  The job has parameter servers, see copse_parameter_server_create. Or
 *                             a worker has other settings; the text names it.
 * @retval COPSE_ERR_COMM      A worker was lost; the text names it.
 * Lifetime: retains the cluster too. Blocking: until all workers have come here.
 */
COPSE_API COPSE_CHECKED copse_status copse_collective_create(
    copse_context *ctx, copse_cluster *cluster, const char *const *devices, size_t count,
    const struct copse_strategy_params *params, copse_strategy **out);

/**
 * Settings of a context as this strategy wants them: an unchanged copy. No strategy needs other
 * settings, because each opens its own devices and connections. (tf.distribute:
 * update_config_proto.)
 */
COPSE_API COPSE_CHECKED copse_status
copse_strategy_update_config(const copse_strategy *st, const struct copse_context_params *config,
                             struct copse_context_params *out);

#if defined(__cplusplus)
}
#endif
#endif
