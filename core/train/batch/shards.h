/* SPDX-License-Identifier: MIT */
/* The shards of a batch: which replica gets which examples, and by which recording it computes
   them. */
#ifndef COPSE_SHARDS_H
#define COPSE_SHARDS_H

#include "core/data/input/shard.h"
#include "core/train/recording/step_recording.h"

struct copse_shards {
    struct copse_shard of_all[COPSE_MAX_REPLICAS]; /* of the replicas of all workers */
    const struct copse_shard *at;                  /* of this worker's */
    struct copse_step_recording *recordings[COPSE_MAX_REPLICAS];
};

/* The same shards and recordings again. */
static inline void copse__shards_copy(const struct copse_shards *from, struct copse_shards *to)
{
    *to = *from;
    to->at = to->of_all + (from->at - from->of_all);
}

/* Weights of the shards of all workers' replicas, where the split is weighted (batch_split.c). */
struct copse_split {
    double weights[COPSE_MAX_REPLICAS];
    bool is_known; /* they were given, measured or restored */
};

copse_status copse__split_init(copse_trainer *t, const struct copse_trainer_params *params);
/* Check, or set, the weights of all workers' replicas. */
copse_status copse__split_check(const copse_trainer *t, const float *weights);
void copse__split_set(copse_trainer *t, const float *weights);
/* The shards of a batch. `may_measure`: first measure the weights where the params ask for that;
   else the shards are even until the weights are known. */
copse_status copse__split(copse_trainer *t, const struct copse_host_batch *batch, bool may_measure,
                          struct copse_shard *out);

/* ---- shards.c ---- */

copse_status copse__batch_check(const struct copse_host_batch *batch);
/* Fill the shards, without recordings. */
copse_status copse__shards_split(copse_trainer *t, const struct copse_host_batch *batch,
                                 bool may_measure, struct copse_shards *s);
/* Fill the recordings of all shards, for a batch like this one. Does not read the data of the
   batch. */
copse_status copse__shards_record(copse_trainer *t, const struct copse_host_batch *batch,
                                  enum copse_pass pass, struct copse_shards *s);
/* Check a batch, fill its shards and recordings. `is_next`: for the step that comes next, for which
   the variables are brought up to date; else it involves no other worker and no step under way. */
copse_status copse__shards_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                   enum copse_pass pass, bool is_next, struct copse_shards *s);

#endif
