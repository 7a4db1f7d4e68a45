/* SPDX-License-Identifier: MIT */
/** @file
 * Portable bits: the bits of a training depend neither on the devices, nor on their drivers and
 * APIs, nor on the number of devices (docs/certificate.md).
 *
 * `portable_shards` of copse_strategy_params is the number of shards of each batch, 1 to
 * COPSE_MAX_REPLICAS. With 0 there are no portable bits. The strategy has as many replicas as
 * shards, whatever the number of devices is. The number of shards must be a multiple of the number
 * of devices; each device of the list has the same number of consecutive replicas. The function is
 * copse_mirrored_create or copse_strategy_open; others return COPSE_ERR_UNSUPPORTED. Shares of
 * batches are equal: a trainer with COPSE_SHARD_WEIGHTED or COPSE_SHARD_MEASURED is refused.
 *
 * Each device is probed when the strategy is made: COPSE_ERR_UNSUPPORTED names the first result
 * that differs from IEEE 754.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_PORTABLE_H
#define COPSE_PUBLIC_DISTRIBUTE_PORTABLE_H

#include "copse/strategy.h"

/** A number of shards for 1, 2, 3, 4, 6 and 12 devices. */
#define COPSE_PORTABLE_SHARDS 12

#endif
