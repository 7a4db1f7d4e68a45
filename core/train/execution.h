/* SPDX-License-Identifier: MIT */
/* A (micro-)batch under way, as trainer_step.c runs one at a time and loop.c several: its shares, and what happens
   from its first segment to its last update. */
#ifndef COPSE_FLIGHT_H
#define COPSE_FLIGHT_H

#include "core/train/trainer.h"

struct copse_shares {
    struct copse_shard of_all[COPSE_MAX_REPLICAS]; /* replicas of all workers */
    const struct copse_shard *at;                  /* this worker's */
    struct copse_step_recording *recordings[COPSE_MAX_REPLICAS];
};

/* A batch in device memory, or on its way there: a slot for each replica's share. */
struct copse_ahead {
    copse_buffer *buffers[COPSE_MAX_REPLICAS];
    uint64_t written[COPSE_MAX_REPLICAS]; /* tickets: of the transfer queue, when it is there */
    uint64_t read[COPSE_MAX_REPLICAS];    /* of the replica's queue, when the place may be written again */
    struct copse_shares shares;
    struct copse_batch_kind kind;
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
    uint64_t since;     /* copse__workers_sequence before it */
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
copse_status copse__shares_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                   enum copse_pass pass, struct copse_shares *s);
/* The part of it that has nothing to do with other workers, or with what else is under way. */
copse_status copse__shares_plan(copse_trainer *t, const struct copse_host_batch *batch,
                                enum copse_pass pass, struct copse_shares *s);
/* Those of a batch like this one, whose data is not read. */
copse_status copse__recordings_find(copse_trainer *t, const struct copse_host_batch *batch,
                                    enum copse_pass pass, struct copse_shares *s);
/* The step words of a batch: of all replicas, which for the first part asks the schedule, and of one. */
copse_status copse__words_begin(copse_trainer *t, bool is_training, const struct copse_gathered *g,
                                uint32_t epoch, uint32_t *words);
void copse__words_share(const copse_trainer *t, const struct copse_batch_place *batch,
                        const struct copse_shard *share, size_t first_examples, uint32_t *words);
/* The scale of an update from the micro-batches so far. */
void copse__words_scale(const copse_trainer *t, uint32_t *words);
copse_status copse__batch_check(const struct copse_host_batch *batch);
copse_status copse__shares_split(copse_trainer *t, const struct copse_host_batch *batch, bool may_measure,
                                 struct copse_shares *s);
/* The newest micro-batch is one of `count` examples; where its reports go. */
struct copse_gathered copse__gathered_add(copse_trainer *t, size_t count);
void copse__slot_note(const copse_trainer *t, struct copse_step_slot *slot, uint32_t part,
                      const struct copse_shares *s);
/* ahead.c. As copse__shares_prepare, of the oldest batch that is fed where `batch` is NULL. *out: its place, from
   where it is taken; NULL: it is written to the recordings' inputs by the step. */
copse_status copse__ahead_prepare(copse_trainer *t, const struct copse_host_batch *batch,
                                  enum copse_pass pass, struct copse_shares *s,
                                  struct copse_ahead **out);
/* A replica's share goes where its recording reads it, when it is uploaded. */
copse_status copse__ahead_take(copse_trainer *t, struct copse_ahead *a, const struct copse_step_recording *rec);
/* feed.c */
/* Of a slot for the recording's inputs. */
size_t copse__feed_bytes(const struct copse_step_recording *rec);
/* The batch has data for all inputs that its recordings use. */
copse_status copse__feed_check(const copse_trainer *t, const struct copse_shares *s,
                               const struct copse_host_batch *batch);
/* A share of a batch goes to a slot, at a byte offset; slot NULL: to where the recording reads it. */
copse_status copse__feed_write(copse_queue *q, const struct copse_step_recording *rec,
                               const struct copse_host_batch *batch, const struct copse_shard *share,
                               copse_buffer *slot, size_t at);
/* From a slot to where the recording reads it. */
copse_status copse__feed_take(copse_queue *q, const struct copse_step_recording *rec, copse_buffer *slot, size_t at);
/* What is kept of a batch that is fed. */
void copse__batch_kind_take(struct copse_batch_kind *kind, const struct copse_host_batch *batch,
                            const struct copse_shares *s, uint32_t replicas);
bool copse__batch_kind_is(const struct copse_batch_kind *kind, const struct copse_host_batch *batch);
/* A batch that is fed needs the recording. */
bool copse__feed_needs(const copse_trainer *t, const struct copse_step_recording *rec);
/* Bring the variables that are about to be read. */
copse_status copse__trainer_pull(copse_trainer *t, enum copse_pull when);
/* All buckets of an update were applied. */
copse_status copse__trainer_commit(copse_trainer *t, struct copse_step_slot *slot);
/* updates.c: assign what the step has computed. Queued; where servers have the variables, sent. */
copse_status copse__updates_commit(copse_trainer *t, const struct copse_shares *s);
/* execution.c */
copse_status copse__fly(struct copse_flight *f);
bool copse__is_cancelled(copse_trainer *t);
/* A wait has ended with `s`, which is returned: one request cancels one step. */
copse_status copse__note_cancelled(copse_trainer *t, copse_status s);
/* Wait for a replica's ticket, or until the trainer is cancelled. */
copse_status copse__trainer_wait(copse_trainer *t, uint32_t r, uint64_t ticket);
/* Results of steps nobody took until there is room for one of number `step`. */
copse_status copse__trainer_make_room(copse_trainer *t, uint64_t step);
/* watches.c: memory; read back what a replica has found; wait for it, and look for elements that are not finite. */
copse_status copse__watches_make(copse_trainer *t);
copse_status copse__watches_read(copse_trainer *t, const struct copse_shares *s, uint32_t r);
copse_status copse__watches_check(copse_trainer *t);
/* accumulation.c */
/* It is queued: count it, or the update. */
void copse__gathered_next(copse_trainer *t);

#endif
