/* SPDX-License-Identifier: MIT */
/* Calls of a strategy: recordings of functions whose inputs, outputs and updates are values. */
#ifndef COPSE_CALL_H
#define COPSE_CALL_H

#include "copse/distribute/call.h"
#include "core/train/recording/loss_recording.h"
#include "core/train/verify/cross_check.h"

#define COPSE_INPUT_NAME 64 /* bytes of the name of an input, with the end */

/* The calls of a strategy: made by the first one, released with the strategy. */
struct copse_calls {
    copse_strategy *strategy; /* not a reference */
    struct copse_call_params params;
    uint64_t number;   /* of the newest call */
    uint64_t recorded; /* graphs, so far */
    struct copse_recordings recordings[COPSE_MAX_REPLICAS];
};

/* The recording of a function for one replica and one signature. */
struct copse_call_recording {
    struct copse_recording base;
    bool is_checked; /* its launches were compared with the host, or need not be */
    /* where a replay leaves the result or the outputs, and the values of the updates; in the
       graph's arena */
    struct copse_block **results, **updates;
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
    bool is_map; /* other replicas compute the same function in this call */
    /* the inputs: arrays and variables; variables[i] is NULL for an array */
    uint32_t input_count;
    copse_value *values[COPSE_MAX_INPUTS];
    copse_variable *variables[COPSE_MAX_INPUTS];
    char names[COPSE_MAX_INPUTS][COPSE_INPUT_NAME];
    struct copse_call_recording *recording;
    /* Examples are the entries of the first axis of the first array. The examples of all replicas
       are one batch: the number of this replica's first one, and its part of the batch. */
    uint32_t first_example;
    float part;
};

/* ---- calls.c ---- */

/* The calls of the strategy; the first use makes them, with default settings. */
copse_status copse__calls_get(copse_strategy *st, struct copse_calls **out);
/* Where the thread computes: COPSE_ERR_CONTEXT in no scope and no replica. `is_alone`: in a
   cross-replica context, where no value may differ between replicas. */
copse_status copse__call_place(copse_strategy **st, uint32_t *rank, bool *is_alone);
copse_status copse__call_at(copse_strategy *st, uint32_t rank, bool is_alone, copse_call_fn *fn,
                            void *user, copse_value *args, copse_value **result);

/* copse_strategy_map of a function without sums and updates: other workers need not make it. */
copse_status copse__map_here(copse_strategy *st, copse_call_fn *fn, void *user, copse_value *args,
                             copse_value **result);

/* ---- call_inputs.c ---- */

/* The leaves of a structure, or of NULL, as the replica of the call sees them.
   `is_alone`: no value may differ between replicas. */
copse_status copse__call_inputs_take(struct copse_call *c, copse_value *args, bool is_alone);
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

#endif
