/* SPDX-License-Identifier: MIT */
/** @file
 * Values outside graphs: arrays on a replica's device or on the host, sparse slices,
 * objects of the application, lists and dictionaries of them, and distributed values, which have
 * one component per replica.
 *
 * A value never changes; arithmetic on values (copse/distribute/call.h) makes new ones. Values are
 * counted: a function that returns a value returns a reference. A "structure" is a value, or a list
 * or dictionary of structures.
 */
#ifndef COPSE_PUBLIC_DISTRIBUTE_VALUE_H
#define COPSE_PUBLIC_DISTRIBUTE_VALUE_H

#include <stdbool.h>

#include "copse/strategy.h"

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct copse_value copse_value;

/** What a value is. */
typedef enum copse_value_kind {
    COPSE_VALUE_ARRAY,       /**< dense array, row-major */
    COPSE_VALUE_SPARSE,      /**< some slices of a dense f32 array along its first axis */
    COPSE_VALUE_OBJECT,      /**< a pointer of the application; equal when the pointers are */
    COPSE_VALUE_VARIABLE,    /**< a variable, or one replica's component of it */
    COPSE_VALUE_LIST,        /**< items in order */
    COPSE_VALUE_DICT,        /**< items by name; the order of names does not count */
    COPSE_VALUE_PER_REPLICA, /**< one component per replica, which may differ */
    COPSE_VALUE_MIRRORED,    /**< one component per replica (or destination), all equal */
} copse_value_kind;

/** In place of a replica's rank: the memory of the host. */
#define COPSE_HOST UINT32_MAX

/**
 * Make an array: on the device of the current replica (see copse/distribute/replica.h), or outside
 * of a replica context on the host.
 * @param type    Every one; i64 becomes i32. Reductions and assignments take f32 and i32 alone.
 * @param values  Every element, row-major; copied before the call returns.
 * @retval COPSE_ERR_ARGUMENT   `type` or `shape` is none, or an i64 element is out of the range of
 *                              i32.
 * Thread-safety: any, as long as the current replica's strategy is not used elsewhere.
 */
COPSE_API COPSE_CHECKED copse_status copse_value_create(copse_context *ctx, copse_type type,
                                                        copse_shape shape, const void *values,
                                                        copse_value **out);
/** The same on the device of replica `rank` of a strategy, or on the host (COPSE_HOST). */
COPSE_API COPSE_CHECKED copse_status copse_value_create_on(copse_strategy *st, uint32_t rank,
                                                           copse_type type, copse_shape shape,
                                                           const void *values, copse_value **out);
/** An f32 scalar, made as by `copse_value_create`. */
COPSE_API COPSE_CHECKED copse_status copse_value_scalar(copse_context *ctx, float value,
                                                        copse_value **out);

/** Slices of a dense f32 array: values[i] belongs at row index[i]; rows may repeat and then add
    up. */
struct copse_sparse_params {
    copse_shape dense_shape; /**< rank >= 1 */
    uint32_t count;          /**< slices, may be 0 */
    const int32_t *indices;  /**< [count], each 0 .. dense_shape.dims[0]-1 */
    const float *values;     /**< [count, dense_shape.dims[1...]] */
};
/** Make a sparse value, placed as by `copse_value_create`. @retval COPSE_ERR_ARGUMENT An index is
    out of range; the text names it. */
COPSE_API COPSE_CHECKED copse_status copse_value_sparse(copse_context *ctx,
                                                        const struct copse_sparse_params *params,
                                                        copse_value **out);
/** Wrap a pointer; it is never followed. */
COPSE_API COPSE_CHECKED copse_status copse_value_object(copse_context *ctx, void *object,
                                                        copse_value **out);
/** A list of values; items are retained. Structures are at most 64 lists and dictionaries deep. */
COPSE_API COPSE_CHECKED copse_status copse_value_list(copse_context *ctx, copse_value *const *items,
                                                      size_t count, copse_value **out);
/** A dictionary; names are copied and must differ. */
COPSE_API COPSE_CHECKED copse_status copse_value_dict(copse_context *ctx, const char *const *names,
                                                      copse_value *const *items, size_t count,
                                                      copse_value **out);
/** One component for each replica of `st`, in rank order; `count` must be the replica count.
    Components are no lists, dictionaries or distributed values: make a list of per-replica
    values. */
COPSE_API COPSE_CHECKED copse_status copse_value_per_replica(copse_strategy *st,
                                                             copse_value *const *components,
                                                             size_t count, copse_value **out);

COPSE_API copse_value *copse_value_retain(copse_value *v);
COPSE_API void copse_value_release(copse_value **v); /**< NULL is fine */

COPSE_API copse_value_kind copse_value_kind_of(const copse_value *v);
/** Type and shape of an array, sparse value (its dense shape), variable, or mirrored value of
    these; of other kinds f32 and a scalar. */
COPSE_API copse_type copse_value_type(const copse_value *v);
COPSE_API copse_shape copse_value_shape(const copse_value *v);
/** Rank of the replica whose device has the array, or COPSE_HOST. */
COPSE_API uint32_t copse_value_rank(const copse_value *v);
/** Items of a list or dictionary, components of a distributed value or a whole variable, slices of
    a sparse value; else 0. */
COPSE_API size_t copse_value_count(const copse_value *v);
/** Item or component `i`, borrowed: it lives as long as `v`. NULL when there is none. */
COPSE_API copse_value *copse_value_item(const copse_value *v, size_t i);
/** Name of item `i` of a dictionary, in the order given at its making; else NULL. */
COPSE_API const char *copse_value_name(const copse_value *v, size_t i);
/** Item of that name, borrowed, or NULL. */
COPSE_API copse_value *copse_value_find(const copse_value *v, const char *name);
/** Pointer of an object, else NULL. */
COPSE_API void *copse_value_pointer(const copse_value *v);
/** Variable of a variable value, else NULL. */
COPSE_API copse_variable *copse_value_variable(const copse_value *v);

/**
 * Copy an array's elements to host memory; a mirrored value gives its first component, a variable
 * what `copse_read` gives in the current context.
 * @param values  Room for every element, in the type of the value.
 * @retval COPSE_ERR_ARGUMENT  Not an array; a per-replica value needs a component to be named.
 * Blocking: until queued work that makes it has run, with a deadline; after COPSE_ERR_TIMEOUT
 * `values` is still in use by the device.
 */
COPSE_API COPSE_CHECKED copse_status copse_value_read(const copse_value *v, void *values);
/** Copy a sparse value's slices: indices [count] and values [count, ...]; either may be NULL. */
COPSE_API COPSE_CHECKED copse_status copse_value_read_sparse(const copse_value *v, int32_t *indices,
                                                             float *values);
/** Add a sparse value's slices up into a dense array, on the host. */
COPSE_API COPSE_CHECKED copse_status copse_value_densify(const copse_value *v, copse_value **out);

/**
 * The components of a distributed value in this process, in rank order; for a plain value
 * the value itself. Borrowed: they live as long as `v`.
 * @param list   Room for `room` pointers.
 * @param count  Receives how many there are, even when more than `room`.
 * (tf.distribute: experimental_local_results, earlier unwrap.)
 */
COPSE_API void copse_local_results(copse_value *v, copse_value **list, size_t room, size_t *count);
/** The variable value that owns a component, or `v` itself; a new reference, NULL without memory.
    (tf.distribute: value_container.) */
COPSE_API copse_value *copse_value_container(copse_value *v);
/** Wait until everything that makes the value, all components included, has run. (group.) */
COPSE_API COPSE_CHECKED copse_status copse_value_wait(const copse_value *v);

#if defined(__cplusplus)
}
#endif
#endif
