/* SPDX-License-Identifier: MIT */
/** @file Parameter servers: one authoritative copy of each variable, which workers read before a
 * step and change by their gradients after it, in step inside of a worker and without waiting for
 * other workers.
 *
 * A worker's replicas train on working copies. The sum of their gradients goes to the server of
 * each variable, which applies the optimizer's rule on its own device, where the optimizer's slots
 * live, too. So after S steps of each of W workers a server has made W S updates; the rule sees
 * that count (Adam's bias corrections), and a schedule is asked for the rate of the update that the
 * worker expects to make: the count that it saw last, plus 1. Updates that were computed from older
 * values are applied to newer ones.
 *
 * What is not trained has one copy with a server as well: reading gives that copy, in every
 * replica; replicas change it together, by its aggregation, once per worker. Both ON_READ and NONE
 * are taken, and mean one such variable. A single replica changes it alone, whatever the
 * aggregation.
 *
 * Reductions of values, and sums over replicas in loss functions, go over the replicas of one
 * worker. Tower optimizers push as trainers do, see copse/compat/replicated.h.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_PARAMETER_SERVER_H
#define COPSE_PUBLIC_DISTRIBUTE_PARAMETER_SERVER_H

#include "copse/distribute/cluster.h"
#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Of a variable that no server keeps. */
#define COPSE_NO_SERVER UINT32_MAX

/**
 * One replica on each of the named devices of this worker, and variables with servers.
 *
 * Without a cluster this process keeps them, on `params->parameter_device`: where none is given, on
 * the accelerator of the list when there is exactly one, else on host:0. In a cluster the ps tasks
 * do, round robin in order of creation, but for variables made with `colocate_with`, which go to
 * the other's server and do not count. All workers make the same variables and trainers in the same
 * order; the chief gives variables their first values, others wait for it.
 *
 * `copse_strategy_replicas_in_sync` counts this worker's replicas alone, and a trainer's batch is
 * this worker's alone. Only the chief writes checkpoints; another worker's call writes nothing.
 * What copse_trainer_save writes is read variable by variable, between which other workers may
 * train; a checkpoint has each server's part as it was at one moment.
 *
 * @param cluster  NULL, or what copse_cluster_open gave; retained.
 * @retval COPSE_ERR_ARGUMENT  The cluster has no ps task, or this process is one; or it has, and a
 *                             parameter device is given.
 * @retval COPSE_ERR_COMM      A parameter server was lost; the text names it.
 * Lifetime, threads: as copse_mirrored_create. Releasing the last reference notifies the servers
 * that this worker is done; over MPI, whose ranks leave together, it waits for the other workers.
 */
COPSE_API COPSE_CHECKED copse_status copse_parameter_server_create(
    copse_context *ctx, copse_cluster *cluster, const char *const *devices, size_t count,
    const struct copse_strategy_params *params, copse_strategy **out);

/** How many servers a strategy has; 0 where it is of another kind. */
COPSE_API uint32_t copse_parameter_servers(const copse_strategy *st);
/** Id of the device where this process keeps the variables; NULL where others do. Lifetime: that of
    the strategy. */
COPSE_API const char *copse_parameter_device(const copse_strategy *st);
/** Index of the server that keeps a variable, which is that of the ps task; COPSE_NO_SERVER where
    the strategy is of another kind. */
COPSE_API uint32_t copse_variable_server(const copse_variable *v);

/** What a parameter server did. */
struct copse_parameter_server_summary {
    uint64_t updates;     /**< by gradients, of all workers */
    uint32_t variables;   /**< that it kept */
    uint32_t lost;        /**< workers that ended without a notice */
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Run a parameter server: keep variables for the workers of the job on `device` until every worker
 * is done or lost. The loss of a worker does not disturb the others. The server serves one request
 * at a time, in the order of arrival. A worker whose request does not arrive whole within half of
 * the cluster's deadline is treated as lost.
 *
 * @param cluster  Opened with the role ps.
 * @param device   NULL means host:0.
 * @param out      May be NULL.
 * @retval COPSE_ERR_ARGUMENT   This task is not a parameter server.
 * @retval COPSE_ERR_NO_DEVICE  There is no such device.
 * Blocking: as long as there are workers.
 */
COPSE_API COPSE_CHECKED copse_status
copse_parameter_server_serve(copse_context *ctx, copse_cluster *cluster, const char *device,
                             struct copse_parameter_server_summary *out);

#if defined(__cplusplus)
}
#endif
#endif
