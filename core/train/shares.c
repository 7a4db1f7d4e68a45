/* SPDX-License-Identifier: MIT */
/* What is decided about a batch before anything of it is queued: which replica gets which examples, by which recording. */
#include "core/train/execution.h"

copse_status copse__batch_check(const struct copse_host_batch *batch)
{
    COPSE_TRY(copse_need("trainer", batch));
    if (batch->count == 0 || batch->count > UINT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: a batch holds 1 to 2^32-1 examples");
    return COPSE_OK;
}

copse_status copse__shares_split(copse_trainer *t, const struct copse_host_batch *batch, bool may_measure,
                          struct copse_shares *s)
{
    s->at = s->of_all + t->strategy->group.first;
    return copse__split(t, batch, may_measure, s->of_all);
}

/* Those of empty shares follow the layout of the others. */
copse_status copse__recordings_find(copse_trainer *t, const struct copse_host_batch *batch,
                                    enum copse_pass pass, struct copse_shares *s)
{
    const uint32_t replicas = t->strategy->replica_count;
    bool is_any = copse__layout_of(t, pass)->is_known;
    for (uint32_t r = 0; r < replicas; r++)
        is_any |= s->at[r].count > 0;
    if (!is_any) { /* the examples are with other workers, whose reports and crossings are ours, too */
        struct copse_step_recording *unused;
        COPSE_TRY(copse__recording_get(t, 0, batch, 1, pass, &unused));
    }
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t r = 0; r < replicas; r++)
            if ((turn == 0) == (s->at[r].count > 0))
                COPSE_TRY(copse__recording_get(t, r, batch, s->at[r].count, pass, &s->recordings[r]));
    return COPSE_OK;
}

copse_status copse__trainer_pull(copse_trainer *t, enum copse_pull when)
{
    return t->optimizer->table->pull(t->optimizer, when, 0);
}

copse_status copse__shares_plan(copse_trainer *t, const struct copse_host_batch *batch,
                                enum copse_pass pass, struct copse_shares *s)
{
    COPSE_TRY(copse__batch_check(batch));
    copse__recordings_begin(t);
    COPSE_TRY(copse__shares_split(t, batch, true, s));
    COPSE_TRY(copse__recordings_find(t, batch, pass, s));
    return copse__feed_check(t, s, batch);
}

copse_status copse__shares_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                   enum copse_pass pass, struct copse_shares *s)
{
    COPSE_TRY(copse__batch_check(batch));
    COPSE_TRY(copse__holders_check(t));
    copse__recordings_begin(t);
    COPSE_TRY(copse__shares_split(t, batch, true, s));
    if (t->gathered == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_STEP));
    COPSE_TRY(copse__recordings_find(t, batch, pass, s));
    return copse__feed_check(t, s, batch);
}

void copse__slot_note(const copse_trainer *t, struct copse_step_slot *slot, uint32_t part,
                      const struct copse_shares *s)
{
    for (uint32_t r = 0; r < t->strategy->group.ranks; r++)
        slot->examples[(size_t)part * t->strategy->group.ranks + r] = s->of_all[r].count;
    slot->parts = part + 1;
}
