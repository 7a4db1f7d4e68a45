/* SPDX-License-Identifier: MIT */
/* The ring of step slots: what the replicas report of each step, from the moment it is queued until
   the application takes the result. */
#ifndef COPSE_STEP_SLOTS_H
#define COPSE_STEP_SLOTS_H

#include "copse/distribute/shards.h"
#include "copse/trainer.h"
#include "core/check/audit.h"
#include "core/comm/group.h"
#include "core/train/batch/shards.h"

/* f32, that a worker sends of each replica and micro-batch, */
#define COPSE_MESSAGE_VALUES (1 + COPSE_MAX_REPORTS)
/* behind the number of the step and the words of an audit (core/check/audit.h) */
#define COPSE_MESSAGE_HEAD ((1 + COPSE_AUDIT_WORDS) * sizeof(uint64_t))

/* One step under way, or finished and not yet taken: what the replicas reported of each of its
   micro-batches. */
struct copse_step_slot {
    uint64_t step;
    uint64_t tickets[COPSE_MAX_REPLICAS];
    uint32_t parts, room; /* micro-batches, and for how many there is room */
    float loss_scale;     /* of the update; 0: gradients are not scaled */
    bool is_skipped;      /* the update was */
    /* [parts][replicas of all workers]; 0 = it had none and reported nothing */
    size_t *examples;
    uint32_t replicas;    /* of this worker */
    unsigned char *bytes; /* as read back; see copse__slot_row */
    size_t stride;        /* from replica to replica */
    /* several workers, else NULL: the reports of all workers, worker by worker, and their
       messages */
    unsigned char *all;
    struct copse_pending sends[COPSE_MAX_WORKERS], recvs[COPSE_MAX_WORKERS];
};

struct copse_step_ring {
    struct copse_step_slot *at;
    uint32_t count;
    struct copse_step_slot evaluation; /* of the evaluation at hand; not in the ring */
    unsigned char *landing;            /* [replicas][count][accumulate]: what the slots point to */
    /* the rows of a replica on its device, for a run; or NULL */
    copse_buffer *outfeed[COPSE_MAX_REPLICAS];
    uint64_t taken;   /* results taken */
    bool has_dropped; /* one that nobody took; the log says so once */
    /* [segments][replicas]: tickets of the newest step */
    struct {
        uint64_t *at;
        size_t count, room;
    } ready;
};

/* Address of a row, [part][replica] of this worker: COPSE_REPORT_BYTES. */
static inline unsigned char *copse__slot_row(const struct copse_step_slot *slot, size_t row)
{
    return slot->bytes + row % slot->replicas * slot->stride +
           row / slot->replicas * COPSE_REPORT_BYTES;
}

/* ---- step_slots.c ---- */

copse_status copse__slots_make(copse_trainer *t);
/* `is_idle`: no read of a device can still land in them. */
void copse__slots_free(copse_trainer *t, bool is_idle);
struct copse_step_slot *copse__slot_of(copse_trainer *t, uint64_t step);
/* Note whose examples micro-batch `part` of the slot has. */
void copse__slot_note(const copse_trainer *t, struct copse_step_slot *slot, uint32_t part,
                      const struct copse_shards *s);
copse_status copse__slot_wait(copse_trainer *t, const struct copse_step_slot *slot, bool wait);
/* Value `i` of a row; 0 is the loss, then the reports. */
float copse__slot_value(const struct copse_step_slot *slot, size_t row, uint32_t i);
/* The message with a worker's reports of a step: its size, and its memory in the slot. */
size_t copse__slot_message_bytes(const copse_trainer *t, const struct copse_step_slot *slot,
                                 uint32_t worker);
unsigned char *copse__slot_message(const copse_trainer *t, const struct copse_step_slot *slot,
                                   uint32_t worker);
/* A buffer of a replica, filled with zeros. */
copse_status copse__trainer_buffer(copse_trainer *t, uint32_t r, size_t bytes, copse_buffer **out);

/* ---- several workers (worker_results.c); nothing to do where there is one ---- */

/* Send this worker's reports to the others, when its devices have them. */
copse_status copse__worker_results_send(copse_trainer *t, struct copse_step_slot *slot);
/* Receive those of the others. COPSE_ERR_TIMEOUT when some have not come and `wait` is false. */
copse_status copse__worker_results_receive(copse_trainer *t, struct copse_step_slot *slot,
                                           bool wait);
/* Value `i` of a row, [part][replica of any worker]. */
float copse__rank_value(const copse_trainer *t, const struct copse_step_slot *slot, size_t row,
                        uint32_t i);

/* ---- combined (result.c) ---- */

void copse__slot_result(const copse_trainer *t, const struct copse_step_slot *slot,
                        struct copse_step_result *out);
/* Value `i` of a result is a sum over examples; else it is a mean. */
bool copse__value_is_sum(const copse_trainer *t, uint32_t i);
/* copse_trainer_replica_result of a rank of any worker. */
copse_status copse__rank_result(copse_trainer *t, uint32_t rank, struct copse_replica_result *out);
/* Take results until there is a slot for step number `step`. */
copse_status copse__trainer_make_room(copse_trainer *t, uint64_t step);

#endif
