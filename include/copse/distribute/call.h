/* SPDX-License-Identifier: MIT */
/** @file
 * Calls: functions that compute on the devices of replicas, outside of a training step. A function
 * builds a graph from named inputs, as a loss function does; the graph is recorded once and replayed
 * by later calls. It may use every op, differentiate any scalar (copse_gradients), and assign to
 * variables (copse_update). Results are values on the device of the replica: a call queues work and
 * returns; only reading a value waits.
 *
 *     static copse_tensor *twice(copse_graph *g, const copse_batch *in, void *user)
 *     {
 *         return copse_add(g, copse_input(in, "0"), copse_input(in, "0"));
 *     }
 *     copse_strategy_map(st, twice, NULL, x, &y);      all replicas at once
 *
 * The model is tf.function within the functions of copse_strategy_run.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_CALL_H
#define COPSE_PUBLIC_DISTRIBUTE_CALL_H

#include "copse/batch.h"
#include "copse/distribute/replica.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * Builds what a replica computes. Called once for each replica, function, `user`, and names, types
 * and shapes of the inputs, and again after the recording was evicted (copse_call_params): every
 * call must build the same graph. `user` is a part of that key: what it points to is used while the
 * graph is built, and must not be another object at the same address later.
 * docs/callbacks.md lists the calls that it may make.
 *
 * `in->is_training` is false. To let a layer train, give copse_layer_apply a copy of `*in` in which
 * it is true; copse_input takes `in` itself.
 * @return The result; NULL where the function sets outputs by name (copse_output), or only assigns
 *         to variables.
 */
typedef copse_tensor *copse_call_fn(copse_graph *g, const copse_batch *in, void *user);

/**
 * In a function of a call: set an output. The result of the call is then a dictionary.
 * @param name  Unique in the function, copied. @param t  Of every type of tensors.
 * @retval COPSE_ERR_ARGUMENT     The name is empty or was set before, or there are COPSE_MAX_OUTPUTS.
 * @retval COPSE_ERR_UNSUPPORTED  The graph is not that of a call.
 */
COPSE_API void copse_output(copse_graph *g, const char *name, copse_tensor *t);

/**
 * Compute on one device: in a replica on its device, in an update function on the device of its
 * rank, elsewhere in a scope on the device of replica 0.
 *
 * @param args    NULL, or a structure of arrays and variables. The items of a dictionary are inputs
 *                of their names, the items of a list of their numbers ("0", "1", ...), a single
 *                value is the input "0"; names of nested structures are joined ("images.0").
 *                Distributed values give the component of the replica. A variable is an input that
 *                may be differentiated by, and updated.
 * @param result  Receives an array, a dictionary of arrays, or NULL where the function gave
 *                neither; NULL = not wanted.
 * @retval COPSE_ERR_CONTEXT      The thread is in no scope and in no replica.
 * @retval COPSE_ERR_ARGUMENT     An item is a sparse value or an object, belongs to another
 *                                strategy, or has several components and no replica chooses one;
 *                                more than COPSE_MAX_INPUTS items; no result and no update.
 * @retval COPSE_ERR_UNSUPPORTED  Called while a graph is built; or the function sums over replicas
 *                                (distribute/sync.h), which copse_strategy_map can.
 * @retval COPSE_ERR_UNRELIABLE   The first computation differs from the host (train/audit.h).
 * Updates are assigned after the computation, as by copse_assign in the context of the thread: in a
 * replica a mirrored variable meets the other replicas. An input on another device is read first,
 * which waits. Otherwise nothing waits.
 */
COPSE_API COPSE_CHECKED copse_status copse_call(copse_call_fn *fn, void *user, copse_value *args,
                                                copse_value **result);

/**
 * [C] Compute on every replica of this worker at once, without threads: each device gets its work
 * and one submission, and all compute at the same time. Arguments and errors are those of
 * copse_call. Results are regrouped as those of copse_strategy_run. Nothing is queued unless all
 * replicas have recorded the function. With several workers all of them make the same maps in the
 * same order; one that fails makes those that wait for its sums fail with its status and text.
 *
 * Updates: a replica-local variable takes each replica's own value, any other one the replicas'
 * values by its aggregation.
 */
COPSE_API COPSE_CHECKED copse_status copse_strategy_map(copse_strategy *st, copse_call_fn *fn,
                                                        void *user, copse_value *args,
                                                        copse_value **result);

/** Settings of the calls of a strategy. */
struct copse_call_params {
    uint64_t seed;       /**< of dropout; each call draws other numbers           [0] */
    uint32_t recordings; /**< kept for each replica; at least 1                   [0 = 32] */
    /** do not compare the first computation of a recording with the host (train/audit.h) */
    bool no_cross_check;
    uint64_t reserved[4]; /**< 0 */
};
/** Set them; the draws of dropout begin again. `params` NULL: the defaults. Releases the recordings
    of all calls; waits for their work. @retval COPSE_ERR_UNSUPPORTED The default strategy. */
COPSE_API COPSE_CHECKED copse_status copse_call_configure(copse_strategy *st,
                                                          const struct copse_call_params *params);
/** Graphs that calls of the strategy have recorded so far. */
COPSE_API uint64_t copse_call_recorded(const copse_strategy *st);

/* ---- arithmetic: calls of one node ----
 * Each makes a new value where its operands are: of plain values in a replica or scope as copse_call
 * does, of distributed ones by copse_strategy_map. Shapes follow the rules of ops.h (broadcasting).
 * Mirrored and plain operands give a mirrored result; devices that differ may round differently, so
 * there the result of replica 0 is copied to the others, which waits. */

COPSE_API COPSE_CHECKED copse_status copse_value_add(copse_value *a, copse_value *b,
                                                     copse_value **out);
COPSE_API COPSE_CHECKED copse_status copse_value_subtract(copse_value *a, copse_value *b,
                                                          copse_value **out);
COPSE_API COPSE_CHECKED copse_status copse_value_multiply(copse_value *a, copse_value *b,
                                                          copse_value **out);
/** As copse_div: of f32. */
COPSE_API COPSE_CHECKED copse_status copse_value_divide(copse_value *a, copse_value *b,
                                                        copse_value **out);
/** Each element times a number. */
COPSE_API COPSE_CHECKED copse_status copse_value_multiply_by(copse_value *a, float factor,
                                                             copse_value **out);
/** As copse_matmul. */
COPSE_API COPSE_CHECKED copse_status copse_value_matmul(copse_value *a, copse_value *b,
                                                        copse_value **out);
/** The sum of all elements of each component, a scalar. */
COPSE_API COPSE_CHECKED copse_status copse_value_sum(copse_value *a, copse_value **out);
/** As copse_cast. */
COPSE_API COPSE_CHECKED copse_status copse_value_convert(copse_value *a, copse_type type,
                                                         copse_value **out);

#if defined(__cplusplus)
}
#endif
#endif
