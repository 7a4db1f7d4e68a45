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
    uint32_t part; /* of the slot */
    bool is_training, is_updating;
    bool is_resident;   /* all replicas have one queue: nothing is submitted, and nothing waits */
    bool keeps_reports; /* reports go to the outfeed, which is read behind the run */
    uint64_t since;     /* copse__group_sequence before it */
    /* progress */
    uint32_t queued;    /* segments */
    uint32_t ended;     /* buckets whose gradients the queued segments complete */
    uint32_t exchanged; /* segments behind which the exchange is done */
    /* segment before the first all-reduce that is not done: no later one is queued */
    uint32_t barrier;
    uint32_t report;                /* segment behind which loss and reports are read */
    uint32_t bucket;                /* next one */
    struct copse_verified verified; /* of a training step */
};

/* The next micro-batch, of these shards, begins; NULL: there is none, the update alone follows. */
struct copse_execution copse__execution_begin(copse_trainer *t, const struct copse_shards *s);
copse_status copse__execute(struct copse_execution *e);
/* The update alone, of the gradients that earlier micro-batches have left. */
copse_status copse__execute_update(copse_trainer *t);

/* ---- cross_sums.c: where the strategy has operations of the application ---- */

/* The gradients of each replica become the sums over all, before an update. No variable has changed
   then. If it fails no update follows. Where the operations fail, all workers fail; a failure after
   them, on this worker alone, aborts the group. */
copse_status copse__sum_gradients(copse_trainer *t);
/* An all-reduce of a loss function, in place of its exchange. */
copse_status copse__sum_all_reduce(copse_trainer *t, const struct copse_graph_all_reduce *c);

#endif
