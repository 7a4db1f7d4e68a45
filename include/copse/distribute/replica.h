/* SPDX-License-Identifier: MIT */
/** @file Contexts: a thread is always either in a *replica context* (it runs one of N copies of a
 * function, and reads and writes the components of one replica) or in a *cross-replica context* (it
 * sees the values of all replicas). Outside of all scopes and runs a thread is in the replica
 * context of the default strategy, which has one replica, number 0 of 1.
 *
 * | where                                  | current_replica | current_cross_replica | current_strategy | has_strategy |
 * |----------------------------------------|-----------------|-----------------------|------------------|--------------|
 * | start of a thread                      | default's       | NULL                  | default          | false        |
 * | in the scope of S                      | NULL            | S                     | S                | true         |
 * | in the function of copse_strategy_run  | one of S        | NULL                  | S                | true         |
 * | in a merge or update function          | NULL            | S                     | S                | true         |
 * | in a merge function of the default     | NULL            | default               | default          | false        |
 *
 * Wrong contexts are COPSE_ERR_CONTEXT, and leave the thread where it was. Functions marked [C]
 * need the cross-replica context of their strategy, or the untouched default context. The model is
 * that of tf.distribute; docs/from-tf-distribute.md maps the names.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_REPLICA_H
#define COPSE_PUBLIC_DISTRIBUTE_REPLICA_H

#include "copse/distribute/cross_device.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** A replica's place in one call of copse_strategy_run; a handle, which is safe to keep: after the
    call it is refused. */
typedef struct copse_replica_context copse_replica_context;

/** Most arguments of a function that is run, merged or called for updates; lists hold more. */
#define COPSE_MAX_ARGUMENTS 32

/* ---- where am I? Thread-safety: any; the answers are the calling thread's ---- */

/** The strategy; outside every scope the default one. Never NULL. */
COPSE_API copse_strategy *copse_current_strategy(void);
/** Whether that is not the default one. */
COPSE_API bool copse_has_strategy(void);
/** The replica context, or NULL in a cross-replica context. */
COPSE_API copse_replica_context *copse_current_replica(void);
/** The strategy in whose cross-replica context the thread is, or NULL. */
COPSE_API copse_strategy *copse_current_cross_replica(void);
/** @retval COPSE_ERR_CONTEXT  `rc` is not the current replica context. Three texts: the thread is
                               in no
    replica context; in another one of the same strategy; in one of another strategy. */
COPSE_API COPSE_CHECKED copse_status copse_require_replica(const copse_replica_context *rc);

/* ---- scope ---- */

/**
 * Enter the cross-replica context of a strategy; variables made inside belong to it. Entering the
 * current strategy again from its cross-replica context only counts.
 * The default strategy's scope changes nothing and cannot be opened twice.
 * @retval COPSE_ERR_CONTEXT  Another strategy's scope is open, or the thread is in a replica.
 * Lifetime: retains the strategy until the matching leave.
 */
COPSE_API COPSE_CHECKED copse_status copse_scope_enter(copse_strategy *st);
/** Leave it. @retval COPSE_ERR_CONTEXT It is not the innermost scope. */
COPSE_API COPSE_CHECKED copse_status copse_scope_leave(copse_strategy *st);

/* ---- a replica: known in its function and in merge functions; elsewhere UINT32_MAX, 0, NULL and
   "" ---- */

/** Number among the replicas in sync, those of all workers: 0 .. count-1. Less
    copse_strategy_first_rank, it is the rank by which this worker names components and
    destinations. */
COPSE_API uint32_t copse_replica_id(const copse_replica_context *rc);
COPSE_API uint32_t copse_replica_count(const copse_replica_context *rc); /**< replicas in sync */
COPSE_API copse_strategy *copse_replica_strategy(const copse_replica_context *rc); /**< borrowed */
/** Device id of the replica, such as "vulkan:0"; "host" for the default strategy. */
COPSE_API const char *copse_replica_device(const copse_replica_context *rc);

/**
 * A function run once per replica. Distributed arguments are given as this replica's component,
 * variables as themselves, everything else unchanged.
 * @param result  Receives one reference, or NULL for nothing.
 */
typedef copse_status copse_replica_fn(copse_replica_context *rc, copse_value *const *args,
                                      size_t count, void *user, copse_value **result);

/**
 * Run a function on every replica. The replicas run one after the other in rank order, each up to
 * its next merge call, so that side effects have one order. Legal in the
 * scope of `st`, in a merge function, and outside every scope (the scope is then entered for the
 * call). Results are regrouped: lists and dictionaries item by item; where all replicas return the
 * same value, that value; the components of one variable become the variable; else a per-replica
 * value. With one replica results stay plain.
 *
 * @param args    NULL when `count` is 0; an entry may be NULL.
 * @param result  Receives one reference, or NULL where replicas return nothing; NULL = not wanted.
 * @retval COPSE_ERR_CONTEXT  Called in a replica, or in another strategy's scope; or replicas made
 *                            different numbers of merge calls (the text says which); or a merge or
 *                            update function returned without leaving a scope that it entered,
 *                            which is left for it.
 * @retval COPSE_ERR_SHAPE    Replicas returned different structures; the text says where.
 * @retval COPSE_ERR_ARGUMENT An argument has a per-replica value with another number of components
 *                            than there are replicas: nothing was run.
 * The first error of a replica or merge function ends all replicas and is returned with its text;
 * those that wait in a merge call get it there. With several workers all of them make the same runs
 * in the same order, also those that reduce nothing; the replicas of other workers that wait for
 * this one get its status and text there, and the next run works on all (docs/cluster.md).
 * Threads: the function and merge functions run on the calling thread; once a replica waits in a
 * merge call there, the replicas after it run on threads that the strategy keeps until it is
 * released. Blocking: until all replicas have returned, however long their functions take; replicas
 * must wait for each other in merge calls alone.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_run(copse_strategy *st, copse_replica_fn *fn,
                                                        copse_value *const *args, size_t count,
                                                        void *user, copse_value **result);

/** A function that sees all replicas. Arguments are regrouped as results are. */
typedef copse_status copse_merge_fn(copse_strategy *st, copse_value *const *args, size_t count,
                                    void *user, copse_value **result);
/**
 * Meet the other replicas: when all have called, the merge function that replica 0 gave runs once,
 * in the cross-replica context (those of the others are not called); its result is split again, a
 * component for each. `args` and `result` as for copse_strategy_run.
 * @retval COPSE_ERR_CONTEXT      `rc` is not the current replica context.
 * @retval COPSE_ERR_UNSUPPORTED  Inside a loss function, where a graph is built: the text names the
 *                                replica and what to use instead (copse_all_reduce).
 */
COPSE_API COPSE_CHECKED copse_status copse_merge_call(copse_replica_context *rc, copse_merge_fn *fn,
                                                      copse_value *const *args, size_t count,
                                                      void *user, copse_value **result);
/** Reduce a structure over the replicas of all workers and give every replica the result: a merge
    call and a batch reduction. */
COPSE_API COPSE_CHECKED copse_status copse_replica_all_reduce(copse_replica_context *rc,
                                                              copse_reduce_op op,
                                                              copse_value *value,
                                                              copse_value **result);

/* ---- the contract of a strategy ---- */

/** [C] Reduce and copy the result to the host (or to the device of a single value). With several
 * workers see copse_cross_reduce: all call it, and all get the result.
 * @param axis  NULL: across replicas only; shapes must match. Else first along this axis (negative
 *              counts from the end) inside each component, then across; MEAN divides by the sum of
 *              the axis' lengths, so that partial batches weigh what they hold, and is f32. i32:
 *              distribute/cross_device.h has the rule.
 * @retval COPSE_ERR_ARGUMENT  Unknown operation, axis out of range, no element in all.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_reduce(copse_strategy *st, copse_reduce_op op,
                                                           copse_value *value, const int *axis,
                                                           copse_value **out);
/** [C] copse_cross_reduce with the strategy's own operations. */
COPSE_API COPSE_CHECKED copse_status copse_strategy_reduce_to(copse_strategy *st,
                                                              copse_reduce_op op,
                                                              copse_value *value,
                                                              const struct copse_destinations *to,
                                                              copse_value **out);
/** [C] The same for several. */
COPSE_API COPSE_CHECKED copse_status copse_strategy_batch_reduce_to(
    copse_strategy *st, copse_reduce_op op, copse_value *const *values,
    const struct copse_destinations *to, size_t count, copse_value **out);
/**
 * [C] Use these cross-device operations from now on, for values, reads of replica-local variables,
 * and the sums of training (distribute/cross_device.h); NULL = the library's choice. Retained. All
 * workers of a job set operations of one kind.
 * @retval COPSE_ERR_UNSUPPORTED  The default strategy; or the strategy has a trainer or a tower
 *                                optimizer, and other operations than `x`: set them first.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_set_cross_device(copse_strategy *st,
                                                                     copse_cross_device *x);
/** [C] Copy a plain value to replicas, default all; each worker gives its own value to its own
    replicas. */
COPSE_API COPSE_CHECKED copse_status copse_strategy_broadcast(copse_strategy *st,
                                                              copse_value *value,
                                                              const struct copse_destinations *to,
                                                              copse_value **out);

/**
 * Split the rows of a batch: each replica of this worker gets as many, in order, as a per-replica
 * value on its device. For the arguments of copse_strategy_run and copse_strategy_map.
 * @param rows  A structure of arrays [n, ...], where the replicas divide n, and of sparse values,
 *              of whose rows the first replicas get one more each.
 * @param out   The same structure of per-replica values; with one replica `rows` itself.
 * @retval COPSE_ERR_ARGUMENT  Rows do not divide evenly, a scalar, or another kind of value.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_split(copse_strategy *st, copse_value *rows,
                                                          copse_value **out);

/** A function run for one component of a variable (or one device), in rank order, in the
    cross-replica context, with that component's rank as the update device. `target` is the
    component as a value; distributed arguments are given as that rank's component. */
typedef copse_status copse_update_fn(copse_strategy *st, copse_value *target,
                                     copse_value *const *args, size_t count, void *user,
                                     copse_value **result);
/**
 * [C] Run `fn` once per component of a variable.
 * @param result  Receives the regrouped results; NULL = not wanted.
 * @retval COPSE_ERR_ARGUMENT  An argument is a per-replica value: only plain and mirrored ones may
 *                             be given; or the variable belongs to another strategy.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_update(copse_strategy *st, copse_variable *v,
                                                           copse_update_fn *fn,
                                                           copse_value *const *args, size_t count,
                                                           void *user, copse_value **result);
/**
 * [C] Run `fn` once for each of the given ranks; `target` is NULL there. Where they are not all
 * ranks, it may change replica-local variables and no mirrored ones (COPSE_ERR_CONTEXT), whose
 * components would become unequal. That `fn` gives every component the same value, here and in
 * copse_strategy_update, is for the application to see to; and where it fails, components of
 * earlier ranks stay changed.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_update_non_slot(
    copse_strategy *st, const uint32_t *ranks, size_t rank_count, copse_update_fn *fn,
    copse_value *const *args, size_t count, void *user, copse_value **result);
/** Rank that an update function runs for, COPSE_HOST outside of one. The calling thread's. */
COPSE_API uint32_t copse_current_update_rank(void);

/* ---- variables in contexts; see strategy.h for synchronization and aggregation ---- */

/**
 * Read a variable: in a replica its component; in an update function that rank's; in a
 * cross-replica context a mirrored variable's first component, a replica-local variable's
 * components aggregated. While steps are under way it reads what they leave. Reading a
 * replica-local variable in a cross-replica context aggregates the components of all workers, which
 * must all read it.
 * @retval COPSE_ERR_CONTEXT   The thread is in a context of another strategy.
 * @retval COPSE_ERR_COMM      A worker was lost.
 * @retval COPSE_ERR_ARGUMENT  A replica-local variable has no aggregation, or the MEAN of integers
 *                             that differ; or a worker does something else.
 */
COPSE_API COPSE_CHECKED copse_status copse_read(copse_variable *v, copse_value **out);
/**
 * Assign, add, subtract; i32 wraps around.
 *
 * In an update function: that rank's component only. In a cross-replica context: a plain or
 * mirrored value on every component; a replica-local SUM variable gets value/N in each (integers:
 * the remainder goes to the first ones, so that the sum is exact), and refuses add and sub. In a
 * replica: a replica-local variable's own component; a mirrored variable meets the other replicas,
 * which must all make the same call, reduces their values by its aggregation and changes every
 * component.
 *
 * With several workers N counts the replicas of all, a cross-replica assignment changes this
 * worker's components (all workers give the same value), and what replicas give to a mirrored
 * variable is reduced over all workers, which must all make the call. An array that all of a
 * worker's replicas share is the value of each of them.
 *
 * Blocking: may wait for devices, with a deadline. When a device fails on the way, components may
 * differ.
 * @retval COPSE_ERR_ARGUMENT  No aggregation where one is needed; SUM of one identical value over
 *                             several replicas; MEAN of integers that differ; a worker that does
 *                             something else.
 * @retval COPSE_ERR_SHAPE     Shape or type differ from the variable's.
 * @retval COPSE_ERR_CONTEXT   The thread is in a context of another strategy than the variable's,
 *                             or the replicas do not make the same calls.
 * @retval COPSE_ERR_UNSUPPORTED  Inside a loss function, where a graph is built.
 * @retval COPSE_ERR_COMM      A worker was lost.
 */
COPSE_API COPSE_CHECKED copse_status copse_assign(copse_variable *v, copse_value *value);
COPSE_API COPSE_CHECKED copse_status copse_assign_add(copse_variable *v, copse_value *value);
COPSE_API COPSE_CHECKED copse_status copse_assign_sub(copse_variable *v, copse_value *value);
/**
 * Change rows of an f32 variable by the slices of a sparse value (copse_value_sparse) whose dense
 * shape is the variable's: add them, subtract them, set the rows to them, multiply or divide by
 * them, or take the smaller or the larger of each element and the slice's. Slices of one row are
 * taken in their order, each on what the one before has left: they add up, and of those that are
 * set the last one stays. Division by 0 gives what IEEE 754 says; with min and max an element
 * changes only where the slice's is smaller or larger, so that a NaN never replaces a number, nor a
 * number a NaN.
 *
 * Contexts are those of copse_assign_add. In a replica a mirrored variable meets the others: with
 * SUM and MEAN the slices of all replicas are reduced as sparse values, rows stay sparse, and a
 * replica without a slice of a row adds nothing to it. There all but copse_scatter_add and
 * copse_scatter_sub are the first replica's alone, and need COPSE_AGGREGATION_ONLY_FIRST_REPLICA: a
 * sum of slices is nothing to set, multiply or compare with. Components pass through host memory. A
 * variable with a parameter server is changed there, in one request: nothing of another worker's
 * comes in between.
 *
 * @retval COPSE_ERR_ARGUMENT     Not a sparse value; and as copse_assign_add.
 * @retval COPSE_ERR_SHAPE        The dense shape or the type is not the variable's.
 * @retval COPSE_ERR_CONTEXT      As copse_assign.
 * @retval COPSE_ERR_UNSUPPORTED  Replicas set, multiply, divide or compare rows of a mirrored
 *                                variable with SUM or MEAN; or inside a loss function.
 * Blocking: as copse_assign.
 */
COPSE_API COPSE_CHECKED copse_status copse_scatter_add(copse_variable *v, copse_value *slices);
COPSE_API COPSE_CHECKED copse_status copse_scatter_sub(copse_variable *v, copse_value *slices);
COPSE_API COPSE_CHECKED copse_status copse_scatter_update(copse_variable *v, copse_value *slices);
COPSE_API COPSE_CHECKED copse_status copse_scatter_mul(copse_variable *v, copse_value *slices);
COPSE_API COPSE_CHECKED copse_status copse_scatter_div(copse_variable *v, copse_value *slices);
COPSE_API COPSE_CHECKED copse_status copse_scatter_min(copse_variable *v, copse_value *slices);
COPSE_API COPSE_CHECKED copse_status copse_scatter_max(copse_variable *v, copse_value *slices);
/** A variable as a value, to be given to functions and returned from them. */
COPSE_API COPSE_CHECKED copse_status copse_variable_value(copse_variable *v, copse_value **out);

/** Name of a component: the variable's on replica 0, with "/replica_<r>" behind it on replica r.
 * @param text  Room for `room` bytes; cut and terminated. */
COPSE_API void copse_variable_component_name(const copse_variable *v, uint32_t replica, char *text,
                                             size_t room);

#if defined(__cplusplus)
}
#endif
#endif
