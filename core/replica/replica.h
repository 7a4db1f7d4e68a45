/* SPDX-License-Identifier: MIT */
/* Strategies, replicas and variables from the inside, and the flat store that holds the variables. */
#ifndef COPSE_CORE_REPLICA_H
#define COPSE_CORE_REPLICA_H

#include "core/base/callback.h"
#include "core/graph/graph.h"
#include "core/graph/variant.h"
#include "core/comm/group.h"
#include "core/reduce/exchange.h"

struct copse_replica {
    copse_device *dev;
    copse_queue *queue;
    copse_queue *transfer; /* another of the device, for uploads ahead of steps; NULL until one is wanted */
    copse_buffer *step; /* COPSE_STEP_WORDS words: what changes from step to step */
};

/* A partitioned variable, as its parts know it. Its memory is that of part 0. */
struct copse_whole {
    copse_shape shape;
    uint32_t parts;
    char name[];
};

struct copse_variable {
    struct copse_tensor tensor; /* graph NULL: legal in every graph */
    copse_strategy *strategy;   /* not a reference; NULL: it was released, and only this block is left */
    char *name;
    char last_name[48];         /* the start of the name, once the strategy is released */
    uint64_t count;  /* elements */
    copse_synchronization synchronization; /* ON_WRITE or ON_READ; NONE on one device */
    copse_aggregation aggregation;
    copse_buffer **components; /* one on each replica, when it is not trained */
    bool is_trained; /* has a place in the store, or will have */
    float *initial;  /* trained: until it is placed */
    uint32_t index;  /* in order of creation */
    bool is_placed;  /* in the store: elements [first, first + count) of the piece */
    uint32_t piece;
    uint64_t first;
    uint32_t server, store_place; /* parameter servers: which one keeps it, and its place in our list */
    const struct copse_whole *whole; /* what it is a part of, or NULL */
    uint32_t part;   /* its number there; parts stand one behind another in order of creation */
    uint64_t part_first; /* its first element there */
    const void *holder; /* the trainer that gathers gradients of several micro-batches in it, or NULL */
};

/* Trained variables one behind another, in reverse order of creation, so that the gradients that are ready
   first come first. Pieces are no larger than any replica can bind. Variables that are made after
   the first trainer stand in further pieces. */
struct copse_store {
    copse_exchange *exchange; /* NULL until built */
    struct { copse_variable **at; size_t count, room; } order; /* as they stand, piece by piece */
    uint32_t piece_count;
    uint32_t holders; /* trainers that gather gradients */
};

struct copse_storage;

/* The count of training steps of the job: read it; set it; add 1, `value` receives the sum. */
struct copse_step_count {
    copse_status (*read)(copse_strategy *st, uint64_t *value);
    copse_status (*set)(copse_strategy *st, uint64_t value);
    copse_status (*add)(copse_strategy *st, uint64_t *value);
};
extern const struct copse_step_count copse__step_count_local; /* kept in each process */

/* What distinguishes the strategies: one table each, in a file of its own. */
struct copse_strategy_table {
    copse_strategy_kind kind;
    const char *name; /* for people */
    const struct copse_storage *storage; /* of variables */
    bool has_one_copy;   /* of each variable, so that synchronization has no effect */
    bool shares_devices; /* replicas that name the same device share it and its queue; else each has a part of it */
    const struct copse_step_count *count;
    void (*dispose)(copse_strategy *st); /* after the last release; NULL: the strategy is static */
};
extern const struct copse_strategy_table copse__one_device, copse__mirrored, copse__collective,
    copse__parameter_server, copse__accelerator;

struct copse_strategy {
    copse_refs refs;
    copse_context *ctx;
    const struct copse_strategy_table *table;
    uint32_t serial; /* 0 = the default strategy */
    struct copse_cross_device *cross; /* the application's operations; NULL = the library's choice */
    struct copse_strategy_params params;
    struct copse_choices choices; /* kernel variants that are forced */
    uint32_t replica_count;
    struct copse_replica replicas[COPSE_MAX_REPLICAS];
    struct { copse_variable **at; size_t count, room; } variables; /* in order of creation */
    struct copse_store store;
    uint64_t global_step; /* see train_step.h */
    copse_cluster *cluster;      /* of the job, retained; NULL where this process is the job */
    struct copse_group group;    /* the workers in step, this one among them */
    struct copse_servers *servers; /* of the variables; NULL where replicas have them (servers.h) */
    uint32_t rank_first, rank_total; /* of the replicas among those of all workers */
    struct copse_reducer *reducer; /* NULL until values are reduced */
    struct copse_optimizer *optimizers; /* a list; trainers and tower optimizers own them and retain the strategy */
    uint32_t steps_per_run; /* batches that a trainer takes ahead, see accelerator.h; 0: it steps one by one */
    uint32_t cores[COPSE_MAX_REPLICAS]; /* of an accelerator: each replica's */
};

/* Replicas on these devices, in this order. Those of an accelerator that name the same device share it and
   its queue; else each has a part of the device and a queue of its own. */
copse_status copse__strategy_create(copse_context *ctx, const struct copse_strategy_table *table,
                                    const char *const *devices, size_t count,
                                    const struct copse_strategy_params *params,
                                    copse_strategy **out);

/* The `dispose` row of the tables. */
void copse__strategy_dispose(copse_strategy *st);

/* How many copies of each variable are changed: one, or one on each replica of this worker. */
static inline uint32_t copse__strategy_copies(const copse_strategy *st)
{
    return st->table->has_one_copy ? 1 : st->replica_count;
}

/* Open the devices in this order, each with a queue and a step buffer. On failure those that were opened stay until
   copse__replicas_close. */
copse_status copse__replicas_open(copse_strategy *st, const char *const *devices, size_t count);
void copse__replicas_close(copse_strategy *st);

/* Make the replica's transfer queue, if it has none. */
copse_status copse__replica_transfer(struct copse_replica *r);

/* accelerator.c. Order of device ids: by name, then by number, so that opencl:2 comes before opencl:10. */
int copse__id_compare(const char *a, const char *b);

/* Lay out the trained variables that have no place yet, give them memory on every replica and write their
   values there. */
copse_status copse__store_build(copse_strategy *st);
/* Release the exchange and its memory. */
void copse__store_fini(copse_strategy *st);

/* ---- initial values across workers (initial_values.c) ---- */

/* Checks that all workers have these variables; their initial values become those of the first worker. */
copse_status copse__initial_values_broadcast(copse_strategy *st, copse_variable *const *list, size_t count);
/* The same for a new variable that is not trained. `mine`: the error that keeps this worker from making it, or COPSE_OK;
   all workers return it. */
copse_status copse__initial_value_broadcast(copse_strategy *st, const struct copse_variable_params *p,
                                     void *values, copse_status mine);

/* ---- variables ---- */

/* Release a variable that the application has never seen. */
void copse__variable_free(copse_variable *v);
/* Release what a variable holds, with its strategy. The application may keep the handle: the context keeps the
   block, and every call refuses it. */
void copse__variable_retire(copse_variable *v);
/* COPSE_ERR_ARGUMENT where `v` is NULL, or its strategy was released; `what` begins the text. */
copse_status copse__variable_check(const copse_variable *v, const char *what);
/* The same, and where `v` belongs to another strategy than `st`. */
copse_status copse__variable_of(const copse_variable *v, const copse_strategy *st, const char *what);
/* Whether replicas keep it for themselves: ON_READ, and there is somebody to keep it from. */
static inline bool copse__variable_is_local(const copse_variable *v)
{
    return v->synchronization == COPSE_SYNC_ON_READ &&
           !v->strategy->table->has_one_copy;
}
/* Check the params of a variable, and make the values that it would start with; freed with copse__free. */
copse_status copse__variable_first_values(const copse_strategy *st,
                                          const struct copse_variable_params *p, void **values);
/* Memory for the components (component.c); their values are `initial`. */
copse_status copse__components_make(copse_variable *v, const void *initial);

/* The one entry that a variable has in a checkpoint, 4 bytes an element: a replica-local one's aggregate,
   replica 0's component where there is no aggregation. */
copse_status copse__variable_checkpoint(copse_variable *v, void *values);
/* Set the components of a replica-local sum: those of all workers add up to `total`, integers exactly. */
copse_status copse__components_set_sum(copse_variable *v, const void *total);
/* Back from such an entry; a replica-local sum is divided among the replicas, integers exactly. */
copse_status copse__variable_restore(copse_variable *v, const void *values);

/* Where a variable stands on a replica. */
struct copse_binding copse__variable_values(const copse_variable *v, uint32_t replica);
struct copse_binding copse__variable_gradient(const copse_variable *v, uint32_t replica);

#endif
