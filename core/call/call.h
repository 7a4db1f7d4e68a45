/* SPDX-License-Identifier: MIT */
/* Calls of a strategy: recordings of functions whose inputs, outputs and updates are values. */
#ifndef COPSE_CALL_H
#define COPSE_CALL_H

#include "copse/compat/replicated.h"
#include "copse/distribute/call.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/verify/cross_check.h"

#define COPSE_INPUT_NAME 64 /* bytes of the name of an input, with the end */

/* The calls of a strategy, which the first one makes and the strategy releases; or of a tower
   optimizer. */
struct copse_calls {
    struct copse_check_owner owner; /* its name begins error texts */
    const char *function;           /* "the function of a call": for texts */
    /* of functions that serve a trainer, too: they are dropped, which the log says */
    bool may_report;
    struct copse_recording_table table;
    struct copse_call_params params;
    uint64_t number;   /* of the newest call */
    uint64_t recorded; /* graphs, so far */
    struct copse_recordings recordings[COPSE_MAX_REPLICAS];
};

/* The recording of a function for one replica and one signature. */
struct copse_call_recording {
    struct copse_recording base;
    bool is_checked; /* its launches were compared with the host, or need not be */
    /* where a replay leaves the result or the outputs, the values of the updates, and the
       gradients, NULL where the result does not depend on the variable; in the graph's arena */
    struct copse_block **results, **updates, **gradients;
    /* sums over replicas: a segment of the program ends at each */
    struct {
        struct copse_call_sum *at;
        size_t count, room;
    } sums;
};

struct copse_call_sum {
    copse_shape shape;
    struct copse_block *operand, *result;
};

/* One computation on one replica. */
struct copse_call {
    struct copse_calls *calls;
    copse_call_fn *fn;
    void *user;
    uint32_t rank;
    uint64_t number; /* of the call: draws of dropout differ */
    bool is_map;     /* other replicas compute the same function in this call */
    /* the inputs: arrays and variables; variables[i] is NULL for an array */
    uint32_t input_count;
    copse_value *values[COPSE_MAX_INPUTS];
    copse_variable *variables[COPSE_MAX_INPUTS];
    char names[COPSE_MAX_INPUTS][COPSE_INPUT_NAME];
    struct copse_call_recording *recording;
    /* Derivatives of the result times `share`, by the variables of a list. They begin with the last
       input, which has the shape of the result, or with 1. The function is called to train. */
    struct copse_tower_gradient *gradients;
    size_t gradient_count;
    bool has_from; /* the last input is this one */
    float share;
    /* Examples are the entries of the first axis of the first array. The examples of all replicas
       are one batch: the number of this replica's first one, and its part of the batch. */
    uint32_t first_example;
    float part;
};

/* ---- calls.c ---- */

/* Calls of `owner`, which is in use (core/base/callback.h) while a function is called for it. */
void copse__calls_init(struct copse_calls *calls, void *owner, copse_strategy *st);
void copse__calls_fini(struct copse_calls *calls);
/* The calls of the strategy; the first use makes them, with default settings. */
copse_status copse__calls_get(copse_strategy *st, struct copse_calls **out);
/* Where the thread computes: COPSE_ERR_CONTEXT in no scope and no replica. `is_alone`: in a
   cross-replica context, where no value may differ between replicas. */
copse_status copse__call_place(copse_strategy **st, uint32_t *rank, bool *is_alone);
copse_status copse__call_at(copse_strategy *st, uint32_t rank, bool is_alone, copse_call_fn *fn,
                            void *user, copse_value *args, copse_value **result);
/* Compute on one replica, whose inputs were taken. The caller releases them, and after a failure
   what it has received. */
copse_status copse__call_compute(struct copse_call *c, copse_value **result);

/* copse_strategy_map without an operation of the group. For a function without sums and updates:
   other workers need not call it. */
copse_status copse__map_here(copse_strategy *st, copse_call_fn *fn, void *user, copse_value *args,
                             copse_value **result);

/* ---- call_inputs.c ---- */

/* The leaves of a structure, or of NULL, as the replica of the call sees them. `name`: of a value
   that is no structure. `is_alone`: no value may differ between replicas. */
copse_status copse__call_inputs_take(struct copse_call *c, copse_value *args, const char *name,
                                     bool is_alone);
/* Queue the write of the inputs to where the recording reads them. */
copse_status copse__call_inputs_write(const struct copse_call *c);
void copse__call_inputs_release(struct copse_call *c);

/* ---- call_recording.c ---- */

extern const struct copse_recording_table copse__call_recording_table;
/* Find the recording of the function and its inputs, or make it. */
copse_status copse__call_record(struct copse_call *c);
uint32_t copse__call_examples(const struct copse_call *c);
/* Queue what a computation needs before its first segment: inputs, and the words of the call. */
copse_status copse__call_begin(const struct copse_call *c);
/* Queue a segment. After those with a sum the operands of all replicas are exchanged. */
copse_status copse__call_segment(const struct copse_call *c, uint32_t segment);
/* The exchange of a sum: the operand of one replica as a value, and the result that it gets. */
copse_status copse__call_operand(const struct copse_call *c, uint32_t sum, copse_value **out);
copse_status copse__call_take_sum(const struct copse_call *c, uint32_t sum,
                                  const copse_value *result);
/* What it leaves, as new values: the result, which is NULL if there is none, and the value of an
   update. */
copse_status copse__call_result(const struct copse_call *c, copse_value **out);
copse_status copse__call_update(const struct copse_call *c, size_t update, copse_value **out);
/* Fill the list of gradients with new values. */
copse_status copse__call_gradients(const struct copse_call *c);

#endif
