/* SPDX-License-Identifier: MIT */
/* Reductions of values: arrays of several contributors become one sum or mean, which is copied to
   several destinations. All algorithms evaluate the canonical tree of sum_schedule.h over the
   contributors. */
#ifndef COPSE_VALUE_REDUCE_H
#define COPSE_VALUE_REDUCE_H

#include "copse/distribute/cross_device.h"
#include "core/reduce/reducer.h"
#include "core/reduce/sum_schedule.h"
#include "core/reduce/value/block.h"
#include "core/reduce/value/bucketing.h"

enum copse_collective {
    COPSE_COLLECTIVE_TO_ONE,       /* summed at the root */
    COPSE_COLLECTIVE_SHARDED,      /* every rank sums its slice */
    COPSE_COLLECTIVE_HIERARCHICAL, /* both halves of the tree at a root each, then joined */
};

/* ---- plans: pure integers (value_plan.c) ---- */

/* Everything that a plan depends on. */
struct copse_plan_params {
    enum copse_collective algorithm;
    uint32_t root;         /* TO_ONE: a rank, or COPSE_HOST */
    uint32_t ranks;        /* that may own a sum */
    uint32_t contributors; /* contributor i is rank i */
    uint64_t max_row;      /* most elements of a row; an owner keeps contributors + 1 rows */
    struct copse_bucketing bucketing;
    const uint64_t *elements; /* of every array */
    size_t arrays;
};

/* The owner sums contributors [lo, hi) over elements [first, first + count) of the chunk. */
struct copse_partial_sum {
    uint32_t owner, lo, hi;
    uint64_t first, count;
};
/* Elements [first, first + count) of a bucket, which are reduced at once. */
struct copse_chunk {
    size_t bucket;
    uint64_t first, count;
    size_t first_sum, sum_count;
    bool is_joined; /* the second sum is added to the first one */
};

struct copse_plan {
    struct copse_plan_params params; /* `elements` is a copy */
    struct copse_array_buckets buckets;
    struct {
        struct copse_partial_sum *at;
        size_t count, room;
    } sums;
    struct {
        struct copse_chunk *at;
        size_t count, room;
    } chunks;
};

copse_status copse__plan_make(struct copse_mem *mem, const struct copse_plan_params *params,
                              struct copse_plan *out);
void copse__plan_fini(struct copse_mem *mem, struct copse_plan *plan);
bool copse__plan_is_for(const struct copse_plan *plan, const struct copse_plan_params *params);

/* ---- reductions (value_reduce.c) ---- */

/* A reducer, and what is kept from one reduction to the next. */
typedef struct copse_value_reducer copse_value_reducer;

copse_status copse__value_reducer_create(copse_context *ctx, copse_queue *const *queues,
                                         uint32_t count, copse_value_reducer **out);
void copse__value_reducer_release(copse_value_reducer **x); /* waits for queued work */

struct copse_reduction {
    enum copse_collective algorithm;
    uint32_t root; /* TO_ONE: a rank, or COPSE_HOST */
    const struct copse_bucketing *bucketing;
    copse_type type;  /* of every contribution */
    uint32_t divisor; /* 0 = sum; else below 2^16, and the results are f32 */
    /* [contributors][arrays], on queues of the reducer or the host; the arrays of all contributors
       are equally long */
    struct copse_block *const *from;
    uint32_t contributors;
    size_t arrays;
    const uint32_t *to; /* ranks, or COPSE_HOST; no two the same */
    uint32_t to_count;
};
/* out[array * to_count + i] receives one reference each. On failure none, and queued work has run.
   The same reduction again makes no plan, compiles nothing, and takes device memory from pools. */
copse_status copse__blocks_reduce(copse_value_reducer *x, const struct copse_reduction *r,
                                  struct copse_block **out);

/* Costs of the links, measured by the first call: [ranks], then the host. */
copse_status copse__value_links(copse_value_reducer *x, const struct copse_link **links);
void copse__value_set_links(copse_value_reducer *x, const struct copse_link *links);
/* How often a plan was made, for tests. */
unsigned copse__value_plans(const copse_value_reducer *x);

#endif
