/* SPDX-License-Identifier: MIT */
/* The shares of a batch: which replica gets which examples, and by which recording it computes them. */
#ifndef COPSE_SHARES_H
#define COPSE_SHARES_H

#include "core/data/shard.h"
#include "core/train/step_recording.h"

struct copse_shares {
    struct copse_shard of_all[COPSE_MAX_REPLICAS]; /* of the replicas of all workers */
    const struct copse_shard *at;                  /* of this worker's */
    struct copse_step_recording *recordings[COPSE_MAX_REPLICAS];
};

/* The same shares and recordings again. */
static inline void copse__shares_copy(const struct copse_shares *from, struct copse_shares *to)
{
    *to = *from;
    to->at = to->of_all + (from->at - from->of_all);
}

/* Weights of the shares of all workers' replicas, where the split is weighted (split.c). */
struct copse_split {
    double weights[COPSE_MAX_REPLICAS];
    bool is_known; /* they were given, measured or restored */
};

copse_status copse__split_init(copse_trainer *t, const struct copse_trainer_params *params);
/* Check, or set, the weights of all workers' replicas. */
copse_status copse__split_check(const copse_trainer *t, const float *shares);
void copse__split_set(copse_trainer *t, const float *shares);
/* The shares of a batch. `may_measure`: first measure the weights where the params ask for that; else the shares are
   even until the weights are known. */
copse_status copse__split(copse_trainer *t, const struct copse_host_batch *batch, bool may_measure,
                          struct copse_shard *out);

/* ---- shares.c ---- */

copse_status copse__batch_check(const struct copse_host_batch *batch);
/* Fill the shares, without recordings. */
copse_status copse__shares_split(copse_trainer *t, const struct copse_host_batch *batch, bool may_measure,
                                 struct copse_shares *s);
/* Fill the recordings of all shares, for a batch like this one. Does not read the data of the batch. */
copse_status copse__shares_record(copse_trainer *t, const struct copse_host_batch *batch, enum copse_pass pass,
                                  struct copse_shares *s);
/* Check a batch, fill its shares and recordings. Involves no other worker and no step under way. */
copse_status copse__shares_plan(copse_trainer *t, const struct copse_host_batch *batch, enum copse_pass pass,
                                struct copse_shares *s);
/* The same for the step that comes next: the variables are brought up to date, too. */
copse_status copse__shares_prepare(copse_trainer *t, const struct copse_host_batch *batch, enum copse_pass pass,
                                   struct copse_shares *s);

#endif
