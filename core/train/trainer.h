/* SPDX-License-Identifier: MIT */
/* A trainer from the inside. Each of its parts is a struct, with a file that works on it. */
#ifndef COPSE_CORE_TRAINER_H
#define COPSE_CORE_TRAINER_H

#include "copse/compat/gradients.h"
#include "core/optim/average.h"
#include "core/replica/replica_context.h"
#include "core/state/weights.h"
#include "core/train/feed.h"
#include "core/train/predictor.h"
#include "core/train/result/step_slots.h"
#include "core/train/verify/verifier.h"

/* The variables that it trains, in order of creation. */
struct copse_trained {
    copse_variable **at;
    size_t count;
    bool is_listed; /* the application named them: the loss must depend on one */
};

/* Values that a recording leaves on its device: the loss, and what the loss function reports. */
struct copse_reports {
    copse_buffer *buffers[COPSE_MAX_REPLICAS]; /* COPSE_REPORT_BYTES, of the newest step */
    const char *names[COPSE_MAX_REPORTS];
    bool is_loss[COPSE_MAX_REPORTS];
    uint32_t count;
    bool is_known; /* from the first recording on */
};

/* Scalars that a replica computes from its gradient of one variable, one COPSE_REPORT_STRIDE
   each. */
enum copse_watch {
    COPSE_WATCH_FINITE, /* 0, or NaN when an element is not finite */
    COPSE_WATCH_NORM,
    COPSE_WATCH_BINS, /* elements of a magnitude of at least 10^(COPSE_GRADIENT_LOW + i) */
    COPSE_WATCHES = COPSE_WATCH_BINS + COPSE_GRADIENT_BINS,
};

struct copse_watches {
    copse_buffer *buffers[COPSE_MAX_REPLICAS]; /* [trained][COPSE_WATCHES]; or NULL */
    unsigned char *values;                     /* [replicas] of the same, as read back */
    bool has[COPSE_MAX_REPLICAS];              /* the replica's shard was not empty */
    struct copse_verifier verifier;
};

/* Micro-batches whose gradients have been added and are not applied yet. */
struct copse_accumulation {
    uint32_t parts;        /* how many */
    size_t examples;       /* of all of them, */
    size_t first_examples; /* of the first */
};

struct copse_trainer {
    copse_strategy *strategy;
    struct copse_trainer_params params; /* without what the caller may free: variables, shards */
    struct copse_optimizer *optimizer;  /* of what it trains */
    /* of what the first recording makes known: names, outputs */
    struct copse_arena arena;
    struct copse_trained trained;
    struct copse_layout layouts[2]; /* evaluation, training */
    struct copse_trainer_recordings recordings;
    struct copse_reports reports;
    struct copse_loss_outputs outputs;
    struct copse_watches watches;
    struct copse_split split;
    struct copse_feed feed;
    struct {
        struct copse_predictor predictor; /* zero until the first prediction */
        struct copse_weights weights;     /* names of the newest report */
        struct copse_average average;
    } uses; /* of the variables besides training */
    struct copse_accumulation accumulation;
    struct copse_step_ring ring;
    uint64_t step;                    /* updates begun */
    struct copse_position next;       /* in the data, behind the newest batch */
    uint32_t words[COPSE_STEP_WORDS]; /* of the newest micro-batch */
    bool is_failed; /* an update was cut short: the parameters are not to be used */
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
    return t->ring.ready.at + (size_t)segment * t->strategy->replica_count;
}

/* A step, evaluation, feed or run begins. The recordings that it asks for stay until the next of
   these calls. */
static inline void copse__recordings_begin(copse_trainer *t)
{
    t->recordings.use++;
}

/* Bring the variables that are about to be read up to date. */
static inline copse_status copse__trainer_pull(copse_trainer *t, enum copse_pull when)
{
    return t->optimizer->table->pull(t->optimizer, when, 0);
}

/* ---- may it go on? (trainer_guard.c) ---- */

copse_status copse__trainer_check(copse_trainer *t);
bool copse__is_cancelled(copse_trainer *t);
/* A wait has ended with `s`, which is returned. One request cancels one step. */
copse_status copse__note_cancelled(copse_trainer *t, copse_status s);
/* Wait for a replica's ticket, or until the trainer is cancelled. */
copse_status copse__trainer_wait(copse_trainer *t, uint32_t r, uint64_t ticket);

/* ---- accumulation.c ---- */

/* No other trainer accumulates gradients of its variables. */
copse_status copse__accumulation_check(const copse_trainer *t);
/* A micro-batch of `examples` begins: it is among the examples, and not yet among the parts. */
void copse__accumulation_add(struct copse_accumulation *a, size_t examples);
/* It is queued: count it, or the update. */
void copse__accumulation_next(copse_trainer *t);
/* Forget the gradients that are accumulated. */
void copse__accumulation_drop(copse_trainer *t);

/* ---- trainer_average.c ---- */

/* The variables have their averages: no step, checkpoint or change. */
copse_status copse__average_refuse(const copse_trainer *t);

/* ---- step_words.c ---- */

/* The words of update number `step` that are the same on all replicas, for the micro-batch that was
   added last. For the first one of an update the schedule is asked. */
copse_status copse__words_begin(copse_trainer *t, bool is_training, uint64_t step,
                                const struct copse_accumulation *a, uint32_t epoch,
                                uint32_t *words);
/* Those of one replica's shard of a batch; `first_examples` as in the accumulation. */
void copse__words_shard(const copse_trainer *t, const struct copse_host_batch *batch,
                        const struct copse_shard *shard, size_t first_examples, uint32_t *words);
/* The scale of an update that ends with the micro-batches so far. */
void copse__words_scale(const copse_trainer *t, uint32_t *words);

/* ---- watches.c ---- */

copse_status copse__watches_make(copse_trainer *t);
/* Queue the read of what a replica has computed. */
copse_status copse__watches_read(copse_trainer *t, const struct copse_shards *s, uint32_t r);
/* Wait for all replicas, and fail where an element of a gradient is not finite. */
copse_status copse__watches_check(copse_trainer *t);

/* ---- trainer_audit.c ---- */

/* Open the verifier; the memory of the variables is known. */
copse_status copse__trainer_verify(copse_trainer *t);
/* Wait for the step of the audit that is under way: it is compared. */
copse_status copse__audit_settle(copse_trainer *t);

/* ---- several workers (worker_votes.c); nothing to do where there is one ---- */

/* All workers have the same settings. */
copse_status copse__workers_agree(copse_trainer *t);
/* This worker cannot take part in the step: the others fail with it, and nothing is changed. */
copse_status copse__workers_refuse(copse_trainer *t, copse_status why);
/* Returns `why`. Where a device of this worker has failed, or an update was cut short, notifies the
   others that this worker cannot go on. */
copse_status copse__workers_report(copse_trainer *t, copse_status why);
/* Returns `why`, a failure since then. Unless a worker refused, notifies the others that this
   worker cannot go on. */
copse_status copse__workers_abort(copse_trainer *t, uint64_t since, copse_status why);
/* The same; but where the step has not reached a barrier with the other workers, refuses it. */
copse_status copse__workers_notify(copse_trainer *t, uint64_t since, copse_status why);

#endif
