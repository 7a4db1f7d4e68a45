/* SPDX-License-Identifier: MIT */
/* A trainer from the inside: recordings by replica and share, the ring of steps under way. */
#ifndef COPSE_TRAINER_H
#define COPSE_TRAINER_H

#include "copse/compat/gradients.h"
#include "copse/compat/single_loss.h"
#include "copse/distribute/shares.h"
#include "copse/trainer.h"
#include "core/data/shard.h"
#include "core/graph/recording.h"
#include "core/optim/optimizer.h"

#define COPSE_STEPS_UNDER_WAY 8 /* at least: see `ring` */
#define COPSE_RECORDINGS 32     /* of a replica that are kept, unless the application says */
#define COPSE_REPORT_STRIDE COPSE_ALIGNMENT /* bytes between the values that a replica reports */
#define COPSE_REPORT_BYTES ((1 + COPSE_MAX_REPORTS) * COPSE_REPORT_STRIDE)

/* What a recording computes. */
enum copse_pass {
    COPSE_PASS_EVALUATE,
    COPSE_PASS_TRAIN, /* the gradients take their place */
    COPSE_PASS_ADD,   /* the gradients are added to those of earlier micro-batches */
};

/* A sum over replicas inside the loss: operands stand in the piece's gradients, results in its values. */
struct copse_crossing {
    copse_shape shape;
    uint32_t piece, bucket; /* of the exchange */
};

/* A variable that each step assigns to (copse_update). */
struct copse_layout_update {
    copse_variable *variable;
    bool is_shared;    /* the value is the result of a crossing, on replicas without examples too */
    uint32_t crossing; /* this one */
    copse_buffer *values[COPSE_MAX_REPLICAS]; /* else: what each replica has computed */
    void *host;        /* room for the values, where the variable has no memory on replicas; else NULL */
};

/* What happens between the segments of a pass, the same on every replica and for every share: number of a
   crossing, or COPSE_NO_CROSSING for the next bucket. Made by the first recording. */
struct copse_layout {
    bool is_known;
    struct { struct copse_crossing *at; size_t count, room; } crossings;
    struct { uint32_t *at; size_t count, room; } events; /* one per segment */
    struct { struct copse_layout_update *at; size_t count, room; } updates;
};

/* The recording of one replica for one kind of its share of a batch. Lifetime: until a later `use` of the trainer makes
   another one and it is among the least recently used. */
struct copse_step_recording {
    struct copse_recording base; /* without a program for an empty share */
    struct copse_trainer *trainer;
    uint32_t replica;
    size_t examples;
    enum copse_pass pass;
    uint64_t used; /* newest `use` of the trainer that has asked for it */
    struct copse_segment **zeros; /* empty share: by segment, the fill in the place of the program's; or NULL */
    copse_buffer **outputs;       /* of the graph's outputs, NULL entries where one is empty; NULL: none */
};

/* Arrays that the loss function sets as outputs (loss_outputs.c). */
struct copse_loss_output {
    char *name;
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

#define COPSE_MESSAGE_VALUES (1 + COPSE_MAX_REPORTS) /* that a worker sends of each replica and micro-batch, f32, */
#define COPSE_MESSAGE_HEAD   sizeof(uint64_t)        /* behind the number of the step */

/* One step under way, or finished and not yet taken: what the replicas reported for each of its
   micro-batches. */
struct copse_step_slot {
    uint64_t step;
    uint64_t tickets[COPSE_MAX_REPLICAS];
    uint32_t parts, room; /* micro-batches, and for how many there is room */
    float loss_scale;     /* of the update; 0: gradients are not scaled */
    bool is_skipped;      /* the update was */
    size_t *examples;     /* [parts][replicas of all workers]; 0 = it had none and reported nothing */
    uint32_t replicas;    /* of this worker */
    unsigned char *bytes; /* as read back; see copse__slot_row */
    size_t stride;        /* from replica to replica */
    /* across workers, else NULL: everybody's, worker by worker, and their messages */
    unsigned char *all;
    struct copse_pending sends[COPSE_MAX_WORKERS], recvs[COPSE_MAX_WORKERS];
};

/* Where a row stands, [part][replica] of this worker: COPSE_REPORT_BYTES. */
static inline unsigned char *copse__slot_row(const struct copse_step_slot *slot, size_t row)
{
    return slot->bytes + row % slot->replicas * slot->stride +
           row / slot->replicas * COPSE_REPORT_BYTES;
}

/* A batch without its data: what its inputs are, and which rows of the epoch it has. */
struct copse_batch_kind {
    struct copse_host_batch batch; /* of these columns */
    struct copse_column columns[COPSE_MAX_INPUTS];
};

/* Batches on the devices ahead of their steps. An accelerator's run has them in one buffer for each replica:
   the step words of all, then a slot for each batch. Elsewhere each has a place in a ring (ahead.c). */
struct copse_infeed {
    uint32_t count, room;  /* batches; 0 = nothing can be fed */
    struct copse_ahead *ring; /* [room]; NULL with an accelerator, and without prefetch. Of flight.h */
    uint32_t first;           /* in the ring: the oldest that is fed, or the next place */
    /* of an accelerator */
    struct copse_shares *shares; /* all batches have the same, of one kind; flight.h */
    struct copse_batch_kind kind; /* of all batches */
    struct copse_batch_place *places; /* [room] */
    uint32_t *words;       /* [replicas][room][COPSE_STEP_WORDS] */
    copse_buffer *buffers[COPSE_MAX_REPLICAS];
};

/* Scalars that a replica tells about its gradient of one variable, one COPSE_REPORT_STRIDE each. */
enum copse_watch {
    COPSE_WATCH_FINITE, /* 0, or NaN when an element is not finite */
    COPSE_WATCH_NORM,
    COPSE_WATCH_BINS,   /* elements of a magnitude of at least 10^(COPSE_GRADIENT_LOW + i) */
    COPSE_WATCHES = COPSE_WATCH_BINS + COPSE_GRADIENT_BINS,
};

struct copse_trainer {
    copse_strategy *strategy;
    struct copse_trainer_params params; /* without what the caller may free: variables, shares */
    struct copse_optimizer *optimizer; /* of what it trains */
    copse_variable **trained;     /* in order of creation */
    size_t trained_count;
    bool is_listed; /* the application named them: the loss must depend on one */
    struct copse_layout layouts[2]; /* evaluation, training */
    struct copse_recordings recordings[COPSE_MAX_REPLICAS];
    uint64_t use; /* what is begun: steps, evaluations, feeds, runs */
    copse_buffer *reports[COPSE_MAX_REPLICAS]; /* loss and reports of the newest step */
    char *report_names[COPSE_MAX_REPORTS];
    bool report_is_loss[COPSE_MAX_REPORTS];
    uint32_t report_count;
    bool has_names;
    struct copse_loss_outputs outputs;
    copse_buffer *watches[COPSE_MAX_REPLICAS]; /* [trained_count][COPSE_WATCHES]; or NULL */
    unsigned char *watched;                    /* [replicas] of the same, as read back */
    bool has_watched[COPSE_MAX_REPLICAS];      /* its share was not empty */
    double weights[COPSE_MAX_REPLICAS]; /* of the replicas' shares, where they are weighted */
    bool has_weights;
    uint64_t step;   /* updates begun */
    struct copse_position next; /* in the data, behind the newest batch */
    uint64_t taken;  /* results taken */
    uint32_t gathered;        /* micro-batches since the last update */
    size_t gathered_examples; /* theirs */
    size_t first_examples;    /* of the first of them */
    uint32_t words[COPSE_STEP_WORDS]; /* of the newest micro-batch */
    struct copse_step_slot *slots; /* a ring */
    uint32_t ring;
    unsigned char *landing; /* [replicas][ring][accumulate]: what the slots point to */
    copse_buffer *outfeed[COPSE_MAX_REPLICAS]; /* [ring][accumulate]: reports of a run; or NULL */
    struct copse_infeed infeed;
    struct copse_step_slot evaluation;
    struct { uint64_t *at; size_t count, room; } ready; /* [segments][replicas]: tickets of a step */
    bool is_failed;          /* an update was cut short: the parameters are not to be used */
    atomic_bool is_cancelled;
};

static inline bool copse__trainer_watches(const copse_trainer *t)
{
    return t->params.check_gradients || t->params.summarize_gradients;
}

static inline struct copse_layout *copse__layout_of(copse_trainer *t, enum copse_pass pass)
{
    return &t->layouts[pass != COPSE_PASS_EVALUATE];
}

/* Tickets of all replicas, of this worker, behind a segment. */
static inline uint64_t *copse__ready_of(const copse_trainer *t, uint32_t segment)
{
    return t->ready.at + (size_t)segment * t->strategy->replica_count;
}

/* recording.c */
/* From now on until the next of these calls, what is asked for stays. */
static inline void copse__recordings_begin(copse_trainer *t)
{
    t->use++;
}
void copse__recordings_init(copse_trainer *t);
/* For a share of `examples` of a batch like this one, whose data is not read. */
copse_status copse__recording_get(copse_trainer *t, uint32_t replica, const struct copse_host_batch *batch,
                                  size_t examples, enum copse_pass pass, struct copse_step_recording **out);

/* gradients.c: the nodes behind a recording's loss */
copse_status copse__gradients_build(struct copse_step_recording *r);

/* loss_outputs.c */
/* Compare a new graph's outputs with the trainer's, and place them. */
copse_status copse__loss_outputs_place(struct copse_step_recording *r);
void copse__loss_outputs_free(struct copse_step_recording *r);
void copse__loss_outputs_fini(copse_trainer *t);
/* A training step begins to overwrite the outputs of the one before; all of it is queued. */
struct copse_shares;
void copse__loss_outputs_begin(copse_trainer *t);
void copse__loss_outputs_end(copse_trainer *t, const struct copse_shares *s);
/* What this worker's replicas have of output `i` of the newest step: a new reference, one component per replica. */
copse_status copse__loss_output_read(const copse_trainer *t, size_t i, copse_value **out);
copse_status copse__outputs_check_reduction(const char *name, copse_output_reduction reduction);

/* layout.c */
copse_status copse__layout_cross(void *recording, const copse_tensor *y, uint32_t index,
                                 struct copse_binding *operand, struct copse_binding *result);
/* Compare a new program with the layout, or take the layout from it. */
copse_status copse__layout_settle(struct copse_step_recording *r);
void copse__layout_fini(copse_trainer *t, struct copse_layout *l);

/* updates.c */
/* Place what the recording's updates assign; the first recording makes the layout's list, the others must have the
   same. */
copse_status copse__updates_place(struct copse_step_recording *r);
/* Which crossing brings an update's value. */
void copse__updates_cross(struct copse_step_recording *r, const copse_tensor *y, uint32_t crossing);
void copse__updates_fini(copse_trainer *t, struct copse_layout *l);

/* split.c */
copse_status copse__split_init(copse_trainer *t, const struct copse_trainer_params *params);
/* Who gets what of a batch; `may_measure`: measure first where that is asked for, else even shares. */
copse_status copse__split(copse_trainer *t, const struct copse_host_batch *batch,
                          bool may_measure, struct copse_shard *out);

/* loop.c: nothing to make where the strategy is no accelerator */
copse_status copse__infeed_init(copse_trainer *t);
/* copse_trainer_run that says how many batches it has done. */
copse_status copse__trainer_run(copse_trainer *t, uint32_t *done);
void copse__infeed_fini(copse_trainer *t);

/* ahead.c: the same for strategies that train step by step; nothing to make without prefetch */
copse_status copse__ahead_init(copse_trainer *t);
void copse__ahead_fini(copse_trainer *t);
copse_status copse__ahead_feed(copse_trainer *t, const struct copse_host_batch *batch);

/* step_slots.c */
copse_status copse__slots_make(copse_trainer *t);
/* `is_idle`: no read of a device can still land in them. */
void copse__slots_free(copse_trainer *t, bool is_idle);
/* Of what a worker sends to the others; where it is kept in a slot. */
size_t copse__slot_message_bytes(const copse_trainer *t, const struct copse_step_slot *slot, uint32_t worker);
unsigned char *copse__slot_message(const copse_trainer *t, const struct copse_step_slot *slot, uint32_t worker);
/* A buffer of a replica, filled with zeros. */
copse_status copse__trainer_buffer(copse_trainer *t, uint32_t r, size_t bytes, copse_buffer **out);

/* Forget gradients that are gathered for an update. */
void copse__gathered_drop(copse_trainer *t);

/* result.c: combine what the replicas reported. */
copse_status copse__slot_wait(copse_trainer *t, const struct copse_step_slot *slot,
                              bool wait);
void copse__slot_result(const copse_trainer *t, const struct copse_step_slot *slot,
                        struct copse_step_result *out);
/* Value `i` of a result (0: the loss, then the reports) is a sum over examples; else it is a mean. */
bool copse__value_is_sum(const copse_trainer *t, uint32_t i);
/* copse_trainer_replica_result of a rank of any worker. */
copse_status copse__rank_result(copse_trainer *t, uint32_t rank, struct copse_replica_result *out);
static inline struct copse_step_slot *copse__slot_of(copse_trainer *t, uint64_t step)
{
    return &t->slots[step % t->ring];
}
/* Value `i` of a row of a slot, [part][replica] of this worker; 0 is the loss. */
float copse__slot_value(const struct copse_step_slot *slot, size_t row, uint32_t i);

/* worker_votes.c and worker_results.c; nothing to do where there are no other workers */
copse_status copse__workers_agree(copse_trainer *t); /* all have the same settings */
/* This worker cannot take part in the step: the others fail with it, and nothing is changed. */
copse_status copse__workers_refuse(copse_trainer *t, copse_status why);
/* Returns `why`. Where it comes of a device of this worker, or an update was cut short, this worker cannot go on: the
   others are told, and do not wait for it. */
copse_status copse__workers_report(copse_trainer *t, copse_status why);
/* How many collectives have begun; 0 without other workers. */
uint64_t copse__workers_sequence(const copse_trainer *t);
/* What has failed since then changed nothing on any worker: one of them refused it, or no other has heard of it. */
bool copse__workers_are_whole(const copse_trainer *t, uint64_t since);
/* Both return `why`, a failure since then. If no vote has reported it, the others are notified now: this worker cannot
   continue; or, by `notify` and before the first barrier of a step, it refuses the step. */
copse_status copse__workers_abort(copse_trainer *t, uint64_t since, copse_status why);
copse_status copse__workers_notify(copse_trainer *t, uint64_t since, copse_status why);
/* The step's collectives say which step and batch they belong to. */
void copse__workers_label(copse_trainer *t, uint64_t step, const struct copse_host_batch *batch);
/* This worker's results to the others, once they are there; and theirs. COPSE_ERR_TIMEOUT when not
   all have come and nobody is to wait. */
copse_status copse__worker_results_send(copse_trainer *t, struct copse_step_slot *slot);
copse_status copse__worker_results_receive(copse_trainer *t, struct copse_step_slot *slot, bool wait);
/* Value of a row of a slot, [part][replica of any worker]; 0 is the loss. */
float copse__rank_value(const copse_trainer *t, const struct copse_step_slot *slot, size_t row,
                          uint32_t index);

#endif
