/* SPDX-License-Identifier: MIT */
/* One call of copse_strategy_run, and the meetings of its replicas. */
#ifndef COPSE_RUN_H
#define COPSE_RUN_H

#include "core/base/platform.h"
#include "core/replica/context.h"
#include "core/replica/value.h"

/* What a replica waits for in a merge call. All replicas must wait for the same `what` and `subject`. */
struct copse_meeting {
    const char *what;    /* "a merge call", "an assignment" */
    const void *subject; /* such as the variable, or NULL */
    copse_merge_fn *fn;
    void *user;
    copse_value *const *args;
    size_t count;
    copse_value *result;
};

/* `args` is a list of at most COPSE_MAX_ARGUMENTS. */
copse_status copse__check_arguments(const char *what, copse_value *const *args, size_t count);
/* Meet as copse_merge_call does, for calls of the library's own. */
copse_status copse__meet(copse_replica_context *rc, struct copse_meeting *m);

/* The frame of the replica of a run that has this handle, or NULL. */
const struct copse_frame *copse__run_frame(const struct copse_run *run, uintptr_t handle);

/* A replica asks for its next variable: replica 0 has made it before, and `*out` receives it; NULL for
   replica 0 itself, which makes it and tells with copse__run_created. COPSE_ERR_CONTEXT when the replicas
   ask for different ones. */
copse_status copse__run_variable(struct copse_frame *f, const char *name, copse_variable **out);
copse_status copse__run_created(struct copse_frame *f, copse_variable *v);

/* ---- the contract from the inside ---- */

/* copse_cross_reduce with the strategy's operations, in any context. */
copse_status copse__strategy_cross(copse_strategy *st, copse_reduce_op op, copse_value *value,
                                   const struct copse_destinations *to, copse_value **out);
/* What a variable's replicas give or hold, a per-replica value, by its aggregation, over all workers. `mine`: why
   this worker has none, or COPSE_OK; the others are told. (aggregate.c) */
copse_status copse__variable_aggregate(copse_variable *v, copse_value *value, copse_status mine,
                                       copse_value **out);
/* copse_strategy_reduce along an axis (axis.c). */
copse_status copse__reduce_axis(copse_strategy *st, copse_reduce_op op, copse_value *value, int axis,
                                copse_value **out);

#endif
