/* SPDX-License-Identifier: MIT */
/* Assignment of rows to pipelines: contexts of pipelines, schedules of minibatches, plans. Reads no
   files. */
#ifndef COPSE_DATA_INPUT_PLAN_H
#define COPSE_DATA_INPUT_PLAN_H

#include "copse/distribute/input.h"
#include "core/base/base.h"
#include "core/data/input/shard.h"

/* The minibatches of one pipeline's epoch. All minibatches of its rows are numbered: batch b has
   the numbers b * split to b * split + split - 1. */
struct copse_schedule {
    uint64_t rows;  /* rows that the pipeline reads */
    size_t batch;   /* rows that are split together */
    uint32_t split; /* minibatches of a batch */
    copse_shard_rule rule;
    uint32_t first, every; /* it gets the numbers first, first + every, ...; every divides split */
    uint32_t replicas;     /* minibatches of a step; divides split / every */
    bool drop_last;        /* skip an incomplete batch */
    bool drop_step;        /* skip a step without rows for every minibatch */
};

/* The position of a minibatch. */
struct copse_minibatch {
    uint64_t batch;
    struct copse_shard rows; /* of the batch */
};

uint64_t copse__schedule_batches(const struct copse_schedule *s);
uint64_t copse__schedule_steps(const struct copse_schedule *s);
/* The batch that a step is cut from; for the step after the last, the number of batches. */
uint64_t copse__schedule_batch(const struct copse_schedule *s, uint64_t step);
/* `step` is less than the number of steps. */
struct copse_minibatch copse__schedule_at(const struct copse_schedule *s, uint64_t step,
                                          uint32_t replica);

/* Set the defaults and check the rules. */
copse_status copse__input_context(const struct copse_input_context *in,
                                  struct copse_input_context *out);

struct copse_input_plan {
    copse_refs refs;
    copse_context *ctx;
    struct copse_input_plan_params params; /* with defaults; `files` and the paths are owned */
    uint64_t *rows;                        /* of each pipeline, 0 = unknown */
};

/* Whether the caller holds the only reference to the plan. */
void copse__input_plan_set_rows(copse_input_plan *plan, uint32_t pipeline, uint64_t rows);
/* Of an existing pipeline. */
struct copse_schedule copse__input_plan_schedule(const copse_input_plan *plan, uint32_t pipeline);

#endif
