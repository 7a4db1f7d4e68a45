/* SPDX-License-Identifier: MIT */
/* The memory of a training step: what is allocated, and the plan of its values. */
#include "core/train/memory/step_memory.h"
#include "core/train/trainer.h"

static void find_variables(const copse_trainer *t, uint32_t r, struct copse_step_memory *out)
{
    const copse_strategy *st = t->strategy;
    for (size_t i = 0; i < st->variables.count; i++) {
        const copse_variable *v = st->variables.at[i];
        if (!v->is_placed && !v->components)
            continue;
        out->variables += copse__variable_values(v, r).size;
        out->gradients += v->components ? 0 : copse__variable_gradient(v, r).size;
    }
    out->slots = copse__exchange_slot_bytes(st->store->exchange, r);
    for (size_t i = 0; i < t->optimizer->buckets.count; i++) {
        const struct copse_optimizer_bucket *b = &t->optimizer->buckets.at[i];
        struct copse_slice_memory slots;
        size_t stride;
        if (b->rows && copse__row_exchange_slots(b->rows, &slots, &stride) && slots.rank == r)
            out->slots += copse_buffer_size(slots.buffer);
    }
}

static void find_others(const copse_trainer *t, uint32_t r, struct copse_step_memory *out)
{
    const struct copse_memory_use use = copse__memory_use(&t->recordings, r);
    const uint64_t known = out->variables + out->gradients + out->slots;
    const uint64_t left = copse__memory_free(t->strategy->replicas[r].dev, &use);
    out->others = use.others > known ? use.others - known : 0;
    out->available = left > 0 ? left + use.recordings : 0;
}

static copse_status trainer_memory_plan(struct copse_step_recordings *all,
                                        const struct copse_memory_shard *shard, uint64_t budget,
                                        struct copse_step_memory *out)
{
    const size_t left = copse__memory_left(all, shard->replica, budget);
    COPSE_TRY(copse__memory_plan_plain(all, shard, &out->plain));
    const copse_status s = copse__memory_plan_recomputed(all, shard, left, &out->recomputed);
    out->fits = s == COPSE_OK;
    return s == COPSE_ERR_NO_DEVICE_MEMORY && left > 0
               ? copse__memory_plan_recomputed(all, shard, 0, &out->recomputed)
               : s;
}

copse_status copse_trainer_memory(copse_trainer *t, uint32_t replica,
                                  const struct copse_host_batch *batch, uint64_t budget,
                                  struct copse_step_memory *out)
{
    struct copse_shards shards;
    COPSE_TRY(copse__require_no_replica("copse_trainer_memory", t));
    COPSE_TRY(copse_need("trainer", t, batch, out));
    *out = (struct copse_step_memory){ .fits = false };
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__batch_check(batch));
    COPSE_TRY(copse__shards_split(&t->split, NULL, batch, &shards));
    if (replica >= t->strategy->replica_count || shards.at[replica].count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: replica %u has no shard of a batch of %zu",
                          replica, batch->count);
    const struct copse_memory_shard shard = { replica, batch, shards.at[replica].count };
    find_variables(t, replica, out);
    find_others(t, replica, out);
    return copse_note(trainer_memory_plan(&t->recordings, &shard, budget, out),
                      "while planning %zu example%s for replica %u", shard.examples,
                      copse__plural(shard.examples), replica);
}
