/* SPDX-License-Identifier: MIT */
/* What a trainer records: the program of one replica for one shard of a batch, the order of
   exchanges that all of its recordings have in common, and the outputs and assignments that a loss
   function asks for. */
#ifndef COPSE_STEP_RECORDING_H
#define COPSE_STEP_RECORDING_H

#include "copse/compat/single_loss.h"
#include "copse/trainer.h"
#include "core/graph/recording.h"
#include "core/optim/optimizer.h"

struct copse_shards;

/* What a recording computes. */
enum copse_pass {
    COPSE_PASS_EVALUATE,
    COPSE_PASS_TRAIN, /* the gradients are written to their places */
    COPSE_PASS_ADD,   /* the gradients are added to those of earlier micro-batches */
};

/* ---- the layout (layout.c) ---- */

/* An all-reduce inside the loss function: a bucket of the exchange. The operands are the gradients
   of its piece, the results are the values. */
struct copse_graph_all_reduce {
    copse_shape shape;
    uint32_t piece, bucket; /* of the exchange */
};

/* A variable that each step assigns to (copse_update). */
struct copse_layout_update {
    copse_variable *variable;
    /* the value is the result of an all-reduce, on replicas without examples too */
    bool is_shared;
    uint32_t all_reduce;                      /* number of that one */
    copse_buffer *values[COPSE_MAX_REPLICAS]; /* else: what each replica has computed */
    /* memory for the values, where the variable has no memory on replicas; else NULL */
    void *host;
    bool is_stuck; /* a device may still write to it: it is not freed */
};

/* What is exchanged between the segments of a pass; the same on every replica and for every shard.
   The first recording makes it, all others must have the same. */
struct copse_layout {
    bool is_known;
    struct {
        struct copse_graph_all_reduce *at;
        size_t count, room;
    } all_reduces;
    /* behind each segment: number of an all-reduce, or COPSE_NO_ALL_REDUCE for the next bucket */
    struct {
        uint32_t *at;
        size_t count, room;
    } events;
    struct {
        struct copse_layout_update *at;
        size_t count, room;
    } updates;
};

/* ---- recordings (step_recording.c) ---- */

/* The recording of one replica for one shard of a batch. Lifetime: until a later `use` of the
   trainer makes another one and this one is among the least recently used. */
struct copse_step_recording {
    struct copse_recording base; /* without a program for an empty shard */
    struct copse_trainer *trainer;
    uint32_t replica;
    size_t examples;
    enum copse_pass pass;
    uint64_t used;   /* newest `use` of the trainer that has asked for it */
    bool is_checked; /* its launches were compared with the host, or need not be (cross_check.c) */
    /* where a replay leaves the graph's outputs, in its arena; NULL: none */
    struct copse_block **outputs;
    struct {
        struct copse_row_place *at;
        size_t count;
    } rows; /* in the graph's arena */
};

/* The recordings of a trainer. */
struct copse_trainer_recordings {
    struct copse_recordings of[COPSE_MAX_REPLICAS];
    uint64_t use; /* number of the step, evaluation, feed or run at hand */
};

void copse__recordings_init(copse_trainer *t);
/* The recording for a shard of `examples` of a batch like this one. Does not read the data of the
   batch. */
copse_status copse__recording_get(copse_trainer *t, uint32_t replica,
                                  const struct copse_host_batch *batch, size_t examples,
                                  enum copse_pass pass, struct copse_step_recording **out);

/* Build the graph of a shard as a new recording does, and call `plan` with the params of its
   program. */
copse_status copse__recording_plan(copse_trainer *t, uint32_t replica,
                                   const struct copse_host_batch *batch, size_t examples,
                                   enum copse_pass pass, copse_plan_fn *plan, void *user);

/* The memory of a replica's device, its pool aside [bytes]. Waits for the replica's queue. */
struct copse_memory_use {
    uint64_t recordings, others; /* of the trainer's recordings; all else */
    uint32_t sharers;            /* replicas on the device */
};
struct copse_memory_use copse__memory_use(const copse_trainer *t, uint32_t replica);
/* What a budget of the device leaves for the values of a recording, at least 1; 0: no budget.
   Recordings of other batches have memory of their own; replicas of the same device share what is
   left. */
size_t copse__memory_left(const copse_trainer *t, uint32_t replica, uint64_t budget);

/* gradients.c: the nodes after a recording's loss. */
copse_status copse__gradients_build(struct copse_step_recording *r);

/* row_gradients.c. Whether a trainer's settings are for gradients of rows, where it trains sparse
   variables: COPSE_ERR_UNSUPPORTED names the setting. */
copse_status copse__rows_check(const copse_trainer *t);
/* Place the gradient of a sparse variable; NULL: the loss does not depend on it. */
copse_status copse__rows_place(struct copse_step_recording *r, const copse_variable *v,
                               copse_tensor *gradient);
void copse__rows_free(struct copse_step_recording *r);
/* The recording's replay of this bucket is queued: queue its lists of rows for the exchange. An
   empty recording gives none. */
copse_status copse__rows_give(const struct copse_step_recording *r, uint32_t bucket);

/* layout.c */
copse_status copse__layout_all_reduce(void *recording, const copse_tensor *y, uint32_t index,
                                      struct copse_binding *operand, struct copse_binding *result);
/* Compare a new program with the layout, or take the layout from it. */
copse_status copse__layout_settle(struct copse_recording *recording);
void copse__layout_fini(copse_trainer *t, struct copse_layout *l);

/* ---- assignments of a step (updates.c) ---- */

/* Place what the recording's updates assign. The first recording makes the layout's list, the
   others must have the same. */
copse_status copse__updates_place(struct copse_step_recording *r);
/* The value `y` of an update is the result of this all-reduce. */
void copse__updates_all_reduce(struct copse_step_recording *r, const copse_tensor *y,
                               uint32_t all_reduce);
/* Assign what the step has computed. Queued; where servers have the variables, sent. */
copse_status copse__updates_commit(copse_trainer *t, const struct copse_shards *s);
void copse__updates_fini(copse_trainer *t, struct copse_layout *l);

/* ---- arrays that the loss function sets as outputs (loss_outputs.c) ---- */

struct copse_loss_output {
    const char *name;
    int reduction; /* enum copse_output_reduction */
    copse_type type;
    copse_shape shape; /* in the first recording; the same in all where it is reduced */
};

struct copse_loss_outputs {
    struct copse_loss_output *at;
    size_t count;
    bool is_known;  /* from the first recording on */
    bool is_newest; /* the buffers of `newest` hold the outputs of the newest step */
    const struct copse_step_recording *newest[COPSE_MAX_REPLICAS];
};

/* Compare a new graph's outputs with the trainer's, and place them. */
copse_status copse__loss_outputs_place(struct copse_step_recording *r);
void copse__loss_outputs_free(struct copse_step_recording *r);
/* All of a training step is queued. */
void copse__loss_outputs_end(copse_trainer *t, const struct copse_shards *s);
/* What this worker's replicas have of output `i` of the newest step: a new reference, one component
   per replica. */
copse_status copse__loss_output_read(const copse_trainer *t, size_t i, copse_value **out);

#endif
