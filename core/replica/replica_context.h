/* SPDX-License-Identifier: MIT */
/* Where the calling thread is: a stack of frames per thread, each in the block of the call that
   pushed it. See include/copse/distribute/replica.h for what each place means. */
#ifndef COPSE_CORE_CONTEXT_H
#define COPSE_CORE_CONTEXT_H

#include "copse/distribute/replica.h"
#include "core/replica/strategy.h"

struct copse_run;

struct copse_frame {
    /* of a replica's own thread: the innermost frame of the thread that called the run */
    struct copse_frame *outer;
    copse_strategy *strategy; /* valid as long as the frame exists */
    struct copse_run *run;    /* the run that a replica or merge function belongs to, or NULL */
    uintptr_t handle;         /* of a replica context; 0 = cross-replica context */
    uint32_t rank;            /* of a replica */
    uint32_t update_rank;     /* of an update function, else COPSE_HOST */
    uint32_t created;         /* variables that the replica asked for */
    uint64_t failures;        /* of the thread before the function that runs in it */
    uint32_t scopes;          /* entered and not left while this is the innermost frame */
    bool is_graph;            /* a loss function builds the replica's graph, */
    bool is_mean;             /* and gives a mean over its examples */
    bool is_partial;          /* the update does not run for every replica of this worker */
};

/* The innermost frame, NULL outside of everything. */
struct copse_frame *copse__context_top(void);
/* Enter a replica context; handles are never given twice. */
void copse__context_push_replica(struct copse_frame *f, copse_strategy *st, uint32_t rank);
/* Enter a cross-replica context, for an update function with its rank. */
void copse__context_push_cross(struct copse_frame *f, copse_strategy *st, uint32_t update_rank);
/* Leave; whatever a function pushed and left there goes with it. COPSE_ERR_CONTEXT when the
   function that returned `s` left scopes open; else `s`, with a text. */
copse_status copse__context_pop(struct copse_frame *f, copse_status s);

/* COPSE_ERR_CONTEXT unless the thread is in the cross-replica context of `st` or outside of
   everything; `what` begins the text. */
copse_status copse__require_cross(copse_strategy *st, const char *what);
/* COPSE_ERR_CONTEXT if copse__callback_check refuses `call`, or if the thread is in a replica: the
   call works on all replicas of its object. `object` may be NULL. */
copse_status copse__require_no_replica(const char *call, const void *object);
/* COPSE_ERR_UNSUPPORTED for the default strategy, which has no device; `what` begins the text. */
copse_status copse__require_device(const copse_strategy *st, const char *what);
/* Where the thread is, in words, such as "in replica 1 of the mirrored strategy"; valid until its
   next call. */
const char *copse__context_place(void);

#endif
