/* SPDX-License-Identifier: MIT */
/* Steps from the inside. */
#ifndef COPSE_CORE_STEP_H
#define COPSE_CORE_STEP_H

#include "copse/compat/single_loss.h"
#include "copse/loop/step.h"
#include "core/base/base.h"
#include "core/replica/replica_context.h"

/* A batch that was taken ahead of its iteration. */
struct copse_held {
    struct copse_position before; /* of the walk, when it was taken */
    struct copse_position at;     /* its own */
};

/* A walk over a dataset, epoch by epoch. */
struct copse_input_walk {
    copse_loader *batches; /* NULL: the step has no input */
    uint32_t epochs;
    bool is_uneven; /* the last batch of an epoch is smaller than the others */
    /* oldest first; the position does not count them yet */
    struct {
        struct copse_held *at;
        size_t count, room;
    } held;
};

struct copse_step {
    copse_refs refs;
    copse_context *ctx;
    copse_strategy *strategy; /* may be NULL */
    struct copse_step_functions f;
    void *user;
    struct copse_input_walk input;
    copse_outputs *outputs; /* what iterations set: the step's context */
    bool is_single_loss;    /* `user` is single_loss.c's own */
};

/* Take another strategy, retained, and an empty table of outputs for its replicas. */
copse_status copse__step_set_strategy(copse_step *step, copse_strategy *st);
/* Take a batch ahead of its iteration: until it is let go, the walk's position is before it, and a
   seek or copse_step_next reads it again. */
copse_status copse__step_hold(copse_step *step, struct copse_host_batch *out);
/* The iterations of the oldest `count` are done. */
void copse__step_let_go(copse_step *step, size_t count);
/* Give the newest back: the walk reads it again. */
copse_status copse__step_put_back(copse_step *step);
/* Make its walk over the dataset. */
copse_status copse__step_open_input(copse_step *step, const struct copse_input_params *p);

#endif
