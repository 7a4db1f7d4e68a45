/* SPDX-License-Identifier: MIT */
/* A (micro-)batch under way, as run.c runs one at a time and loop.c several: its shares, and what happens
   from its first segment to its last update. */
#ifndef COPSE_FLIGHT_H
#define COPSE_FLIGHT_H

#include "core/train/trainer.h"

struct copse_shares {
    struct copse_shard of_all[COPSE_MAX_REPLICAS]; /* replicas of all workers */
    const struct copse_shard *at;                  /* this worker's */
    struct copse_recording *recordings[COPSE_MAX_REPLICAS];
};

/* A batch in device memory, or on its way there: of each replica's share the features, then the targets. */
struct copse_ahead {
    copse_buffer *buffers[COPSE_MAX_REPLICAS];
    uint64_t written[COPSE_MAX_REPLICAS]; /* tickets: of the transfer queue, when it is there */
    uint64_t read[COPSE_MAX_REPLICAS];    /* of the replica's queue, when the place may be written again */
    struct copse_shares shares;
    struct copse_host_batch batch; /* but for the values */
};

/* Segments queued, crossings and buckets exchanged. */
struct copse_flight {
    copse_trainer *t;
    const struct copse_layout *layout;
    const struct copse_shares *shares;
    struct copse_step_slot *slot;
    uint32_t part;      /* of the slot */
    bool is_training, is_updating;
    bool is_resident;   /* one queue: nothing is submitted, and nothing waits */
    bool keeps_reports; /* in the outfeed, to be read behind the run */
    uint32_t queued;    /* segments */
    uint32_t exchanged; /* events behind them */
    uint32_t barrier;   /* the first crossing that is not exchanged: no later segment is queued */
    uint32_t report;    /* segment behind which loss and reports are read */
    uint32_t bucket;    /* next one */
    uint64_t since;     /* copse__across_now before it */
};

/* A batch, by its place in the epoch. */
struct copse_batch_place {
    uint32_t epoch;
    uint64_t first;
    size_t count;
};

/* What was gathered for an update, the batch at hand included. */
struct copse_gathered {
    uint64_t step; /* the update's number */
    uint32_t part; /* of it: 0 = the first micro-batch */
    size_t examples, first_examples;
};

copse_status copse__trainer_check(copse_trainer *t);
/* No other trainer gathers gradients of its variables. */
copse_status copse__holders_check(const copse_trainer *t);
/* What can fail before anything is queued. `s` is filled. */
copse_status copse__flight_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                   enum copse_pass pass, struct copse_shares *s);
/* The part of it that has nothing to do with other workers, or with what else is under way. */
copse_status copse__flight_plan(copse_trainer *t, const struct copse_host_batch *batch,
                                enum copse_pass pass, struct copse_shares *s);
copse_status copse__recordings_find(copse_trainer *t, enum copse_pass pass, struct copse_shares *s);
/* The step words of a batch: of all replicas, which for the first part asks the schedule, and of one. */
void copse__words_begin(copse_trainer *t, bool is_training, const struct copse_gathered *g,
                        uint32_t epoch, uint32_t *words);
void copse__words_share(const copse_trainer *t, const struct copse_batch_place *batch,
                        const struct copse_shard *share, size_t first_examples, uint32_t *words);
/* The newest micro-batch is one of `count` examples; where its reports go. */
struct copse_gathered copse__gathered_add(copse_trainer *t, size_t count);
void copse__slot_note(const copse_trainer *t, struct copse_step_slot *slot, uint32_t part,
                      const struct copse_shares *s);
/* ahead.c. As copse__flight_prepare, of the oldest batch that is fed where `batch` is NULL. *out: its place, from
   where it is taken; NULL: it is written to the recordings' inputs by the step. */
copse_status copse__ahead_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                  enum copse_pass pass, struct copse_shares *s,
                                  struct copse_ahead **out);
/* A replica's share goes where its recording reads it, when it is uploaded. */
copse_status copse__ahead_take(copse_trainer *t, struct copse_ahead *a,
                               const struct copse_recording *rec, const struct copse_shard *share);
/* Bring the variables that are about to be read. */
copse_status copse__trainer_pull(copse_trainer *t, enum copse_pull when);
/* All buckets of an update were applied. */
copse_status copse__trainer_commit(copse_trainer *t);
/* flight.c */
copse_status copse__fly(struct copse_flight *f);
bool copse__is_cancelled(copse_trainer *t);
/* Wait for a replica's ticket, or until the trainer is cancelled. */
copse_status copse__trainer_wait(copse_trainer *t, uint32_t r, uint64_t ticket);
/* Results of steps nobody took until there is room for one of number `step`. */
copse_status copse__trainer_make_room(copse_trainer *t, uint64_t step);
/* Tickets of all replicas, of this worker, behind a segment. */
uint64_t *copse__ready_of(const copse_trainer *t, uint32_t segment);
/* What a replica found of a gradient that is watched. */
float copse__watched(const copse_trainer *t, uint32_t r, size_t variable, uint32_t which);
/* run.c */
/* It is queued: count it, or the update. */
void copse__gathered_next(copse_trainer *t);

#endif
