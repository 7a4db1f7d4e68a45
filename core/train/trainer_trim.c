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

/* How far memory is given back. */
struct trim {
    uint64_t wanted;   /* bytes that each device shall have free */
    bool keeps_newest; /* `wanted` is not used: until it is within its budget; recordings that the
                         newest step and prediction have used stay */
    uint32_t dropped;  /* recordings */
};

/* Release the least recently used recording of a replica: of its predictions, then of its steps.
   Batches that are fed need theirs. */
static bool drop_recording(copse_trainer *t, uint32_t r, bool keeps_newest)
{
    if (copse__recordings_drop(&t->uses.predictor.of[r], keeps_newest))
        return true;
    if (t->feed.slots.count > 0 || !copse__recordings_drop(&t->recordings.of[r], keeps_newest))
        return false;
    t->recordings.outputs.is_newest = false; /* they may have been in it */
    return true;
}

/* Until the device of a replica has enough, or nothing is left to give. */
static copse_status trim_replica(copse_trainer *t, uint32_t r, struct trim *how)
{
    copse_device *dev = t->strategy->replicas[r].dev;
    for (;;) {
        struct copse_device_memory m;
        copse__buffers_purge(dev);
        COPSE_TRY(copse__device_memory(dev, &m));
        const bool is_enough = how->keeps_newest ? m.over_budget == 0 : m.free >= how->wanted;
        if (is_enough || !drop_recording(t, r, how->keeps_newest))
            return COPSE_OK;
        how->dropped++;
    }
}

/* *given: bytes, over all devices. */
static copse_status trim_all(copse_trainer *t, struct trim *how, uint64_t *given)
{
    const copse_strategy *st = t->strategy;
    COPSE_TRY(copse__audit_settle(t)); /* it reads recordings */
    const uint64_t before = count_bytes(st);
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse_queue_finish(st->replicas[r].queue));
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(trim_replica(t, r, how));
    const uint64_t after = count_bytes(st);
    *given = before > after ? before - after : 0;
    return COPSE_OK;
}

copse_status copse_trainer_trim(copse_trainer *t, uint64_t wanted, uint64_t *freed)
{
    struct trim how = { .wanted = wanted };
    uint64_t given;
    if (freed)
        *freed = 0;
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__require_no_replica("copse_trainer_trim", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(trim_all(t, &how, &given));
    if (given > 0)
        copse__log(&t->strategy->ctx->base.log, COPSE_LOG_INFO,
                   "trainer: %llu KiB of device memory are given back, with %u recordings",
                   (unsigned long long)(given >> 10), how.dropped);
    if (freed)
        *freed = given;
    return COPSE_OK;
}

/* ---- the budget of a device ---- */

/* Steps between two looks at the budgets: at first, and at most while they are passed. */
enum { LOOK_EVERY = 64, LOOK_SELDOM = 4096 };

/* The replica whose device is farthest over its budget; *most 0: none is. */
static copse_status find_over(const copse_strategy *st, uint32_t *replica, uint64_t *most)
{
    *most = *replica = 0;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        struct copse_device_memory m;
        COPSE_TRY(copse__device_memory(st->replicas[r].dev, &m));
        if (m.over_budget > *most) {
            *most = m.over_budget;
            *replica = r;
        }
    }
    return COPSE_OK;
}

copse_status copse__trainer_keep_budget(copse_trainer *t)
{
    struct trim how = { .keeps_newest = true };
    uint64_t over, given;
    uint32_t r;
    if (t->step < t->budget.next || t->accumulation.parts > 0)
        return COPSE_OK;
    COPSE_TRY(find_over(t->strategy, &r, &over));
    const bool was_over = t->budget.every > LOOK_EVERY;
    t->budget.every =
        over == 0 ? LOOK_EVERY : COPSE_MIN(2 * COPSE_MAX(t->budget.every, LOOK_EVERY), LOOK_SELDOM);
    t->budget.next = t->step + t->budget.every;
    if (over == 0)
        return COPSE_OK;
    COPSE_TRY(trim_all(t, &how, &given));
    copse__log(
        &t->strategy->ctx->base.log, was_over ? COPSE_LOG_INFO : COPSE_LOG_WARN,
        "trainer: %s uses %llu KiB more than its budget of device memory; %llu KiB are given "
        "back, with %u recordings",
        t->strategy->replicas[r].dev->info.id, (unsigned long long)(over >> 10),
        (unsigned long long)(given >> 10), how.dropped);
    return COPSE_OK;
}
