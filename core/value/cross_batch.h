/* SPDX-License-Identifier: MIT */
/* A batch of structures during a reduction: its leaves, and the reduction that each needs. */
#ifndef COPSE_CROSS_BATCH_H
#define COPSE_CROSS_BATCH_H

#include "core/value/cross_device.h"

enum copse_need {
    COPSE_NEED_NOTHING, /* goes to its destinations as it is */
    COPSE_NEED_F32,
    COPSE_NEED_I32,
    COPSE_NEED_SPARSE,
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
    bool is_broadcast;
    const char *subject;        /* of what the values are, such as a variable's name; or NULL */
    struct copse_ranks destinations; /* count 0 = each value stays where it is */
    struct copse_mem *mem;
    struct {
        struct copse_leaf *at;
        size_t count, room;
    } leaves;
};

/* Of leaves that do not say where they go: to all replicas. */
void copse__batch_destinations(const struct copse_cross_batch *b, struct copse_ranks *out);
size_t copse__batch_count(const struct copse_cross_batch *b, enum copse_need need);
/* A leaf that needs nothing, at its destinations. */
copse_status copse__leaf_move(const struct copse_cross_batch *b, struct copse_leaf *leaf);

/* The dense leaves of one type together, over the replicas of this worker (cross_dense.c). */
copse_status copse__dense_reduce(struct copse_cross_batch *b, enum copse_need need);
/* The rank at which TO_ONE reduces, or COPSE_HOST. */
copse_status copse__dense_root(const struct copse_cross_batch *b, const struct copse_ranks *to,
                               uint32_t *root);
/* What the application's accumulation makes of the parts, all on one rank. */
copse_status copse__dense_accumulate(const struct copse_cross_batch *b, copse_value *const *parts,
                                     size_t count, copse_value **out);

/* All leaves that need something, over the replicas of all workers (cross_workers.c). `mine`: why this worker
   cannot take part, or COPSE_OK; all workers return it. */
copse_status copse__batch_workers(struct copse_cross_batch *b, copse_status mine);

#endif
