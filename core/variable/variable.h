/* SPDX-License-Identifier: MIT */
/* Variables from the inside. */
#ifndef COPSE_CORE_VARIABLE_H
#define COPSE_CORE_VARIABLE_H

#include "core/graph/type.h"
#include "core/replica/strategy.h"

/* A partitioned variable, as its parts know it. Its memory is that of part 0. */
struct copse_whole {
    copse_shape shape;
    uint32_t parts;
    char name[];
};

struct copse_variable {
    struct copse_tensor tensor; /* graph NULL: legal in every graph */
    /* not a reference; NULL: the variable was released, and only this block is left */
    copse_strategy *strategy;
    char *name;
    char last_name[48]; /* the start of the name, once the variable is released */
    uint64_t count;     /* elements */
    copse_synchronization synchronization; /* ON_WRITE or ON_READ; NONE on one device */
    copse_aggregation aggregation;
    copse_buffer **components; /* one on each replica, when it has no place in the store */
    bool is_trained;           /* has a place in the store, or will have, unless it is sparse */
    bool is_of_file;           /* never changes, and a file has it: not in checkpoints */
    bool is_sparse;            /* trained by gradients of rows: its memory is its components */
    float *initial;            /* trained: until it is placed */
    uint32_t index;            /* in order of creation */
    bool is_placed;            /* in the store: elements [first, first + count) of the piece */
    uint32_t piece;
    uint64_t first;
    /* parameter servers: which one keeps it, and its place in our list */
    uint32_t server, server_index;
    uint64_t server_version;         /* of the working copies; 0: of none */
    const struct copse_whole *whole; /* what it is a part of, or NULL */
    uint32_t part;       /* its number there; parts follow one another in order of creation */
    uint64_t part_first; /* its first element there */
    /* the trainer that accumulates gradients of several micro-batches in it, or NULL */
    const void *accumulator;
    atomic_uint values; /* of the application (copse_variable_value), which name it */
};

/* Most bytes of a name; the rest of the 1024 of an array in a checkpoint is for the names of
   optimizers and slots. */
#define COPSE_VARIABLE_NAME 928
/* COPSE_ERR_ARGUMENT if a checkpoint can have no array of this name; `what` begins the text. */
copse_status copse__name_check(const char *name, const char *what);
/* COPSE_ERR_ARGUMENT if another array of checkpoints has it: a variable, a partitioned variable, a
   slot. */
copse_status copse__name_is_free(const copse_strategy *st, const char *name);

/* First values of a variable, by its initializer (initializers.c): elements of its type. */
copse_status copse__initialize(struct copse_mem *mem, const struct copse_variable_params *p,
                               void *values);

/* Release variables before their strategy, if nothing else can use them: there is one worker and no
   server, trainer, tower optimizer, call or value. False: they stay. The recordings of their owner
   are released. (variable_release.c) */
bool copse__variables_release(copse_strategy *st, copse_variable *const *list, size_t count);
/* Release what a variable holds. The application may keep the handle: the
   context keeps the block, and every call refuses it. */
void copse__variable_retire(copse_variable *v);
/* COPSE_ERR_ARGUMENT where `v` is NULL, or its strategy was released; `what` begins the text.
   Finishes a training step that is begun (copse__strategy_settle). */
copse_status copse__variable_check(const copse_variable *v, const char *what);
/* Whether a variable of the context has this address; it may have been released. The address is not
   read. */
bool copse__variable_is(copse_context *ctx, const copse_variable *v);
/* As copse__variable_check, and where `v` is none of the context, or belongs to another strategy
   than `st`. */
copse_status copse__variable_of(const copse_variable *v, const copse_strategy *st,
                                const char *what);
/* Whether each replica has a value of its own: ON_READ, with a copy on each replica. */
static inline bool copse__variable_is_local(const copse_variable *v)
{
    return v->synchronization == COPSE_SYNC_ON_READ && !v->strategy->table->has_one_copy;
}
/* Of its values. */
static inline size_t copse__variable_bytes(const copse_variable *v)
{
    return (size_t)v->count * copse__type_bytes(v->tensor.type);
}
/* Check the params of a variable, and make its initial values; freed with copse__free. */
copse_status copse__variable_first_values(const copse_strategy *st,
                                          const struct copse_variable_params *p, void **values);

/* ---- components (component.c) ---- */

/* Memory for the components; their values are `initial`. */
copse_status copse__components_make(copse_variable *v, const void *initial);
/* A variable that never changes: replicas that share a device have one component. */
void copse__components_share(copse_variable *v);
/* Set the components of a replica-local sum: those of all workers add up to `total`, integers
   exactly. */
copse_status copse__components_set_sum(copse_variable *v, const void *total);

/* ---- initial values across workers (initial_values.c) ---- */

/* The initial values of a new variable become the first worker's; all workers make the same
   variables in the same order. `mine`: the error that keeps this worker from making it, or COPSE_OK;
   all workers return it. */
copse_status copse__initial_value_broadcast(copse_strategy *st,
                                            const struct copse_variable_params *p, void *values,
                                            copse_status mine);

#endif
