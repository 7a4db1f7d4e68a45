/* SPDX-License-Identifier: MIT */
/* What is decided about a batch before anything of it is queued: the shard of each replica, and the
   recording that computes it. */
#include "core/train/batch/shards.h"

#include "core/train/memory/step_memory.h"
#include "core/train/recording/shard_inputs.h"

copse_status copse__batch_check(const struct copse_host_batch *batch)
{
    COPSE_TRY(copse_need("trainer", batch));
    if (batch->count == 0 || batch->count > UINT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch holds 1 to 2^32-1 examples");
    return COPSE_OK;
}

copse_status copse__shards_split(struct copse_split *split, struct copse_step_recordings *measure,
                                 const struct copse_host_batch *batch, struct copse_shards *s)
{
    s->at = s->of_all + split->strategy->group.first;
    return copse__split(split, measure, batch, s->of_all);
}

static copse_status shards_record(struct copse_step_recordings *all, uint32_t r,
                                  const struct copse_host_batch *batch, size_t examples,
                                  enum copse_pass pass, struct copse_step_recording **out)
{
    const struct copse_memory_shard shard = { r, batch, examples };
    if (all->stop && atomic_load(all->stop))
        return copse_fail(COPSE_ERR_CANCELLED, "trainer: cancelled");
    const copse_status s = copse__recording_get(all, r, batch, examples, pass, out);
    return pass == COPSE_PASS_EVALUATE ? s : copse__memory_advise(all, &shard, s);
}

/* Empty shards come last: they follow the layout of the others. */
copse_status copse__shards_record(struct copse_step_recordings *all,
                                  const struct copse_host_batch *batch, enum copse_pass pass,
                                  struct copse_shards *s)
{
    const uint32_t replicas = all->strategy->replica_count;
    bool is_known = copse__layout_of(all, pass)->is_known;
    for (uint32_t r = 0; r < replicas; r++)
        is_known |= s->at[r].count > 0;
    /* other workers have the examples: this worker needs their reports and all-reduces, too */
    if (!is_known) {
        struct copse_step_recording *unused;
        COPSE_TRY(shards_record(all, 0, batch, 1, pass, &unused));
    }
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t r = 0; r < replicas; r++)
            if ((turn == 0) == (s->at[r].count > 0))
                COPSE_TRY(shards_record(all, r, batch, s->at[r].count, pass, &s->recordings[r]));
    return COPSE_OK;
}

copse_status copse__shards_check(const struct copse_shards *s, uint32_t replicas,
                                 const struct copse_host_batch *batch)
{
    for (uint32_t r = 0; r < replicas; r++)
        COPSE_TRY(copse__shard_check(&s->recordings[r]->base, batch, &s->at[r]));
    return COPSE_OK;
}
