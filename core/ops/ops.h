/* SPDX-License-Identifier: MIT */
/* Shared by the op files: reductions as launches, strided walks, helpers of gradients. */
#ifndef COPSE_CORE_OPS_H
#define COPSE_CORE_OPS_H

#include "copse/ops.h"
#include "core/device/kernel/divisor.h"
#include "core/graph/graph.h"

#define COPSE_CHAIN 64 /* maximum of elements per invocation of a reduction */

/* COPSE_ERR_ARGUMENT if a pointer is NULL, or an operand is a failed result of another graph. The
   status of the graph, without a text, if it has failed. */
copse_status copse__check_operands(const char *op, const copse_graph *g,
                                   copse_tensor *const *operands, size_t count);
#define COPSE_CHECK_OPERANDS(op, g, ...)                            \
    copse__check_operands(op, g, (copse_tensor *[]){ __VA_ARGS__ }, \
                          sizeof((copse_tensor *[]){ __VA_ARGS__ }) / sizeof(copse_tensor *))

/* f16 and bf16 operands become f32, for ops that look at types before they add a node. */
copse_status copse__compute_in_f32(copse_graph *g, copse_tensor ***operands, size_t count);
#define COPSE_COMPUTE_IN_F32(g, ...)                              \
    copse__compute_in_f32(g, (copse_tensor * *[]){ __VA_ARGS__ }, \
                          sizeof((copse_tensor **[]){ __VA_ARGS__ }) / sizeof(copse_tensor **))

/* x as a constant: nothing is differentiated through it. (reshape.c) */
copse_tensor *copse__detach(copse_graph *g, copse_tensor *x);

/* ---- strided walks (strided.c) ---- */

/* A walk over `shape` with one or two strides per axis: axes of size 1 dropped, neighbours merged,
   numbered from the innermost one like in kernels. */
struct copse_walk {
    uint32_t rank; /* >= 1 */
    uint32_t dims[COPSE_MAX_RANK], a[COPSE_MAX_RANK], b[COPSE_MAX_RANK];
    uint32_t m[COPSE_MAX_RANK], h[COPSE_MAX_RANK]; /* division by dims[i], see copse__divisor */
};
void copse__walk(copse_shape shape, const uint32_t *a, const uint32_t *b, struct copse_walk *out);
void copse__strides(copse_shape shape, uint32_t *strides);
/* Strides of `from` in a walk over a shape that it broadcasts to. */
void copse__broadcast_strides(copse_shape from, copse_shape to, uint32_t *strides);

/* Copy between a dense tensor of `shape` and a strided location: from the location, or to it. */
copse_status copse__lower_copy(struct copse_lowering *l, copse_type type, copse_shape shape,
                               const uint32_t *strides, uint32_t offset, bool is_scatter,
                               const copse_tensor *from, const copse_tensor *to);
copse_status copse__launch_strided(struct copse_lowering *l, copse_type type, copse_shape shape,
                                   const uint32_t *strides, uint32_t offset, bool is_scatter,
                                   struct copse_operand from, struct copse_operand to);
copse_status copse__lower_fill(struct copse_lowering *l, const copse_tensor *to, double value);
/* An operand of `count` = 0 elements becomes scratch memory that the kernel does not read: each
   argument needs a buffer with bytes. */
copse_status copse__give_bytes(struct copse_lowering *l, uint64_t count, struct copse_operand *x);

/* ---- reductions (reduce.c) ---- */

enum copse_reduce_kind { COPSE_AXIS_SUM, COPSE_AXIS_MEAN, COPSE_AXIS_MAX };

/* Attributes of a reduction over the middle of [outer, count, inner], and of its transpose,
   repeat. */
struct copse_reduce_attr {
    int32_t kind;
    uint32_t outer, count, inner;
    copse_shape shape; /* of the result */
};
copse_status copse__reduce_infer(const copse_tensor *y, copse_shape *shape, copse_type *type);
copse_status copse__reduce_lower(struct copse_lowering *l, const copse_tensor *y);
/* Reduce axes with nodes of `op`, one for each run of adjacent axes. */
copse_tensor *copse__reduce(copse_graph *g, const struct copse_op *op, enum copse_reduce_kind kind,
                            copse_tensor *x, const uint32_t *axes, size_t axis_count,
                            bool keep_dims);
/* Reduce the middle of [outer, count, inner], in as many passes as necessary. */
copse_status copse__lower_reduce(struct copse_lowering *l, enum copse_reduce_kind kind,
                                 uint32_t outer, uint32_t count, uint32_t inner,
                                 struct copse_operand from, struct copse_operand to);
copse_tensor *copse__sum_middle(copse_graph *g, copse_tensor *x, uint32_t outer, uint32_t count,
                                uint32_t inner, copse_shape shape);
/* Repeat t, which has the shape of the reduction y, to the shape of y's operand. */
copse_tensor *copse__repeat_back(copse_graph *g, const copse_tensor *y, copse_tensor *t);
/* The transpose of broadcasting: sum x down to `shape`. */
copse_tensor *copse__sum_to(copse_graph *g, copse_tensor *x, copse_shape shape);
/* x / divisor. */
COPSE_PRIVATE copse_tensor *copse__divide_by(copse_graph *g, copse_tensor *x, float divisor);
/* Huber's loss of each element; delta is finite and above 0. */
COPSE_PRIVATE copse_tensor *copse__huber(copse_graph *g, copse_tensor *x, float delta);

/* x, a mean over this replica's examples, becomes that over the examples of all replicas
   (all_reduce.c). */
copse_tensor *copse__mean_over_batch(copse_graph *g, copse_tensor *x);

/* ---- losses (averaging.c) ---- */

/* COPSE_ERR_ARGUMENT if it is no averaging. */
copse_status copse__check_averaging(const char *op, copse_averaging averaging);
/* The losses as their averaging says: their mean or sum, or themselves. */
COPSE_PRIVATE copse_tensor *copse__average(copse_graph *g, copse_tensor *losses,
                                           copse_averaging averaging);

/* The mean of losses over their weights, which are those of the examples of all replicas; NaN if
   these are 0. */
copse_tensor *copse__weighted_mean(copse_graph *g, copse_tensor *losses, copse_tensor *weights);

/* Add x to the values at the location of the result: only for programs that place the result
   (add_in_place.c). */
copse_tensor *copse__add_in_place(copse_graph *g, copse_tensor *x);

/* A scalar tensor read from the step buffer in each step (fill.c). */
COPSE_PRIVATE copse_tensor *copse__step_scalar(copse_graph *g, enum copse_step_word word);

#endif
