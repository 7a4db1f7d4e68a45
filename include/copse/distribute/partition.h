/* SPDX-License-Identifier: MIT */
/** @file Partitioned variables: one variable as a list of ordinary ones, its rows cut into runs, so
 * that several parameter servers share a large one, or none of its parts is larger than a device
 * can bind. How many parts there are is said by a number, for which there are rules: pure
 * functions.
 *
 * Of R rows in n parts the first R mod n have one row more than the others.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_PARTITION_H
#define COPSE_PUBLIC_DISTRIBUTE_PARTITION_H

#include "copse/distribute/value.h"
#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Numbers of parts along the first axis of a shape, whose elements have 4 bytes; at least 1, and at
 * most one per row. A scalar has one.
 */
/** `shards` of them. (tf.distribute: FixedShardsPartitioner.) */
COPSE_API uint32_t copse_partition_fixed_shards(copse_shape shape, uint32_t shards);
/** As many as there can be of at least `min_bytes`, `max_shards` at most (0 = any number).
    (MinSizePartitioner.) */
COPSE_API uint32_t copse_partition_min_size(copse_shape shape, uint64_t min_bytes,
                                            uint32_t max_shards);
/** As few as there can be of at most `max_bytes`, `max_shards` at most (0 = any number), which then
    are larger. (MaxSizePartitioner.) */
COPSE_API uint32_t copse_partition_max_size(copse_shape shape, uint64_t max_bytes,
                                            uint32_t max_shards);
/** Rows of part `shard` of `shards`, and where they begin. 0 rows where there is no such part. */
COPSE_API uint32_t copse_partition_rows(uint32_t rows, uint32_t shards, uint32_t shard,
                                        uint32_t *first);

/** A partitioned variable. */
typedef struct copse_partitioned copse_partitioned;

/**
 * Make the parts, "<name>/part_0" and so on, in this order: with parameter servers they go round
 * robin. They start with the rows that one variable of these params would start with, whatever the
 * number of parts. In a graph their tensors are joined by copse_concat along axis 0. A checkpoint
 * has one entry of the whole, "<name>", and one for each slot (where all parts are trained): it
 * goes into any number of parts, and into one variable of that name.
 *
 * @param shards  As copse_partition_fixed_shards; at least 1.
 * @retval COPSE_ERR_ARGUMENT  `shards` is 0, or the params break a rule of copse_variable_create.
 * @retval As copse_variable_create. Parts that were made before a failure stay with the strategy.
 * Lifetime: retains the strategy, which the parts belong to.
 */
COPSE_API COPSE_CHECKED copse_status
copse_partitioned_create(copse_strategy *st, const struct copse_variable_params *params,
                         uint32_t shards, copse_partitioned **out);
COPSE_API void copse_partitioned_release(copse_partitioned **p);

/** The parts, in order of their rows. Lifetime: that of `p`. */
COPSE_API void copse_partitioned_parts(const copse_partitioned *p, copse_variable *const **list,
                                       size_t *count);
/** Shape of the whole. */
COPSE_API copse_shape copse_partitioned_shape(const copse_partitioned *p);

/**
 * Read the parts, by the rules of copse_read, and join them to one array on the host.
 * Blocking: until queued work has run.
 */
COPSE_API COPSE_CHECKED copse_status copse_partitioned_read(copse_partitioned *p,
                                                            copse_value **out);
/**
 * Assign, add or subtract a value of the whole shape, part by part, by the rules of copse_assign:
 * in a replica all replicas do so together, where the aggregation asks for that.
 * @retval COPSE_ERR_SHAPE  The value has another shape or type.
 */
COPSE_API COPSE_CHECKED copse_status copse_partitioned_assign(copse_partitioned *p,
                                                              copse_value *value);
COPSE_API COPSE_CHECKED copse_status copse_partitioned_assign_add(copse_partitioned *p,
                                                                  copse_value *value);
COPSE_API COPSE_CHECKED copse_status copse_partitioned_assign_sub(copse_partitioned *p,
                                                                  copse_value *value);

#if defined(__cplusplus)
}
#endif
#endif
