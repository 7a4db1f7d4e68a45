/* SPDX-License-Identifier: MIT */
/* A trainer from the inside: objects that know nothing of it, each with a header of its own, and
   what its steps do with them. */
#ifndef COPSE_CORE_TRAINER_H
#define COPSE_CORE_TRAINER_H

#include "copse/train/hash.h"
#include "core/device/digest.h"
#include "core/optim/average.h"
#include "core/replica/replica_context.h"
#include "core/state/weights.h"
#include "core/train/feed.h"
#include "core/train/micro_batch.h"
#include "core/train/predictor.h"
#include "core/train/result/workers.h"

/* What copse_trainer_hash uses; zero until it is called (trainer_hash.c). */
struct copse_hashes {
    copse_variable **variables;
    struct copse_variable_hash *results;
    size_t count;
    struct copse_digests digests; /* of replica 0, a range for each variable */
    uint64_t launches_of;         /* the step whose launches are hashed; 0: none */
    copse_launch_hash_fn *launch;
    void *launch_user;
};
/* Hash the launches of the programs of all replicas, NULL: none. */
copse_status copse__hashes_launch(const struct copse_hashes *h, copse_strategy *st,
                                  struct copse_program *const *programs);
void copse__hashes_free(struct copse_hashes *h, struct copse_mem *mem, bool is_idle);

struct copse_trainer {
    copse_strategy *strategy;
    struct copse_trainer_params params; /* without what the caller may free: variables, shares */
    struct copse_optimizer *optimizer;  /* of what it trains */
    struct copse_trained trained;
    struct copse_step_recordings recordings;
    struct copse_split split;
    struct copse_feed feed;
    struct copse_accumulation accumulation;
    struct copse_step_words words;
    struct copse_verifier verifier;
    struct copse_step_ring ring;
    struct copse_train_workers workers;
    struct {
        struct copse_predictor predictor; /* zero until the first prediction */
        struct copse_weights weights;     /* names of the newest report */
        struct copse_average average;
        struct copse_hashes hashes;
    } uses;                     /* of the variables besides training */
    uint64_t step;              /* updates begun */
    struct copse_position next; /* in the data, after the newest batch */
    struct {
        uint64_t next;                 /* the step before which budgets are looked at */
        uint32_t every;                /* steps between two looks */
    } budget;                          /* of device memory (trainer_trim.c) */
    struct copse_advancing *advancing; /* steps in slices (trainer_advance.c); NULL: none yet */
    bool is_failed; /* an update was cut short: the parameters are not to be used */
    atomic_bool is_cancelled;
};

static inline bool copse__trainer_watches(const copse_trainer *t)
{
    return t->params.check_gradients || t->params.summarize_gradients;
}

/* A step, evaluation, feed or run begins. The recordings that it asks for, and those of batches that
   are fed, stay until the next of these calls. */
static inline void copse__recordings_begin(copse_trainer *t)
{
    t->recordings.use++;
    copse__batch_slots_keep(&t->feed.slots, t->recordings.use);
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

/* ---- trainer_average.c ---- */

/* The variables have their averages: no step, checkpoint or change. */
copse_status copse__average_refuse(const copse_trainer *t);

/* ---- trainer_advance.c ---- */

/* Finish the step that is begun in slices, and free its memory. */
void copse__advancing_free(copse_trainer *t);

/* ---- trainer_take.c ---- */

/* Check a batch, fill its shards and recordings. `is_next`: for the step that comes next, for which
   the variables are brought up to date; else it involves no other worker and no step under way. */
copse_status copse__trainer_take(copse_trainer *t, const struct copse_host_batch *batch,
                                 enum copse_pass pass, bool is_next, struct copse_shards *s);

/* ---- trainer_audit.c ---- */

/* Wait for the step of the audit that is under way: it is compared. */
copse_status copse__audit_settle(copse_trainer *t);

/* ---- trainer_trim.c ---- */

/* Between steps, in few of them: if a device is over its budget, give back what the newest step does
   not need. */
copse_status copse__trainer_keep_budget(copse_trainer *t);

/* ---- trainer_result.c ---- */

/* Take results until there is a slot for step number `step`. */
copse_status copse__trainer_make_room(copse_trainer *t, uint64_t step);

#endif
