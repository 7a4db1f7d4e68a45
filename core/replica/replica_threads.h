/* SPDX-License-Identifier: MIT */
/* A function on every replica, strictly one after the other up to the next merge call. A replica
   runs on the caller's thread; when it waits in a merge call there, the replicas after it run on
   threads of the strategy. The threads know no values: `call` and `merge` of the run treat arguments
   and results. */
#ifndef COPSE_REPLICA_THREADS_H
#define COPSE_REPLICA_THREADS_H

#include "core/base/platform.h"
#include "core/replica/replica_context.h"

/* What a replica waits in. All replicas must wait in the same: equal `what`, `subject` and
   `count`. */
struct copse_merge {
    const char *what;    /* "a merge call", "an assignment" */
    const void *subject; /* such as the variable, or NULL */
    copse_merge_fn *fn;
    void *user;
    copse_value *const *args;
    size_t count;
    copse_value *result;
};

struct copse_run_replica {
    struct copse_frame frame;
    struct copse_run *run;
    struct copse_merge *merge;           /* what it waits in, NULL while it runs */
    struct copse_replica_thread *thread; /* NULL: not started, or on the caller's thread */
    uint32_t merges;                     /* so far */
    bool is_done;
};

struct copse_run {
    copse_strategy *strategy;
    /* The function of a replica. */
    copse_status (*call)(struct copse_run *run, uint32_t rank);
    /* All replicas wait in the same merge call: make it, and set their results. On the caller's
       thread. */
    copse_status (*merge)(struct copse_run *run);
    struct copse_frame *caller;
    struct copse_callback *callbacks; /* of the caller's thread */
    struct {
        copse_variable **at;
        size_t count, room;
    } created;     /* by replica 0, in this order */
    uint32_t here; /* the replica that runs on the caller's thread, or UINT32_MAX */
    bool has_lock; /* the first thread was needed: `lock` and `turn_cond` are made */
    copse_mutex lock;
    copse_cond turn_cond; /* signaled when `turn` changes */
    uint32_t turn;        /* which thread runs: a rank, or UINT32_MAX for the caller */
    copse_status status;  /* the first error, which ends all replicas, and its text */
    char text[COPSE_ERROR_BYTES];
    struct copse_run_replica replicas[COPSE_MAX_REPLICAS];
};

/* Run `call` on all replicas. Without merge calls, and with one replica, there is no thread. */
copse_status copse__run_replicas(struct copse_run *run);
/* Of several replicas, one waits in a merge call until all do and `merge` has returned. */
copse_status copse__run_wait(struct copse_run *run, uint32_t rank, struct copse_merge *m);

/* Ends the idle threads of a strategy, all that it has when it is released. */
void copse__replica_threads_end(copse_strategy *st);

#endif
