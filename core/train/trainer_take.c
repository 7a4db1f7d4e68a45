/* SPDX-License-Identifier: MIT */
/* What a trainer decides about a batch before anything of it is queued, and the weights of its
   shards. */
#include "core/train/trainer.h"

copse_status copse__trainer_take(copse_trainer *t, const struct copse_host_batch *batch,
                                 enum copse_pass pass, bool is_next, struct copse_shards *s)
{
    COPSE_TRY(copse__batch_check(batch));
    if (is_next)
        COPSE_TRY(copse__accumulation_check(&t->accumulation));
    copse__recordings_begin(t);
    COPSE_TRY(copse__shards_split(&t->split, &t->recordings, batch, s));
    if (is_next && t->accumulation.parts == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_STEP));
    COPSE_TRY(copse__shards_record(&t->recordings, batch, pass, s));
    return copse__shards_check(s, t->strategy->replica_count, batch);
}

copse_status copse_trainer_shard_weights(const copse_trainer *t, float *weights, bool *is_known)
{
    COPSE_TRY(copse_need("trainer", t, weights, is_known));
    *is_known = !copse__split_is_weighted(&t->split) || t->split.is_known;
    for (uint32_t r = 0; r < t->strategy->group.ranks; r++)
        weights[r] = t->split.is_known ? (float)t->split.weights[r] : 1.0f;
    return COPSE_OK;
}

copse_status copse_trainer_set_shard_weights(copse_trainer *t, const float *weights)
{
    COPSE_TRY(copse__require_no_replica("copse_trainer_set_shard_weights", t));
    COPSE_TRY(copse_need("trainer", t, weights));
    if (!copse__split_is_weighted(&t->split))
        return copse_fail(COPSE_ERR_ARGUMENT, "trainer: its split is not weighted");
    COPSE_TRY(copse__split_check(&t->split, weights));
    copse__split_set(&t->split, weights);
    return COPSE_OK;
}
