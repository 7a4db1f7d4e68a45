/* SPDX-License-Identifier: MIT */
/** @file
 * Operations of a loss function that meet the other replicas: sums over replicas, and statistics of
 * the global batch made of them. They follow the rules of ops.h.
 *
 * They are synchronisation points of the step: a replica's forward (and, for the derivative,
 * backward) computation stops there until the replicas have exchanged. Every replica's graph must
 * have the same of them, in the same order and of the same shapes, whatever the size of its shard:
 * a difference is COPSE_ERR_SHAPE or COPSE_ERR_ARGUMENT when the step is recorded, never a hang. A
 * replica without examples contributes zeros. Sums are evaluated by the canonical tree over the
 * rank order, so that every replica holds the same bits and neither schedule nor transfer change
 * one; or by the cross-device operations that the application gave the strategy
 * (distribute/cross_device.h).
 *
 * With one replica, and in a graph that is no trainer's (copse_function), they are the plain
 * operation, and copse_all_reduce returns its operand.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_SYNC_H
#define COPSE_PUBLIC_DISTRIBUTE_SYNC_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Sum or mean of x over all replicas, element by element. The derivative is the same sum or mean of
 * the derivatives of all replicas.
 *
 * @param x   f32; its shape must not depend on the number of examples.
 * @param op  COPSE_MEAN divides the sum by the number of replicas, those without examples included.
 *            The quotient is correctly rounded on every device: the bits of copse_strategy_reduce,
 *            for the derivative, too.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_all_reduce(copse_graph *g, copse_tensor *x,
                                                       copse_averaging op);

/**
 * x of all replicas, one after another along axis 0 in rank order: for losses that compare an
 * example with those of all replicas. The derivative is the sum over the replicas of what they
 * computed of this replica's rows. -0 becomes 0.
 *
 * @param x        f32 [n, ...], the same shape on every replica: batches must divide evenly.
 * @param replica  This replica's rank: `in->replica`.
 * @param out      [replicas n, ...].
 * @retval COPSE_ERR_ARGUMENT  There is no such replica.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_all_gather(copse_graph *g, copse_tensor *x,
                                                       uint32_t replica);

/**
 * Mean and variance (biased: divided by the count) over some axes and over all replicas: those of
 * the global batch, with every example counted once however unequal the shards are. The variance is
 * that of the differences from the global mean, so that a large mean costs it no digits: two
 * exchanges of each way. With accumulation the batch is the micro-batch.
 *
 * @param axes      As in copse_sum; axis 0, the examples, must be among them.
 * @param mean      Receives x's shape with size 1 on those axes.
 * @param variance  The same.
 */
COPSE_API copse_tensor *copse_sync_moments(copse_graph *g, copse_tensor *x, const uint32_t *axes,
                                           size_t axis_count, copse_tensor **variance);

/** Settings of a batch normalisation. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_batch_norm {
    copse_tensor *gamma;     /**< factor, broadcast to x                    [NULL = 1] */
    copse_tensor *beta;      /**< summand, broadcast to x                   [NULL = 0] */
    float epsilon;           /**< added to the variance, > 0                [0 = 1e-3] */
    copse_tensor **mean;     /**< receives the mean, as copse_sync_moments  [NULL] */
    copse_tensor **variance; /**< receives the variance                     [NULL] */
    uint64_t reserved[4];    /**< 0 */
};
/**
 * (x - mean) / sqrt(variance + epsilon) gamma + beta with the moments of copse_sync_moments (Ioffe
 * and Szegedy, "Batch normalization", 2015, algorithm 1, over all replicas).
 */
COPSE_API COPSE_CHECKED copse_tensor *
copse_sync_batch_norm(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t axis_count,
                      const struct copse_batch_norm *settings);

#if defined(__cplusplus)
}
#endif
#endif
