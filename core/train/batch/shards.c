/* SPDX-License-Identifier: MIT */
/* What is decided about a batch before anything of it is queued: the shard of each replica, and the
   recording that computes it. */
#include "core/train/memory/step_memory.h"

copse_status copse__batch_check(const struct copse_host_batch *batch)
{
    COPSE_TRY(copse_need("trainer", batch));
    if (batch->count == 0 || batch->count > UINT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch holds 1 to 2^32-1 examples");
    return COPSE_OK;
}

copse_status copse__shards_split(copse_trainer *t, const struct copse_host_batch *batch,
                                 bool may_measure, struct copse_shards *s)
{
    s->at = s->of_all + t->strategy->group.first;
    return copse__split(t, batch, may_measure, s->of_all);
}

static copse_status record(copse_trainer *t, uint32_t r, const struct copse_host_batch *batch,
                           size_t examples, enum copse_pass pass, struct copse_step_recording **out)
{
    const struct copse_memory_shard shard = { r, batch, examples };
    const copse_status s = copse__recording_get(t, r, batch, examples, pass, out);
    return pass == COPSE_PASS_EVALUATE ? s : copse__memory_advise(t, &shard, s);
}

/* Empty shards come last: they follow the layout of the others. */
copse_status copse__shards_record(copse_trainer *t, const struct copse_host_batch *batch,
                                  enum copse_pass pass, struct copse_shards *s)
{
    const uint32_t replicas = t->strategy->replica_count;
    bool is_known = copse__layout_of(t, pass)->is_known;
    for (uint32_t r = 0; r < replicas; r++)
        is_known |= s->at[r].count > 0;
    /* other workers have the examples: this worker needs their reports and all-reduces, too */
    if (!is_known) {
        struct copse_step_recording *unused;
        COPSE_TRY(record(t, 0, batch, 1, pass, &unused));
    }
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t r = 0; r < replicas; r++)
            if ((turn == 0) == (s->at[r].count > 0))
                COPSE_TRY(record(t, r, batch, s->at[r].count, pass, &s->recordings[r]));
    return COPSE_OK;
}

copse_status copse__shards_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                   enum copse_pass pass, bool is_next, struct copse_shards *s)
{
    COPSE_TRY(copse__batch_check(batch));
    if (is_next)
        COPSE_TRY(copse__accumulation_check(t));
    copse__recordings_begin(t);
    COPSE_TRY(copse__shards_split(t, batch, true, s));
    if (is_next && t->accumulation.parts == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_STEP));
    COPSE_TRY(copse__shards_record(t, batch, pass, s));
    return copse__feed_check(t, s, batch);
}
