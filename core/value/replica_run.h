/* SPDX-License-Identifier: MIT */
/* Runs and merge calls with values from the inside. */
#ifndef COPSE_RUN_H
#define COPSE_RUN_H

#include "core/replica/replica_threads.h"
#include "core/value/value.h"

/* `args` is a list of at most COPSE_MAX_ARGUMENTS. */
copse_status copse__check_arguments(const char *what, copse_value *const *args, size_t count);
/* copse_merge_call for functions of the library. */
copse_status copse__merge_call(copse_replica_context *rc, struct copse_merge *m);

/* Assign a per-replica value, in the cross-replica context: to a replica-local variable each
   component, to any other one the components by its aggregation. (assign.c) */
copse_status copse__variable_assign_each(copse_variable *v, copse_value *each);

/* ---- reductions from the inside ---- */

/* Reduce to host memory with the strategy's operations, in any context (strategy_values.c). */
copse_status copse__strategy_reduce_to_host(copse_strategy *st, copse_reduce_op op,
                                            copse_value *value, copse_value **out);
/* What a variable's replicas give or hold, a per-replica value, by its aggregation, over all
   workers. `mine`: why this worker has none, or COPSE_OK; all workers return it. (aggregate.c) */
copse_status copse__variable_aggregate(copse_variable *v, copse_value *value, copse_status mine,
                                       copse_value **out);
/* copse_strategy_reduce along an axis (reduce_axis.c). */
copse_status copse__reduce_axis(copse_strategy *st, copse_reduce_op op, copse_value *value,
                                int axis, copse_value **out);

#endif
