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

/* ---- who gets which examples (batch_split.c) ---- */

struct copse_split {
    copse_strategy *strategy; /* not a reference */
    copse_shard_rule rule;
    size_t batch_size; /* of a fixed split */
    /* of the shards of all workers' replicas, where the split is weighted */
    double weights[COPSE_MAX_REPLICAS];
    bool is_known; /* the weights were given, measured or restored */
    bool is_told;  /* replicas that get no example were looked for */
};

copse_status copse__split_init(struct copse_split *split, copse_strategy *st,
                               const struct copse_trainer_params *params);
bool copse__split_is_weighted(const struct copse_split *split);
/* Check, or set, the weights of all workers' replicas. */
copse_status copse__split_check(const struct copse_split *split, const float *weights);
void copse__split_set(struct copse_split *split, const float *weights);
/* The shards of a batch. `measure`: first measure the weights with these recordings, where the rule
   asks for that; NULL: the shards are even until the weights are known. */
copse_status copse__split(struct copse_split *split, struct copse_step_recordings *measure,
                          const struct copse_host_batch *batch, struct copse_shard *out);

/* ---- shards.c ---- */

copse_status copse__batch_check(const struct copse_host_batch *batch);
/* Fill the shards, without recordings. */
copse_status copse__shards_split(struct copse_split *split, struct copse_step_recordings *measure,
                                 const struct copse_host_batch *batch, struct copse_shards *s);
/* Fill the recordings of all shards, for a batch like this one. Does not read the data of the
   batch. */
copse_status copse__shards_record(struct copse_step_recordings *all,
                                  const struct copse_host_batch *batch, enum copse_pass pass,
                                  struct copse_shards *s);
/* The batch has data for all inputs of its shards (copse__shard_check). */
copse_status copse__shards_check(const struct copse_shards *s, uint32_t replicas,
                                 const struct copse_host_batch *batch);

#endif
