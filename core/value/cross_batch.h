/* SPDX-License-Identifier: MIT */
/* A batch of structures during a reduction: its leaves, and the reduction that each needs. */
#ifndef COPSE_CROSS_BATCH_H
#define COPSE_CROSS_BATCH_H

#include "core/value/cross_device.h"

/* Bits, so that functions can take several needs. */
enum copse_need {
    COPSE_NEED_NOTHING = 0, /* goes to its destinations as it is */
    COPSE_NEED_F32 = 1,
    COPSE_NEED_I32 = 2,
    COPSE_NEED_DENSE = COPSE_NEED_F32 | COPSE_NEED_I32,
    COPSE_NEED_SPARSE = 4,
    COPSE_NEED_WHOLE_MEAN = 8, /* the mean of i32, whose sum has 64 bits */
};

struct copse_leaf {
    copse_value *value; /* reference: what is given, or a component instead */
    enum copse_need need;
    copse_value *result;
};

struct copse_cross_batch {
    const struct copse_cross_device_params *params;
    copse_strategy *st;
    copse_reduce_op op;
    uint32_t divisor; /* of a sum of all replicas; 0: none */
    bool is_broadcast;
    const char *subject;   /* of what the values are, such as a variable's name; or NULL */
    struct copse_ranks to; /* destinations of reduced leaves */
    /* no destinations were given: a leaf that needs nothing stays where it is */
    bool stays;
    struct copse_mem *mem;
    struct {
        struct copse_leaf *at;
        size_t count, room;
    } leaves;
};

/* The next leaf with one of these needs behind `leaf`, or the first (NULL); NULL at the end. */
struct copse_leaf *copse__leaf_next(const struct copse_cross_batch *b, unsigned needs,
                                    const struct copse_leaf *leaf);
/* The first component of a leaf that needs a reduction; all have its type and shape. */
static inline const copse_value *copse__leaf_first(const struct copse_leaf *leaf)
{
    return leaf->value->items[0];
}

/* The dense leaves of one type together, over the replicas of this worker (cross_dense.c). */
copse_status copse__dense_reduce(struct copse_cross_batch *b, enum copse_need need);
/* What the application's accumulation makes of the parts, at the root. */
copse_status copse__dense_accumulate(const struct copse_cross_batch *b, copse_value *const *parts,
                                     size_t count, copse_value **out);

/* Means of i32 (whole_mean.c): over the replicas of this worker; or as words to be summed as i32
   over the workers, two for each element, and as results from the words' sums. */
copse_status copse__whole_mean_reduce(struct copse_cross_batch *b);
copse_status copse__whole_mean_put(const struct copse_cross_batch *b, const struct copse_leaf *leaf,
                                   uint32_t *words);
copse_status copse__whole_mean_give(const struct copse_cross_batch *b, struct copse_leaf *leaf,
                                    const uint32_t *words);

/* All leaves that need something, over the replicas of all workers (cross_workers.c). `mine`: why
   this worker cannot take part, or COPSE_OK; all workers return it. */
copse_status copse__batch_workers(struct copse_cross_batch *b, copse_status mine);

#endif
