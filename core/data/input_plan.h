/* SPDX-License-Identifier: MIT */
/* Who reads what: contexts of pipelines, schedules of minibatches, plans. Reads nothing. */
#ifndef COPSE_DATA_INPUT_PLAN_H
#define COPSE_DATA_INPUT_PLAN_H

#include "copse/distribute/input.h"
#include "core/base/base.h"
#include "core/data/shard.h"

/* The minibatches of one pipeline's epoch. Those of its rows are counted through: batch b makes
   numbers b * split to b * split + split - 1. */
struct copse_schedule {
    uint64_t rows;  /* that the pipeline reads */
    size_t batch;   /* rows that are split at once */
    uint32_t split; /* minibatches of a batch */
    copse_shard_rule rule;
    uint32_t first, every; /* it gets numbers first, first + every, ... of them; every divides split */
    uint32_t replicas;     /* minibatches of a step; divides split / every */
    bool drop_last;        /* no batch that is not full */
    bool drop_step;        /* no batch without rows for every minibatch */
};

/* Where a minibatch stands. */
struct copse_minibatch {
    uint64_t batch;
    struct copse_shard rows; /* of the batch */
};

uint64_t copse__schedule_batches(const struct copse_schedule *s);
uint64_t copse__schedule_steps(const struct copse_schedule *s);
/* The batch that a step is cut from; the number of batches for the step behind the last. */
uint64_t copse__schedule_batch(const struct copse_schedule *s, uint64_t step);
/* `step` below the number of steps. */
struct copse_minibatch copse__schedule_at(const struct copse_schedule *s, uint64_t step,
                                          uint32_t replica);

/* Fill in the defaults and check the rules. */
copse_status copse__input_context(const struct copse_input_context *in,
                                  struct copse_input_context *out);

struct copse_input_plan {
    copse_refs refs;
    copse_context *ctx;
    struct copse_input_plan_params params; /* defaults filled in; `files` and the paths are owned */
    uint64_t *rows;                        /* of each pipeline, 0 = not known */
};

/* The caller is the only one that has the plan. */
void copse__input_plan_set_rows(copse_input_plan *plan, uint32_t pipeline, uint64_t rows);
/* Of a pipeline that exists. */
struct copse_schedule copse__input_plan_schedule(const copse_input_plan *plan, uint32_t pipeline);

#endif
