/* SPDX-License-Identifier: MIT */
/* Values from the inside, and how the values of replicas become one value and are taken apart
   again. */
#ifndef COPSE_CORE_VALUE_H
#define COPSE_CORE_VALUE_H

#include "copse/distribute/cross_device.h"
#include "core/ps/change.h"
#include "core/reduce/value/block.h"
#include "core/variable/variable.h"

/* Levels of lists and dictionaries in one another, at most. */
#define COPSE_MAX_DEPTH 64

struct copse_value {
    copse_refs refs;
    copse_context *ctx; /* retained */
    copse_value_kind kind;
    copse_type type;
    copse_shape shape;           /* SPARSE: dense */
    struct copse_block *block;   /* ARRAY: elements; SPARSE: values [count, ...] */
    struct copse_block *indices; /* SPARSE: i32 [count] */
    uint32_t slices;             /* SPARSE */
    uint32_t rank;               /* ARRAY, SPARSE: its location; VARIABLE: the component, or
                                    COPSE_ALL_RANKS for the whole variable */
    void *object;
    copse_variable *variable; /* counts this value; its strategy is retained */
    copse_strategy *strategy; /* VARIABLE, PER_REPLICA, MIRRORED, arrays on a replica; retained */
    /* references: items, or components; VARIABLE: those of the whole one */
    copse_value **items;
    size_t count;
    char **names;    /* DICT */
    uint32_t *ranks; /* distributed: rank of each component, or COPSE_HOST */
    uint32_t depth;  /* of lists and dictionaries below */
};

#define COPSE_ALL_RANKS (UINT32_MAX - 1)

static inline bool copse__value_is_distributed(const copse_value *v)
{
    return v->kind == COPSE_VALUE_PER_REPLICA || v->kind == COPSE_VALUE_MIRRORED;
}

/* A list or a dictionary. */
static inline bool copse__value_is_structure(const copse_value *v)
{
    return v->kind == COPSE_VALUE_LIST || v->kind == COPSE_VALUE_DICT;
}

/* The queue of a replica; NULL for the host. */
static inline copse_queue *copse__queue_of(const copse_strategy *st, uint32_t rank)
{
    return rank == COPSE_HOST ? NULL : st->replicas[rank].queue;
}

extern const struct copse_destinations copse__to_host; /* the host alone */

/* Release all values of a list, which may have NULL entries. */
void copse__values_release(copse_value **list, size_t count);

/* An array; takes a reference to `block` over, on failure too. `st` is NULL on the host outside of
   every strategy. */
copse_status copse__value_from_block(copse_context *ctx, copse_strategy *st, uint32_t rank,
                                     copse_shape shape, struct copse_block *block,
                                     copse_value **out);
/* A copy of an array or a sparse value on replica `rank`, or on the host (COPSE_HOST). */
copse_status copse__value_copy(const copse_value *v, copse_strategy *st, uint32_t rank,
                               copse_value **out);
/* A sparse value on replica `rank`, or on the host (COPSE_HOST). */
copse_status copse__value_sparse(copse_context *ctx, copse_strategy *st, uint32_t rank,
                                 const struct copse_sparse_params *params, copse_value **out);
/* copse_value_read of an array, or of a mirrored one. */
copse_status copse__array_read(const copse_value *v, void *values);
/* copse_value_read to new memory of the value's context. */
copse_status copse__value_to_host(const copse_value *v, void **values);
/* The slices of a sparse value in new memory of its context, which begins at `indices`. */
copse_status copse__slices_read(const copse_value *v, int32_t **indices, struct copse_rows *rows);
/* A variable as a value: one component, or all (COPSE_ALL_RANKS). */
copse_status copse__value_of_variable(copse_variable *v, uint32_t rank, copse_value **out);
/* An array with what a replica's component of a variable holds now, on that replica's device. */
copse_status copse__component_read(copse_variable *v, uint32_t rank, copse_value **out);
/* All components of a variable as a per-replica value of arrays. */
copse_status copse__components_read(copse_variable *v, copse_value **out);
/* COPSE_ERR_CONTEXT where the thread is in the context of another strategy. */
copse_status copse__require_strategy_of(const copse_variable *v);
/* A list or dictionary like `like` of these items, which with their memory (or NULL) are taken
   over; `like` itself where they are its own. `s`: why they are not complete, or COPSE_OK; an error
   is returned. */
copse_status copse__value_like(copse_status s, copse_value *like, copse_value **items,
                               copse_value **out);
/* A structure like `v` of what `fn` makes of each of its leaves, in order; `v` itself where nothing
   changes. */
typedef copse_status copse_map_fn(void *user, copse_value *leaf, copse_value **out);
copse_status copse__value_map(copse_value *v, copse_map_fn *fn, void *user, copse_value **out);
/* One component per rank, none of them distributed, a list or a dictionary; retained. `ranks` NULL:
   0 .. count-1. */
copse_status copse__value_distributed(copse_strategy *st, copse_value_kind kind,
                                      copse_value *const *components, const uint32_t *ranks,
                                      size_t count, copse_value **out);
/* The same of components whose references are taken over. `s`: why they are not complete, or
   COPSE_OK; an error is returned. */
copse_status copse__value_distributed_of(copse_status s, copse_strategy *st, copse_value_kind kind,
                                         copse_value **components, const uint32_t *ranks,
                                         size_t count, copse_value **out);
/* A per-replica value with `v` for each replica of this worker. */
copse_status copse__value_of_each(copse_strategy *st, copse_value *v, copse_value **out);
/* Whether two values are the same object: the same value, or wrapping the same pointer, variable or
   component. */
bool copse__value_same(const copse_value *a, const copse_value *b);

/* What the function that ran for each of `ranks` (NULL: 0 .. count-1) returned becomes one value;
   `kind` of the leaves that differ: PER_REPLICA, or MIRRORED for results of updates. Entries may be
   NULL, all or none: then the result is NULL. The text of COPSE_ERR_SHAPE names where structures
   differ. */
copse_status copse__regroup(copse_strategy *st, copse_value_kind kind, copse_value *const *values,
                            const uint32_t *ranks, size_t count, copse_value **out);
/* The component of a distributed value on a rank; of a mirrored value the first where that rank has
   none; else NULL. */
copse_value *copse__component_at(const copse_value *v, uint32_t rank);
/* A new reference to what replica `rank` sees of a structure: components of distributed values,
   everything else unchanged, whole variables too. A mirrored value without a component there gives
   its first. */
copse_status copse__select_replica(copse_value *v, uint32_t rank, copse_value **out);
/* The same for update functions: COPSE_ERR_ARGUMENT for per-replica values; variables become the
   rank's component. */
copse_status copse__select_update(copse_value *v, uint32_t rank, copse_value **out);
/* COPSE_ERR_ARGUMENT where a per-replica value in a structure has another number of components. */
copse_status copse__check_components(const copse_value *v, uint32_t replicas);

#endif
