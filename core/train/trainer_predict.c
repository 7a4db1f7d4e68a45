/* SPDX-License-Identifier: MIT */
/* Predictions with the variables of a trainer. */
#include "core/train/trainer.h"

/* The batch is split as by a step where all replicas are of this process; else evenly. */
static copse_status predict_batch(copse_trainer *t, const struct copse_host_batch *batch,
                                  void *values, size_t bytes)
{
    struct copse_shard shards[COPSE_MAX_REPLICAS];
    const bool is_here = t->strategy->group.workers == 1 && t->params.sharding != COPSE_SHARD_FIXED;
    COPSE_TRY(is_here ? copse__split(&t->split, NULL, batch, shards)
                      : copse__shard(COPSE_SHARD_BALANCED, batch->count, batch->count,
                                     t->strategy->replica_count, shards));
    /* else an update accumulates, and keeps the values that it began with */
    if (t->strategy->store->accumulators == 0)
        COPSE_TRY(copse__trainer_pull(t, COPSE_PULL_EVALUATE));
    return copse__predict(&t->uses.predictor, batch, shards, values, bytes);
}

copse_status copse_trainer_predict(copse_trainer *t, copse_predict_fn *fn, void *user,
                                   const struct copse_host_batch *batch, void *values, size_t bytes)
{
    if (!t || !fn || !batch || !values)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "predict: trainer, function, batch or memory for values is NULL");
    COPSE_TRY(copse_no_reserved(copse_host_batch, batch));
    COPSE_TRY(copse__require_no_replica("copse_trainer_predict", t));
    COPSE_TRY(copse__trainer_check(t));
    COPSE_TRY(copse__batch_check(batch));
    if (!t->uses.predictor.strategy)
        COPSE_TRY(copse__predictor_init(&t->uses.predictor, t->strategy, t, t->params.recordings));
    t->uses.predictor.fn = fn;
    t->uses.predictor.user = user;
    return predict_batch(t, batch, values, bytes);
}
