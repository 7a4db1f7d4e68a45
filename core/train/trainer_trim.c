/* SPDX-License-Identifier: MIT */
/* Device memory that a trainer can do without is given back to other users of the device. */
#include "copse/train/memory.h"

#include "core/train/trainer.h"

/* Of this worker's devices, each once. */
static uint64_t count_bytes(const copse_strategy *st)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        uint32_t twin = 0;
        while (st->replicas[twin].dev != st->replicas[r].dev)
            twin++;
        sum += twin == r ? atomic_load(&st->replicas[r].dev->bytes) : 0;
    }
    return sum;
}

/* Release the least recently used recording of a replica: of its predictions, then of its steps.
   Batches that are fed need theirs. */
static bool drop_recording(copse_trainer *t, uint32_t r)
{
    if (copse__recordings_drop(&t->uses.predictor.of[r]))
        return true;
    if (t->feed.slots.count > 0 || !copse__recordings_drop(&t->recordings.of[r]))
        return false;
    t->recordings.outputs.is_newest = false; /* they may have been in it */
    return true;
}

/* Until the device of a replica has `wanted` bytes, or nothing is left to give. */
static copse_status trim_replica(copse_trainer *t, uint32_t r, uint64_t wanted, uint32_t *dropped)
{
    copse_device *dev = t->strategy->replicas[r].dev;
    for (;;) {
        uint64_t free_bytes, total;
        copse__buffers_purge(dev);
        COPSE_TRY(copse_device_memory(dev, &free_bytes, &total));
        if (free_bytes >= wanted || !drop_recording(t, r))
            return COPSE_OK;
        ++*dropped;
    }
}

copse_status copse_trainer_trim(copse_trainer *t, uint64_t wanted, uint64_t *freed)
{
    uint32_t dropped = 0;
    if (freed)
        *freed = 0;
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__require_no_replica("copse_trainer_trim", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__audit_settle(t)); /* it reads recordings */
    copse_strategy *st = t->strategy;
    const uint64_t before = count_bytes(st);
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse_queue_finish(st->replicas[r].queue));
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(trim_replica(t, r, wanted, &dropped));
    const uint64_t after = count_bytes(st), given = before > after ? before - after : 0;
    if (given > 0)
        copse__log(&st->ctx->base.log, COPSE_LOG_INFO,
                   "trainer: %llu KiB of device memory are given back, with %u recordings",
                   (unsigned long long)(given >> 10), dropped);
    if (freed)
        *freed = given;
    return COPSE_OK;
}
