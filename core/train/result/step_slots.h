/* SPDX-License-Identifier: MIT */
/* The ring of step slots: what the replicas report of each step, from the moment it is queued until
   the application takes the result. */
#ifndef COPSE_STEP_SLOTS_H
#define COPSE_STEP_SLOTS_H

#include "copse/distribute/shards.h"
#include "copse/trainer.h"
#include "core/comm/group.h"
#include "core/data/input/shard.h"
#include "core/replica/strategy.h"
#include "core/train/recording/step_recording.h"
#include "core/train/verify/verifier.h"

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
    copse_strategy *strategy; /* not a reference */
    struct copse_verifier *verifier;
    struct copse_step_slot *at;
    uint32_t count;
    struct copse_step_slot evaluation; /* of the evaluation at hand; not in the ring */
    unsigned char *landing;            /* [replicas][count][accumulate]: what the slots point to */
    /* the rows of a replica on its device, for a run; or NULL */
    copse_buffer *outfeed[COPSE_MAX_REPLICAS];
    uint64_t taken;   /* results taken */
    bool has_dropped; /* one that nobody took; the log says so once */
};

/* Address of a row, [part][replica] of this worker: COPSE_REPORT_BYTES. */
static inline unsigned char *copse__slot_row(const struct copse_step_slot *slot, size_t row)
{
    return slot->bytes + row % slot->replicas * slot->stride +
           row / slot->replicas * COPSE_REPORT_BYTES;
}

/* ---- step_slots.c ---- */

/* Slots for `steps` steps under way, of `parts` micro-batches each. The verifier is told when the
   replicas are done with a step. */
copse_status copse__step_slots_make(struct copse_step_ring *ring, copse_strategy *st,
                                    struct copse_verifier *verifier, uint32_t steps,
                                    uint32_t parts);
/* Allowed on a zeroed struct. `is_idle`: no read of a device can still land in them. */
void copse__step_slots_free(struct copse_step_ring *ring, bool is_idle);
struct copse_step_slot *copse__slot_of(const struct copse_step_ring *ring, uint64_t step);
/* Note whose examples micro-batch `part` of the slot has: the shards of all workers' replicas. */
void copse__slot_note(const struct copse_step_ring *ring, struct copse_step_slot *slot,
                      uint32_t part, const struct copse_shard *of_all);
copse_status copse__slot_wait(const struct copse_step_ring *ring,
                              const struct copse_step_slot *slot, bool wait);
/* Value `i` of a row; 0 is the loss, then the reports. */
float copse__slot_value(const struct copse_step_slot *slot, size_t row, uint32_t i);
/* The message with a worker's reports of a step: its size, and its memory in the slot. */
size_t copse__slot_message_bytes(const struct copse_group *g, const struct copse_step_slot *slot,
                                 uint32_t worker);
unsigned char *copse__slot_message(const struct copse_group *g, const struct copse_step_slot *slot,
                                   uint32_t worker);

/* ---- result.c: the values of a slot combined ---- */

void copse__slot_result(const struct copse_step_ring *ring, const struct copse_reports *reports,
                        const struct copse_step_slot *slot, struct copse_step_result *out);
/* copse_trainer_replica_result of a rank of any worker, for the result that was taken last. */
copse_status copse__rank_result(const struct copse_step_ring *ring,
                                const struct copse_reports *reports, uint32_t rank,
                                struct copse_replica_result *out);

#endif
