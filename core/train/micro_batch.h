/* SPDX-License-Identifier: MIT */
/* The micro-batch at hand: which part of an update it is, and what the kernels of a recording read
   of it. */
#ifndef COPSE_MICRO_BATCH_H
#define COPSE_MICRO_BATCH_H

#include "core/train/recording/step_recording.h"

/* ---- micro-batches whose gradients have been added and are not applied yet ---- */

/* The variables belong to the owner meanwhile. */
struct copse_accumulation {
    copse_strategy *strategy; /* not a reference */
    const struct copse_trained *trained;
    const void *owner;
    uint32_t every;        /* micro-batches of an update */
    uint32_t parts;        /* how many are added */
    size_t examples;       /* of all of them, */
    size_t first_examples; /* of the first */
};

/* Nobody else accumulates gradients of the variables. */
copse_status copse__accumulation_check(const struct copse_accumulation *a);
/* What the micro-batch after `ahead` others computes: the first of an update, or a later one. */
enum copse_pass copse__accumulation_pass(const struct copse_accumulation *a, uint32_t ahead);
/* A micro-batch of `examples` begins: it is among the examples, and not yet among the parts. */
void copse__accumulation_add(struct copse_accumulation *a, size_t examples);
/* It is queued: count it. Returns whether it was the last of the update. */
bool copse__accumulation_next(struct copse_accumulation *a);
/* Forget the gradients that are accumulated. Allowed on a zeroed struct. */
void copse__accumulation_drop(struct copse_accumulation *a);

/* ---- step words ---- */

struct copse_step_words {
    const struct copse_optimizer *optimizer;
    const struct copse_trainer_params *params;
    const void *owner;                 /* a function of the application may not use it */
    uint32_t newest[COPSE_STEP_WORDS]; /* of the newest micro-batch */
};

/* The words of update number `step` that are the same on all replicas, for the micro-batch that was
   added last. For the first one of an update the schedule is asked. */
copse_status copse__words_begin(const struct copse_step_words *w, bool is_training, uint64_t step,
                                const struct copse_accumulation *a, uint32_t epoch,
                                uint32_t *words);
/* Those of one replica's shard of a batch; `first_examples` as in the accumulation. */
void copse__words_shard(const struct copse_step_words *w, const struct copse_host_batch *batch,
                        const struct copse_shard *shard, size_t first_examples, uint32_t *words);
/* The scale of an update that ends with the micro-batches so far. */
void copse__words_scale(const struct copse_step_words *w, const struct copse_accumulation *a,
                        uint32_t *words);

#endif
