/* SPDX-License-Identifier: MIT */
/* Recordings: the input is a loss function, named typed inputs and a replica; the output is a
   program. A list keeps the recordings of one replica by input signature, most recently used first.
   A full list releases the least recently used one. */
#ifndef COPSE_RECORDING_H
#define COPSE_RECORDING_H

#include "copse/batch.h"
#include "copse/strategy.h"
#include "core/graph/graph.h"

/* The signature of an input. */
struct copse_input_type {
    const char *name;
    copse_type type;
    copse_shape shape; /* including the examples axis */
};

/* An input of a recording. */
struct copse_recorded_input {
    struct copse_input_type is;
    copse_tensor *tensor; /* NULL: the function has not requested it */
    /* the location from which the program reads its values; no buffer: it does not use them */
    struct copse_binding at;
};

/* The key of a recording: its inputs, in this order, and the additional key of the list's user. */
struct copse_recording_key {
    struct copse_input_type inputs[COPSE_MAX_INPUTS];
    uint32_t input_count; /* 0: see `has_empty` */
    const uint64_t *words;
    size_t word_count;
};

/* First member of each user's struct. Lifetime: until the list makes another recording while this
   one is among the least recently used. */
struct copse_recording {
    struct copse_recordings *list;
    copse_graph *graph;
    copse_program *program; /* NULL: an empty recording */
    struct copse_recorded_input *inputs;
    uint32_t input_count;
    uint64_t *words;
    size_t word_count;
    copse_tensor *result; /* of the function */
    struct {
        struct copse_placement *at;
        size_t count, room;
    } placements; /* during recording */
};

/* The differences between the users of recordings. Functions marked * may be NULL. */
struct copse_recording_table {
    const char *name; /* of the user, in error texts */
    size_t size;      /* of its struct */
    /* *initialize what the user adds to a zeroed struct */
    void (*begin)(struct copse_recording *r);
    /* Call the function in its replica's context with `in`, whose inputs are set, and set
       r->result. */
    copse_status (*call)(struct copse_recording *r, copse_batch *in);
    /* Add the nodes that follow the result, such as derivatives, and place the outputs of the
       program. */
    copse_status (*extend)(struct copse_recording *r);
    /* Set the fields of a program besides its graph and placements. */
    void (*target)(struct copse_recording *r, struct copse_program_params *params);
    /* *called when the program is complete */
    copse_status (*made)(struct copse_recording *r);
    bool has_no_result; /* the function may return NULL */
    bool has_empty;     /* without inputs a recording is empty: the function is not called */
    bool (*is_needed)(const struct copse_recording *r); /* *it must not be released now */
    /* *free the members of the user's struct */
    void (*release)(struct copse_recording *r);
};

/* The recordings of one replica. */
struct copse_recordings {
    const struct copse_recording_table *table;
    void *user;
    copse_context *ctx;
    copse_strategy *strategy; /* of the replica; for the list's user */
    uint32_t replica, limit;
    bool is_mean; /* its functions give losses that are means (copse_current_loss_reduction) */
    struct copse_recording **at; /* most recently used first */
    size_t count, room;
};

/* The recording of a key; makes it if the list has none. */
copse_status copse__recordings_get(struct copse_recordings *list,
                                   const struct copse_recording_key *key,
                                   struct copse_recording **out);
/* Build the graph of a key, as for a recording that is new, and call `plan` with the params of its
   program. The list stays as it is. An empty recording is not planned. */
typedef copse_status copse_plan_fn(void *user, struct copse_program_params *params);
copse_status copse__recordings_plan(struct copse_recordings *list,
                                    const struct copse_recording_key *key, copse_plan_fn *plan,
                                    void *user);
void copse__recordings_fini(struct copse_recordings *list);
/* Release the least recently used recording, after its work is complete; false: there is none.
   `keeps_needed`: not one that is needed now. */
bool copse__recordings_drop(struct copse_recordings *list, bool keeps_needed);

/* ---- for `extend` ---- */

COPSE_PRIVATE copse_status copse__recording_place(struct copse_recording *r, copse_tensor *t,
                                                  struct copse_binding at, uint32_t bucket);
/* The tensor of an input, whether the function has requested it or not; NULL: the graph has failed. */
copse_tensor *copse__recording_input(struct copse_recording *r, uint32_t input);
/* Whether the batch of the function that this thread is in has an input of this name. */
bool copse__batch_has(const copse_batch *in, const char *name);
/* The result is an f32 scalar. */
copse_status copse__recording_check_loss(const struct copse_recording *r);

/* ---- graphs that are built elsewhere: a recording outside of lists ---- */

/* Plan and compile the placed tensors of r->graph, and bind r->inputs. */
COPSE_PRIVATE copse_status copse__recording_compile(struct copse_recording *r,
                                                    struct copse_program_params *params);
/* Add the kernels of that program to a list (copse__program_kernels). */
COPSE_PRIVATE copse_status copse__recording_kernels(const struct copse_recording *r,
                                                    struct copse_program_params *params,
                                                    struct copse_kernel_wants *out);
/* Set r->inputs to those of r->graph. */
copse_status copse__recording_adopt(struct copse_recording *r);
/* Free everything except r->graph. */
COPSE_PRIVATE void copse__recording_fini(struct copse_recording *r, struct copse_mem *mem);

#endif
