/* SPDX-License-Identifier: MIT */
/* Predictions: a function of the application is recorded for each replica and size of shard, and
   its result is read to host memory in row order. No other worker takes part. Users:
   copse_trainer_predict, models. */
#ifndef COPSE_PREDICTOR_H
#define COPSE_PREDICTOR_H

#include "copse/predict.h"
#include "core/data/input/shard.h"
#include "core/graph/recording.h"
#include "core/replica/strategy.h"

struct copse_predictor {
    /* first; their user is the object that the application calls */
    struct copse_recordings of[COPSE_MAX_REPLICAS];
    copse_strategy *strategy; /* not a reference */
    /* step words of a computation that is no training step */
    copse_buffer *step[COPSE_MAX_REPLICAS];
    /* of the call at hand */
    copse_predict_fn *fn;
    void *user;
    uint64_t use; /* number of the call; recordings that it needs are kept */
};

/* `object`: the application calls it. `limit`: recordings to keep for each replica. */
copse_status copse__predictor_init(struct copse_predictor *p, copse_strategy *st, void *object,
                                   uint32_t limit);
/* Allowed on a zeroed struct. The queues are idle. */
void copse__predictor_fini(struct copse_predictor *p);

/* Call `fn` for each replica's shard of the batch and read what it gives: [batch->count, ...],
   exactly `bytes`. The variables are up to date. After COPSE_ERR_TIMEOUT a device may still write
   to `values`. Blocking. */
copse_status copse__predict(struct copse_predictor *p, const struct copse_host_batch *batch,
                            const struct copse_shard *shards, void *values, size_t bytes);

#endif
