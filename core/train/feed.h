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

#include "core/train/batch/batch_slots.h"

struct copse_feed_table {
    const char *setting; /* and has_transfers: of the slots (batch_slots.h) */
    bool has_transfers;
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
    copse_status (*take)(const struct copse_replica *rep, struct copse_batch_slot *slot,
                         const struct copse_step_recording *rec);
    /* Train on all batches that are fed. *done: how many steps were queued. */
    copse_status (*run)(copse_trainer *t, uint32_t *done);
};
extern const struct copse_feed_table copse__feed_prefetch, copse__feed_run;

struct copse_feed {
    const struct copse_feed_table *table;
    struct copse_batch_slots slots;
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

#endif
