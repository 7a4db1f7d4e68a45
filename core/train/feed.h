/* SPDX-License-Identifier: MIT */
/* The feed of a trainer: how batches reach the devices. It is a ring of batch slots in device
   memory and one of three tables of functions:
   - direct: no slot. A step writes its batch to where the recordings read it.
   - prefetch: batches are uploaded to slots on the transfer queues while earlier steps compute; a
     step takes one slot.
   - run (accelerator strategies): batches are uploaded to slots; one submission trains all of them,
     a step for each. */
#ifndef COPSE_FEED_H
#define COPSE_FEED_H

#include "core/train/batch/shards.h"
#include "core/train/recording/shard_inputs.h"

/* A batch in device memory, or on its way there. */
struct copse_batch_slot {
    struct copse_shards shards;
    struct copse_host_batch batch; /* without data, of these columns */
    struct copse_column columns[COPSE_MAX_INPUTS];
    struct copse_binding at[COPSE_MAX_REPLICAS]; /* each replica's shard */
    /* prefetch: ticket of the transfer queue behind the upload, */
    uint64_t written[COPSE_MAX_REPLICAS];
    /* and of the replica's queue behind the copy out of the slot */
    uint64_t read[COPSE_MAX_REPLICAS];
};

struct copse_feed_table {
    const char *depth;  /* the setting that is the number of slots, in texts */
    bool has_transfers; /* uploads are on the replicas' transfer queues; else on their own */
    copse_status (*init)(copse_trainer *t); /* memory besides the slots; NULL: none */
    void (*fini)(copse_trainer *t);
    /* All of copse_trainer_feed that can fail before the upload: fill `s` for the batch. NULL:
       batches are not fed. */
    copse_status (*plan)(copse_trainer *t, const struct copse_host_batch *batch,
                         struct copse_shards *s);
    /* All of a step that can fail before anything is queued: fill `s` for the batch; NULL: for the
     * oldest that is fed. slot: the slot that the step takes; NULL: it writes the batch itself.
     * NULL: each step does. */
    copse_status (*prepare)(copse_trainer *t, const struct copse_host_batch *batch,
                            enum copse_pass pass, struct copse_shards *s,
                            struct copse_batch_slot **slot);
    /* Queue the copy of a replica's shard from its slot to where the recording reads it. NULL:
       `prepare` gives no slots. */
    copse_status (*take)(copse_trainer *t, struct copse_batch_slot *slot,
                         const struct copse_step_recording *rec);
    /* Train on all batches that are fed. *done: how many steps were queued. */
    copse_status (*run)(copse_trainer *t, uint32_t *done);
};
extern const struct copse_feed_table copse__feed_prefetch, copse__feed_run;

struct copse_feed {
    const struct copse_feed_table *table;
    struct copse_batch_slot *slots; /* [depth], a ring */
    uint32_t depth, count;          /* slots; batches that are fed */
    uint32_t first;                 /* slot of the oldest that is fed, or the next one */
    /* run: step words of all slots, of each replica on its device, and on the host:
       [replicas][depth][COPSE_STEP_WORDS] */
    copse_buffer *step_words[COPSE_MAX_REPLICAS];
    uint32_t *words;
};

/* ---- feed.c ---- */

/* Choose the table, and make memory. */
copse_status copse__feed_init(copse_trainer *t);
void copse__feed_fini(copse_trainer *t);
/* copse_trainer_run, which also returns how many batches it has done. */
copse_status copse__trainer_run(copse_trainer *t, uint32_t *done);

/* ---- batch_slots.c: what the tables have in common ---- */

/* The slot of the batch that is fed as number `i`, 0 = the oldest. */
struct copse_batch_slot *copse__feed_slot(const copse_trainer *t, uint32_t i);
/* The pass of the batch that is fed as number `i`: the first of an update, or a later one. */
enum copse_pass copse__feed_pass(const copse_trainer *t, uint32_t i);
/* A batch that is fed needs the recording. */
bool copse__feed_needs(const copse_trainer *t, const struct copse_step_recording *rec);
/* The batch has data for all inputs of its shards (copse__shard_check). */
copse_status copse__feed_check(const copse_trainer *t, const struct copse_shards *s,
                               const struct copse_host_batch *batch);
/* Queue the copy from a slot to where the recording reads it. */
copse_status copse__feed_copy(copse_queue *q, const struct copse_step_recording *rec,
                              const struct copse_binding *slot);
/* Queue the upload of a batch, with these shards, to a slot. Its memory grows where need be. */
copse_status copse__feed_upload(copse_trainer *t, const struct copse_host_batch *batch,
                                const struct copse_shards *s, struct copse_batch_slot *slot);
/* Whether a batch has columns of these names, types and shapes. */
bool copse__batch_has_columns(const struct copse_host_batch *batch,
                              const struct copse_column *columns, size_t count);

#endif
