/* SPDX-License-Identifier: MIT */
/* Ops of applications inside the library. */
#ifndef COPSE_CORE_USER_OP_H
#define COPSE_CORE_USER_OP_H

#include "copse/ops/user_op.h"
#include "core/graph/case.h"
#include "core/ops/ops.h"

#define COPSE_USER_ROWS     4    /* cases with other numbers of rows */
#define COPSE_USER_SETTINGS 256u /* most bytes of settings of a call */

/* A case of conformance: a sample of an op. */
struct copse_user_case {
    const copse_user_op *op;
    const void *settings;
};

struct copse_user_op {
    copse_user_op *next; /* in the context's list */
    copse_context *ctx;
    struct copse_arena arena;      /* of everything that is copied */
    struct copse_user_op_params p; /* its texts and arrays are in the arena */
    struct copse_user_kernel kernel;
    uint32_t id; /* of the kernel */
    struct copse_op op;
    struct copse_case_table table;
};

/* Set op->op (user_op_call.c). */
void copse__user_op_node(copse_user_op *op);
/* The op of a node, or NULL for an op of the library. */
COPSE_PRIVATE const copse_user_op *copse__user_op_of(const copse_tensor *t);

/* The launch of a call with these shapes; the result has the shape `y`. */
copse_status copse__user_launch(const copse_user_op *op, const copse_shape *shapes, copse_shape y,
                                const void *settings, uint32_t group_size,
                                struct copse_user_launch *out);
copse_status copse__user_shape(const copse_user_op *op, const copse_shape *shapes,
                               const void *settings, copse_shape *out);

/* The self-test, from the samples (user_op_samples.c). */
copse_self_test_fn copse__user_self_test;
/* Check the samples, and make the table of cases from them. */
copse_status copse__user_samples(copse_user_op *op);

/* The tables of the context's ops: writes up to `room` of them and returns their number. */
COPSE_PRIVATE size_t copse__user_tables(copse_context *ctx, const struct copse_case_table **list,
                                        size_t room);

#endif
