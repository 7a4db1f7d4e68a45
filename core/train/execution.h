/* SPDX-License-Identifier: MIT */
/* The execution of one (micro-)batch, from its first segment to its last update. */
#ifndef COPSE_EXECUTION_H
#define COPSE_EXECUTION_H

#include "core/train/trainer.h"

struct copse_execution {
    copse_trainer *t;
    const struct copse_layout *layout;
    const struct copse_shards *shards;
    struct copse_step_slot *slot;
    uint32_t part;      /* of the slot */
    bool is_training, is_updating;
    bool is_resident;   /* all replicas have one queue: nothing is submitted, and nothing waits */
    bool is_audited;    /* the replicas compute their gradients twice */
    bool keeps_reports; /* reports go to the outfeed, which is read behind the run */
    uint64_t since;     /* copse__group_sequence before it */
    /* progress */
    uint32_t queued;    /* segments */
    uint32_t exchanged; /* segments behind which the exchange is done */
    uint32_t barrier;   /* segment before the first all-reduce that is not done: no later one is queued */
    uint32_t report;    /* segment behind which loss and reports are read */
    uint32_t bucket;    /* next one */
};

/* The next micro-batch, of these shards, begins; NULL: there is none, the update alone follows. */
struct copse_execution copse__execution_begin(copse_trainer *t, const struct copse_shards *s);
copse_status copse__execute(struct copse_execution *e);
/* The update alone, of the gradients that earlier micro-batches have left. */
copse_status copse__execute_update(copse_trainer *t);

/* ---- cross_check.c ---- */

/* Before a micro-batch: compare the launches of its recordings, and of the update, with the host, where that was not done
   before on this kind of device. COPSE_ERR_UNRELIABLE for a difference: nothing has changed. */
copse_status copse__cross_check(struct copse_execution *e);

/* ---- spot.c ---- */

/* Before a micro-batch: choose the launch that is computed again, where the step has a spot. */
copse_status copse__spot_begin(struct copse_execution *e);
/* Replay a segment of a replica's recording, with the probe where it has the launch. */
copse_status copse__spot_replay(copse_trainer *t, uint32_t r, struct copse_segment *segment);

/* ---- audit.c ---- */

/* Before a micro-batch: decide whether it is audited; then queue the first computation. */
copse_status copse__audit_first(struct copse_execution *e);
/* Segment `i` of a replica is queued: queue its digests. */
copse_status copse__audit_second(struct copse_execution *e, uint32_t r, uint32_t i);

#endif
