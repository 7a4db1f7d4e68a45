/* SPDX-License-Identifier: MIT */
/* What a trainer records: the program of one replica for one shard of a batch, and what all of its
   recordings have in common: the order of exchanges, and the reports, outputs and assignments that
   a loss function asks for. */
#ifndef COPSE_STEP_RECORDING_H
#define COPSE_STEP_RECORDING_H

#include "copse/compat/single_loss.h"
#include "copse/trainer.h"
#include "core/graph/recording.h"
#include "core/optim/optimizer.h"
#include "core/train/recording/layout.h"
#include "core/train/recording/watches.h"

/* What a recording computes. */
enum copse_pass {
    COPSE_PASS_EVALUATE,
    COPSE_PASS_TRAIN, /* the gradients are written to their places */
    COPSE_PASS_ADD,   /* the gradients are added to those of earlier micro-batches */
};

/* The variables that a trainer trains, in order of creation. */
struct copse_trained {
    copse_variable **at;
    size_t count;
    bool is_listed; /* the application named them: the loss must depend on one */
};

/* ---- reports ---- */

/* Values that a recording leaves on its device: the loss, and what the loss function reports. */
struct copse_reports {
    copse_buffer *buffers[COPSE_MAX_REPLICAS]; /* COPSE_REPORT_BYTES, of the newest step */
    const char *names[COPSE_MAX_REPORTS];
    bool is_loss[COPSE_MAX_REPORTS];
    uint32_t count;
    bool is_known; /* from the first recording on */
    bool adds;     /* losses are sums over examples; else means */
};

/* Value `i` of a result, 0 the loss, is a sum over examples; else it is a mean. */
static inline bool copse__report_is_sum(const struct copse_reports *p, uint32_t i)
{
    return (i == 0 || p->is_loss[i - 1]) && p->adds;
}

/* ---- arrays that the loss function sets as outputs ---- */

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

/* ---- recordings (step_recording.c) ---- */

/* All recordings of a trainer, and what they have in common. */
struct copse_step_recordings {
    struct copse_recordings of[COPSE_MAX_REPLICAS]; /* first */
    copse_strategy *strategy;                       /* not a reference */
    struct copse_trainer_params *params;            /* of the trainer */
    struct copse_optimizer *optimizer;              /* of what is trained */
    const struct copse_trained *trained;
    struct copse_arena names;       /* of reports and outputs */
    struct copse_layout layouts[2]; /* evaluation, training */
    struct copse_reports reports;
    struct copse_loss_outputs outputs;
    struct copse_watches watches;
    uint64_t use;   /* number of the step, evaluation, feed or run at hand */
    bool is_sliced; /* new ones are divided into slices */
    /* true: make no new one, COPSE_ERR_CANCELLED; NULL: never */
    const atomic_bool *stop;
    /* [segments][replicas]: tickets of the newest step */
    struct {
        uint64_t *at;
        size_t count, room;
    } ready;
};

/* The recording of one replica for one shard of a batch. Lifetime: until a later `use` of the
   recordings makes another one and this one is among the least recently used. */
struct copse_step_recording {
    struct copse_recording base; /* without a program for an empty shard */
    struct copse_step_recordings *all;
    uint32_t replica;
    size_t examples;
    enum copse_pass pass;
    uint64_t used;   /* newest `use` that has asked for it, or for which it was kept */
    bool is_checked; /* its launches were compared with the host, or need not be (cross_check.c) */
    /* where a replay leaves the graph's outputs, in its arena; NULL: none */
    struct copse_block **outputs;
    struct {
        struct copse_row_place *at;
        size_t count;
    } rows; /* in the graph's arena */
};

static inline struct copse_layout *copse__layout_of(struct copse_step_recordings *all,
                                                    enum copse_pass pass)
{
    return &all->layouts[pass != COPSE_PASS_EVALUATE];
}

/* Tickets of all replicas, of this worker, behind a segment. */
static inline uint64_t *copse__ready_of(const struct copse_step_recordings *all, uint32_t segment)
{
    return all->ready.at + (size_t)segment * all->strategy->replica_count;
}

/* The strategy, params and trained variables are set; `object`: the application calls it. The
   optimizer may follow later. */
void copse__step_recordings_init(struct copse_step_recordings *all, void *object);
/* Allowed on a zeroed struct. The queues are idle. */
void copse__step_recordings_fini(struct copse_step_recordings *all);
/* The recording for a shard of `examples` of a batch like this one. Does not read the data of the
   batch. */
copse_status copse__recording_get(struct copse_step_recordings *all, uint32_t replica,
                                  const struct copse_host_batch *batch, size_t examples,
                                  enum copse_pass pass, struct copse_step_recording **out);

/* Build the graph of a shard as a new recording does, and call `plan` with the params of its
   program. */
copse_status copse__recording_plan(struct copse_step_recordings *all, uint32_t replica,
                                   const struct copse_host_batch *batch, size_t examples,
                                   enum copse_pass pass, copse_plan_fn *plan, void *user);

/* The memory of a replica's device, its pool aside [bytes]. Waits for the replica's queue. */
struct copse_memory_use {
    uint64_t recordings, others; /* of the trainer's recordings; all else */
    uint32_t sharers;            /* replicas on the device */
};
struct copse_memory_use copse__memory_use(const struct copse_step_recordings *all,
                                          uint32_t replica);
/* What a budget of the device leaves for the values of a recording, at least 1; 0: no budget.
   Recordings of other batches have memory of their own; replicas of the same device share what is
   left. */
size_t copse__memory_left(const struct copse_step_recordings *all, uint32_t replica,
                          uint64_t budget);

/* gradients.c: the nodes after a recording's loss. */
copse_status copse__gradients_build(struct copse_step_recording *r);

/* row_gradients.c. Whether a trainer's settings are for gradients of rows, where it trains sparse
   variables: COPSE_ERR_UNSUPPORTED names the setting. */
copse_status copse__rows_check(const struct copse_trained *trained,
                               const struct copse_trainer_params *p);
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

/* ---- assignments of a step (updates.c) ---- */

/* Place what the recording's updates assign. The first recording makes the layout's list, the
   others must have the same. */
copse_status copse__updates_place(struct copse_step_recording *r);
/* The value `y` of an update is the result of this all-reduce. */
void copse__updates_all_reduce(struct copse_step_recording *r, const copse_tensor *y,
                               uint32_t all_reduce);

/* ---- loss_outputs.c ---- */

/* Compare a new graph's outputs with those of the others, and place them. */
copse_status copse__loss_outputs_place(struct copse_step_recording *r);
void copse__loss_outputs_free(struct copse_step_recording *r);
/* All of a training step is queued. */
void copse__loss_outputs_end(struct copse_step_recordings *all,
                             struct copse_step_recording *const *newest);
/* What this worker's replicas have of output `i` of the newest step: a new reference, one component
   per replica. */
copse_status copse__loss_output_read(const struct copse_step_recordings *all, size_t i,
                                     copse_value **out);

#endif
