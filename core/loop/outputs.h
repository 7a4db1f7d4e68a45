/* SPDX-License-Identifier: MIT */
/* The outputs of a step from the inside. */
#ifndef COPSE_CORE_OUTPUTS_H
#define COPSE_CORE_OUTPUTS_H

#include "copse/compat/single_loss.h"
#include "copse/loop/step.h"
#include "core/data/array.h"
#include "core/train/trainer.h"

/* The entries of an output that this worker's replicas set one by one: a round ends when all
   have. */
struct copse_output_round {
    bool *has;      /* [own replicas] */
    uint32_t count; /* of those that have */
};

/* An output: numbers or a value, and the application's pointers. */
struct copse_named_output {
    char *name;
    double *values; /* [replicas of all workers] */
    size_t count;   /* of `values`; 0: not set */
    bool is_reduced;
    copse_value *value; /* reference; else NULL */
    void **objects;     /* [own replicas] */
    size_t object_count;
    /* the rounds under way, and what they have so far */
    struct copse_output_round numbers, pointers;
    double *pending;
    void **pending_objects;
    copse_output_reduction reduction;
};

struct copse_outputs {
    copse_context *ctx; /* retained */
    struct copse_mem *mem;
    struct copse_arena arena; /* of what the list points to */
    copse_strategy *strategy; /* retained; NULL: the table of no step */
    uint32_t replicas;        /* of all workers */
    uint32_t first, own;      /* this worker's: the number of the first, and how many */
    struct {
        struct copse_named_output *at;
        size_t count, room;
    } list;
};

static inline copse_status copse__outputs_check_reduction(const char *name,
                                                          copse_output_reduction reduction)
{
    return copse_note(copse_need_known("outputs", "reduction", reduction, COPSE_OUTPUT_MEAN),
                      "for '%s'", name);
}

/* An empty table for the replicas of a strategy; NULL: for one replica. */
copse_status copse__outputs_create_for(copse_context *ctx, copse_strategy *st, copse_outputs **out);
/* The output of that name; a new one is added. */
copse_status copse__outputs_named(copse_outputs *o, const char *name,
                                  struct copse_named_output **out);
/* The output of that name, or NULL. */
struct copse_named_output *copse__outputs_find(const copse_outputs *o, const char *name);
/* Set an output to one number that is reduced already, or to one number for each replica. */
copse_status copse__outputs_put(copse_outputs *o, const char *name, const double *values,
                                bool is_reduced);
/* Set an output to a value, retained; NULL: it is not set. (output_values.c) */
copse_status copse__outputs_keep(copse_outputs *o, const char *name, copse_value *value);
/* The value that an output becomes: reduced over the replicas of all workers, or their components.
   `value` has the components of this worker's replicas. `mine`: why there are none; all workers
   return it. */
copse_status copse__output_combine(copse_strategy *st, copse_value *value,
                                   copse_output_reduction reduction, copse_status mine,
                                   copse_value **out);

#endif
