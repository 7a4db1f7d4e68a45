/* SPDX-License-Identifier: MIT */
/* The feed of a trainer: how batches reach the devices. It is a ring of batch slots in device memory and one of
   three tables of functions:
   - direct: no slot. A step writes its batch to where the recordings read it.
   - prefetch: batches are uploaded to slots on the transfer queues while earlier steps compute; a step takes one slot.
   - run (accelerator strategies): batches are uploaded to slots; one submission trains all of them, a step for each. */
#ifndef COPSE_FEED_H
#define COPSE_FEED_H

#include "core/train/shares.h"

/* A batch in device memory, or on its way there. */
struct copse_batch_slot {
    struct copse_shares shares;
    struct copse_host_batch batch; /* without data, of these columns */
    struct copse_column columns[COPSE_MAX_INPUTS];
    struct copse_binding at[COPSE_MAX_REPLICAS]; /* each replica's share */
    uint64_t written[COPSE_MAX_REPLICAS]; /* prefetch: ticket of the transfer queue behind the upload, */
    uint64_t read[COPSE_MAX_REPLICAS];    /* and of the replica's queue behind the copy out of the slot */
};

struct copse_feed_table {
    copse_status (*init)(copse_trainer *t);
    void (*fini)(copse_trainer *t);
    /* copse_trainer_feed, on a batch that is not NULL. */
    copse_status (*put)(copse_trainer *t, const struct copse_host_batch *batch);
    /* All of a step that can fail before anything is queued: fill `s` for the batch; NULL: for the oldest that is fed.
       *slot: the slot that the step takes; NULL: it writes the batch itself. */
    copse_status (*prepare)(copse_trainer *t, const struct copse_host_batch *batch, enum copse_pass pass,
                            struct copse_shares *s, struct copse_batch_slot **slot);
    /* Queue the copy of a replica's share from its slot to where the recording reads it. NULL: `prepare` gives no
       slots. */
    copse_status (*take)(copse_trainer *t, struct copse_batch_slot *slot, const struct copse_step_recording *rec);
    /* Train on all batches that are fed. *done: how many steps were queued. */
    copse_status (*run)(copse_trainer *t, uint32_t *done);
};
extern const struct copse_feed_table copse__feed_direct, copse__feed_prefetch, copse__feed_run;

struct copse_feed {
    const struct copse_feed_table *table;
    struct copse_batch_slot *slots; /* [depth], a ring */
    uint32_t depth, count;          /* slots; batches that are fed */
    uint32_t first;                 /* slot of the oldest that is fed, or the next one */
    /* run: of each replica, the step words of all slots and then their shares, in one buffer; the words on the host,
       [replicas][depth][COPSE_STEP_WORDS] */
    copse_buffer *buffers[COPSE_MAX_REPLICAS];
    uint32_t *words;
};

/* ---- feed.c ---- */

/* Choose the table, and make memory. */
copse_status copse__feed_init(copse_trainer *t);
void copse__feed_fini(copse_trainer *t);
/* copse_trainer_run, which also returns how many batches it has done. */
copse_status copse__trainer_run(copse_trainer *t, uint32_t *done);

/* feed_direct.c: the step writes its batch itself. */
copse_status copse__feed_prepare_direct(copse_trainer *t, const struct copse_host_batch *batch, enum copse_pass pass,
                                        struct copse_shares *s, struct copse_batch_slot **slot);

/* ---- feed_slots.c: what the tables have in common ---- */

/* The slot of the batch that is fed as number `i`, 0 = the oldest. */
struct copse_batch_slot *copse__feed_slot(const copse_trainer *t, uint32_t i);
/* The pass of the batch that is fed as number `i`: the first of an update, or a later one. */
enum copse_pass copse__feed_pass(const copse_trainer *t, uint32_t i);
/* A batch that is fed needs the recording. */
bool copse__feed_needs(const copse_trainer *t, const struct copse_step_recording *rec);
/* Bytes of a slot for the recording's inputs. */
size_t copse__feed_bytes(const struct copse_step_recording *rec);
/* The batch has data for all inputs that its recordings use. */
copse_status copse__feed_check(const copse_trainer *t, const struct copse_shares *s,
                               const struct copse_host_batch *batch);
/* Queue the write of a share of a batch to where the recording reads it, or to a slot. */
copse_status copse__feed_write(copse_queue *q, const struct copse_step_recording *rec,
                               const struct copse_host_batch *batch, const struct copse_shard *share,
                               const struct copse_binding *slot);
/* Queue the copy from a slot to where the recording reads it. */
copse_status copse__feed_copy(copse_queue *q, const struct copse_step_recording *rec, const struct copse_binding *slot);
/* The slot has this batch, with these shares. */
void copse__batch_slot_fill(const copse_trainer *t, struct copse_batch_slot *slot, const struct copse_host_batch *batch,
                            const struct copse_shares *s);
/* Whether a batch has columns like those of the slot's. */
bool copse__batch_slot_is_like(const struct copse_batch_slot *slot, const struct copse_host_batch *batch);

#endif
