/* SPDX-License-Identifier: MIT */
/* Reductions of values: blocks of several contributors become one sum or mean, which is copied to several
   destinations. All algorithms evaluate the canonical tree of schedule.h over the contributors. */
#ifndef COPSE_VALUE_REDUCE_H
#define COPSE_VALUE_REDUCE_H

#include "copse/distribute/cross_device.h"
#include "core/reduce/block.h"
#include "core/reduce/packing.h"
#include "core/reduce/schedule.h"

enum copse_collective {
    COPSE_COLLECTIVE_TO_ONE,       /* summed at the root */
    COPSE_COLLECTIVE_SHARDED,      /* every rank sums its share */
    COPSE_COLLECTIVE_HIERARCHICAL, /* both halves of the tree at a root each, then joined */
};

/* ---- plans: pure integers (value_plan.c) ---- */

/* Everything that a plan depends on. */
struct copse_plan_params {
    enum copse_collective algorithm;
    uint32_t root;         /* TO_ONE: a rank, or COPSE_HOST */
    uint32_t ranks;        /* that may own a job */
    uint32_t contributors; /* contributor i is rank i */
    uint64_t max_row;      /* most elements of a row, of which an owner keeps contributors + 1 */
    struct copse_packing packing;
    const uint64_t *elements; /* of every array */
    size_t arrays;
};

/* The owner sums contributors [lo, hi) over elements [first, first + count) of the round. */
struct copse_job {
    uint32_t owner, lo, hi;
    uint64_t first, count;
};
/* Elements [first, first + count) of a pack. */
struct copse_round {
    size_t pack;
    uint64_t first, count;
    size_t first_job, job_count;
    bool is_joined; /* the second job's sum is added to the first one's */
};

struct copse_plan {
    struct copse_plan_params params; /* `elements` is a copy */
    struct copse_packs packs;
    struct {
        struct copse_job *at;
        size_t count, room;
    } jobs;
    struct {
        struct copse_round *at;
        size_t count, room;
    } rounds;
    uint64_t longest; /* elements of the longest round */
};

copse_status copse__plan_make(struct copse_mem *mem, const struct copse_plan_params *params,
                              struct copse_plan *out);
void copse__plan_fini(struct copse_mem *mem, struct copse_plan *plan);
bool copse__plan_is_for(const struct copse_plan *plan, const struct copse_plan_params *params);

/* Iterate over the arrays of a pack within its elements [first, first + count): *cursor is a part, at first
   copse__piece_start. Elements [piece->first, ...) of piece->array are at piece->at of the range. */
size_t copse__piece_start(const struct copse_plan *plan, size_t pack, uint64_t first);
bool copse__piece_next(const struct copse_plan *plan, size_t pack, uint64_t first, uint64_t count,
                       size_t *cursor, struct copse_part *piece);

/* ---- reducers (value_reduce.c): the memory that reductions between given queues use ---- */

typedef struct copse_reducer copse_reducer;

copse_status copse__reducer_create(copse_context *ctx, copse_queue *const *queues, uint32_t count,
                                   copse_reducer **out);
void copse__reducer_release(copse_reducer **x); /* waits for queued work */

struct copse_reduction {
    enum copse_collective algorithm;
    uint32_t root;               /* TO_ONE: a rank, or COPSE_HOST */
    const struct copse_packing *packing;
    copse_type type;             /* of every contribution */
    uint32_t divisor;            /* 0 = sum; else below 2^16, and the results are f32 */
    struct copse_block *const *from; /* [contributors][arrays], on queues of the reducer or the host; the
                                        arrays of all contributors are equally long */
    uint32_t contributors;
    size_t arrays;
    const uint32_t *to;          /* ranks, or COPSE_HOST; no two the same */
    uint32_t to_count;
};
/* out[array * to_count + i] receives one reference each. On failure none, and queued work has run. The
   same reduction again makes no plan, compiles nothing, and takes device memory from pools. */
copse_status copse__blocks_reduce(copse_reducer *x, const struct copse_reduction *r,
                                  struct copse_block **out);

/* Costs of the links, measured by the first call: [ranks], then the host. */
copse_status copse__reducer_links(copse_reducer *x, const struct copse_link **links);
void copse__reducer_set_links(copse_reducer *x, const struct copse_link *links);
/* How often a plan was made, for tests. */
unsigned copse__reducer_plans(const copse_reducer *x);

#endif
