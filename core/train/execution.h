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
    bool keeps_reports; /* reports go to the outfeed, which is read after the run */
    bool is_sliced;     /* segments are queued slice by slice, and none ahead */
    bool waits;         /* all gradients are needed before the first bucket is exchanged */
    uint64_t since;     /* copse__group_sequence before it */
    /* progress */
    bool has_begun, is_done;
    uint32_t queued;    /* segments */
    uint32_t slice;     /* next one of segment `queued` */
    uint32_t ended;     /* buckets whose gradients the queued segments complete */
    uint32_t exchanged; /* segments whose exchange is done */
    /* segment before the first all-reduce that is not done: no later one is queued */
    uint32_t barrier;
    uint32_t report;                /* segment after which loss and reports are read */
    uint32_t bucket;                /* next one */
    uint32_t gate;                  /* `waits`: events before it are updated */
    bool is_checked;                /* `waits`: the losses of a micro-batch without an update */
    struct copse_verified verified; /* of a training step */
};

/* The next micro-batch, of these shards, begins; NULL: there is none, the update alone follows. */
struct copse_execution copse__execution_begin(copse_trainer *t, const struct copse_shards *s);
copse_status copse__execute(struct copse_execution *e);
/* The same in units: the next one of what is verified before the first segment; a slice of a
   segment, or all of it where !is_sliced; an exchange; a bucket's update; the commit. What the
   replicas compute in slices is not submitted before the last slice of a segment. */
copse_status copse__execute_next(struct copse_execution *e);
/* Whether the next unit is a slice, which waits for nothing. */
bool copse__execution_has_slice(const struct copse_execution *e);
/* The most units that an execution of these shards has, in slices. */
uint32_t copse__execution_units(const struct copse_execution *e);
/* Cross-check what was not checked before of the recordings and of the update. */
copse_status copse__execution_check(struct copse_execution *e);
/* The update alone, of the gradients that earlier micro-batches have left. */
copse_status copse__execute_update(copse_trainer *t);

/* ---- trainer_step.c ---- */

/* A (micro-)batch of a step that is under way. */
struct copse_step_run {
    struct copse_shards shards;
    struct copse_execution execution;
    uint64_t since; /* copse__group_sequence before it */
    bool is_last;   /* of the update */
};
/* Check and queue a batch as copse_trainer_step does, whose argument it is. `run` stays where it
   is until copse__step_end, which counts the batch, or drops it where `s` is a failure. */
copse_status copse__step_begin(copse_trainer *t, const struct copse_host_batch *batch,
                               struct copse_step_run *run);
copse_status copse__step_end(copse_trainer *t, const struct copse_step_run *run, copse_status s);
/* Queue what each replica reads of the batch: its inputs, from a slot of the feed or from host
   memory, and its step words. */
copse_status copse__queue_inputs(copse_trainer *t, bool is_training,
                                 const struct copse_host_batch *batch,
                                 struct copse_batch_slot *slot, const struct copse_shards *s,
                                 const struct copse_accumulation *a);

/* ---- cross_sums.c: where the strategy has operations of the application ---- */

/* The gradients of each replica become the sums over all, before an update. No variable has changed
   then. If it fails no update follows. Where the operations fail, all workers fail; a failure after
   them, on this worker alone, aborts the group. */
copse_status copse__sum_gradients(copse_trainer *t);
/* An all-reduce of a loss function, in place of its exchange. */
copse_status copse__sum_all_reduce(copse_trainer *t, const struct copse_graph_all_reduce *c);

#endif
