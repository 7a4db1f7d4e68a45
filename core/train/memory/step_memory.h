/* SPDX-License-Identifier: MIT */
/* Plans of the memory of a step, and what an out-of-memory error says. */
#ifndef COPSE_STEP_MEMORY_H
#define COPSE_STEP_MEMORY_H

#include "copse/device/open.h"
#include "copse/train/memory.h"
#include "core/train/recording/step_recording.h"

/* Some examples of a batch like this one on a replica. */
struct copse_memory_shard {
    uint32_t replica;
    const struct copse_host_batch *batch;
    size_t examples;
};

/* ---- memory_plan.c ---- */

/* Without a budget; marked segments are recomputed. */
copse_status copse__memory_plan_plain(struct copse_step_recordings *all,
                                      const struct copse_memory_shard *s,
                                      struct copse_value_memory *out);
/* With a budget for the values: COPSE_ERR_NO_DEVICE_MEMORY if it cannot be kept. 0: with the least
   memory. */
copse_status copse__memory_plan_recomputed(struct copse_step_recordings *all,
                                           const struct copse_memory_shard *s, size_t budget,
                                           struct copse_value_memory *out);
/* Free memory of a device that has this memory in use; 0: unknown. */
uint64_t copse__memory_free(copse_device *dev, const struct copse_memory_use *use);

/* ---- memory_advice.c ---- */

/* `why` is the status of a recording that failed, and is returned. If device memory was exhausted
   and there is no budget, the text of the error says what would fit. */
copse_status copse__memory_advise(struct copse_step_recordings *all,
                                  const struct copse_memory_shard *s, copse_status why);

#endif
