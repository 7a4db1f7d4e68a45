/* SPDX-License-Identifier: MIT */
/* The inputs of a recording for a shard of a batch: their types, whether the batch has them, and
   their way to the device. */
#ifndef COPSE_SHARD_INPUTS_H
#define COPSE_SHARD_INPUTS_H

#include "core/data/input/shard.h"
#include "core/graph/recording.h"

/* The inputs of a shard of `examples` of a batch like this one, in a key; none for 0. `user` begins
   error texts. */
copse_status copse__recording_inputs(const char *user, const struct copse_host_batch *batch,
                                     size_t examples, struct copse_recording_key *key);
/* The batch has data for all inputs of a shard that its recording uses. */
copse_status copse__shard_check(const struct copse_recording *rec,
                                const struct copse_host_batch *batch,
                                const struct copse_shard *shard);
/* Queue the write of a shard of a batch to where the recording reads it, or to a slot. */
copse_status copse__shard_write(copse_queue *q, const struct copse_recording *rec,
                                const struct copse_host_batch *batch,
                                const struct copse_shard *shard, const struct copse_binding *slot);

#endif
