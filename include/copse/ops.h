/* SPDX-License-Identifier: MIT */
/** @file
 * The operations of graphs. Each adds a node (or a few) and computes nothing yet. Rules:
 *
 *  - Operands are tensors of `g` or variables' tensors. The result lives as long as the graph. It is
 *    never NULL: after a failure it is a failed tensor, and the graph keeps status and text
 *    (copse_graph_status in copse/tensor.h).
 *  - COPSE_ERR_SHAPE: shapes or element types do not fit; the text names operation, operands and
 *    what was expected. COPSE_ERR_ARGUMENT: NULL, an operand of another graph, or a number out of
 *    its range.
 *  - A dimension may be 0; the result is then empty, unless the description says otherwise.
 *  - Operands and results are f32 and the operation has a derivative, unless the description says
 *    otherwise.
 *  - Special values are those of IEEE 754 on every device: NaN gives NaN.
 *
 * `copse/elementwise.h` (generated) has the functions without settings. Of one tensor: neg, abs,
 * square, sqrt, rsqrt, exp, log, relu, sigmoid, tanh, softplus (log(1 + e^x)), silu (x sigmoid(x)),
 * gelu (x (1 + erf(x / sqrt 2)) / 2; Hendrycks and Gimpel, 2016), erf. The derivatives of abs and
 * relu at 0 are 0. Of two tensors, with NumPy's broadcasting: add, sub, mul, div, maximum, minimum
 * (at a tie the first operand gets the derivative).
 */
#ifndef COPSE_PUBLIC_OPS_H
#define COPSE_PUBLIC_OPS_H

#include "copse/elementwise.h"
#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** How the losses of examples become one number. */
typedef enum copse_averaging {
    COPSE_MEAN, /**< their mean; NaN when there are none */
    COPSE_SUM,  /**< their sum; 0 when there are none */
    COPSE_EACH, /**< not at all; in copse/ops/losses.h only */
} copse_averaging;

/* ---- elementwise, with settings ---- */

/** x where x > 0, else slope x. The derivative at 0 is `slope`. */
COPSE_API COPSE_CHECKED copse_tensor *copse_leaky_relu(copse_graph *g, copse_tensor *x,
                                                       float slope);
/** x where x > 0, else alpha (e^x - 1) (Clevert, Unterthiner, Hochreiter, 2015). */
COPSE_API COPSE_CHECKED copse_tensor *copse_elu(copse_graph *g, copse_tensor *x, float alpha);
/** x to the power of a finite `exponent`, with the special cases of C's pow; NaN^0 is 1. */
COPSE_API COPSE_CHECKED copse_tensor *copse_pow(copse_graph *g, copse_tensor *x, float exponent);
/** min(max(x, low), high), low <= high. The derivative is 1 from low to high, ends included. */
COPSE_API COPSE_CHECKED copse_tensor *copse_clip(copse_graph *g, copse_tensor *x, float low,
                                                 float high);
/** factor x. */
COPSE_API COPSE_CHECKED copse_tensor *copse_multiply_by(copse_graph *g, copse_tensor *x,
                                                        float factor);

/** 1 where a equals b, else 0: f32. Operands are both f32 or both i32, with broadcasting; the
    derivative is 0. NaN equals nothing. */
COPSE_API COPSE_CHECKED copse_tensor *copse_equal(copse_graph *g, copse_tensor *a, copse_tensor *b);
/** 1 where a >= b, else 0; as copse_equal. */
COPSE_API COPSE_CHECKED copse_tensor *copse_greater_equal(copse_graph *g, copse_tensor *a,
                                                          copse_tensor *b);
/** 1 where a < b, else 0; as copse_equal. */
COPSE_API COPSE_CHECKED copse_tensor *copse_less(copse_graph *g, copse_tensor *a, copse_tensor *b);

/* ---- reductions ---- */

/**
 * Sum over some axes.
 *
 * @param axes       `axis_count` different axes, 0 = outermost; count 0 = all.
 * @param keep_dims  Reduced axes keep size 1; else they disappear.
 *
 * The sum of nothing is 0. No chain of additions is longer than 64.
 */
COPSE_API COPSE_CHECKED copse_tensor *
copse_sum(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t axis_count, bool keep_dims);
/** Mean over some axes, as copse_sum. The mean of nothing is NaN. */
COPSE_API COPSE_CHECKED copse_tensor *copse_mean(copse_graph *g, copse_tensor *x,
                                                 const uint32_t *axes, size_t axis_count,
                                                 bool keep_dims);
/** Largest element over some axes, as copse_sum; NaN where there is one, -Inf of nothing. Equal
    largest elements share the derivative equally. */
COPSE_API COPSE_CHECKED copse_tensor *
copse_max(copse_graph *g, copse_tensor *x, const uint32_t *axes, size_t axis_count, bool keep_dims);
/** Index (i32) of the largest element along one axis, which disappears and must not be empty: the
    lowest of equal ones, the first NaN. No derivative. */
COPSE_API COPSE_CHECKED copse_tensor *copse_argmax(copse_graph *g, copse_tensor *x, uint32_t axis);

/* ---- softmax and losses ---- */

/** e^x_i / sum of e^x_j over the last axis. Finite for finite x of any size; a row with a NaN, with
    +Inf, or of -Inf only is NaN. */
COPSE_API COPSE_CHECKED copse_tensor *copse_softmax(copse_graph *g, copse_tensor *x);
/** Logarithm of softmax, accurate near 1. */
COPSE_API COPSE_CHECKED copse_tensor *copse_log_softmax(copse_graph *g, copse_tensor *x);
/**
 * Cross-entropy: -log softmax(logits)[i, labels[i]], then mean or sum over i; a scalar.
 * @param logits  f32 [examples, classes], at least one class.
 * @param labels  i32 [examples], 0 .. classes - 1. A label out of range makes the loss and the
 *                gradient of its row NaN.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_sparse_cross_entropy(copse_graph *g,
                                                                 copse_tensor *logits,
                                                                 copse_tensor *labels,
                                                                 copse_averaging reduction);
/** Mean of (a - b)^2 over all elements, with broadcasting; a scalar. */
COPSE_API COPSE_CHECKED copse_tensor *copse_mean_squared_error(copse_graph *g, copse_tensor *a,
                                                               copse_tensor *b);

/* ---- norms ---- */

/**
 * Layer norm (Ba, Kiros and Hinton, 2016) over the last axis: (x - mean) / sqrt(variance + epsilon)
 * scale + offset, with mean and variance (divided by the count) of a row. A row with a NaN or an
 * infinity is NaN. Differences from the mean must be below 1e18.
 * @param x              Rank 1 or more, a last axis of n <= 2^19 elements.
 * @param scale, offset  [n].
 * @param epsilon        At least 1.18e-38.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_layer_norm(copse_graph *g, copse_tensor *x,
                                                       copse_tensor *scale, copse_tensor *offset,
                                                       float epsilon);
/** RMS norm (Zhang and Sennrich, 2019): x / sqrt(mean of x^2 + epsilon) scale; operands as
    copse_layer_norm. Elements must be below 1e18. A row with a NaN is NaN; an infinity gives NaN,
    and 0 in the rest of its row. */
COPSE_API COPSE_CHECKED copse_tensor *copse_rms_norm(copse_graph *g, copse_tensor *x,
                                                     copse_tensor *scale, float epsilon);

/* ---- shapes; f32 and i32 ---- */

/** The same elements under another shape. Costs nothing. */
COPSE_API COPSE_CHECKED copse_tensor *copse_reshape(copse_graph *g, copse_tensor *x,
                                                    copse_shape shape);
/** Axis i of the result is axis order[i] of x. */
COPSE_API COPSE_CHECKED copse_tensor *copse_transpose(copse_graph *g, copse_tensor *x,
                                                      const uint32_t *order);
/** The part of x from `start` with the sizes `size`, one entry per axis each. */
COPSE_API COPSE_CHECKED copse_tensor *copse_slice(copse_graph *g, copse_tensor *x,
                                                  const uint32_t *start, const uint32_t *size);
/** Join `count` (at least one) tensors along `axis`; types and other dimensions are equal. */
COPSE_API COPSE_CHECKED copse_tensor *copse_concat(copse_graph *g, copse_tensor *const *x,
                                                   size_t count, uint32_t axis);
/** x in `count` parts along `axis`, of `sizes` that sum to its size.
    @param sizes  NULL: equal parts.
    @param out    `count` results. */
COPSE_API void copse_split(copse_graph *g, copse_tensor *x, uint32_t axis, const uint32_t *sizes,
                           size_t count, copse_tensor **parts);
/** Join `count` tensors of one type and shape along a new axis. */
COPSE_API COPSE_CHECKED copse_tensor *copse_stack(copse_graph *g, copse_tensor *const *x,
                                                  size_t count, uint32_t axis);
/** x with before[i] and after[i] elements of `value`, rounded to the type, around it on axis i. */
COPSE_API COPSE_CHECKED copse_tensor *copse_pad(copse_graph *g, copse_tensor *x,
                                                const uint32_t *before, const uint32_t *after,
                                                double value);
/** a where `condition` (f32 or i32) is not zero, else b: both f32 or both i32; all three broadcast
    by NumPy's rule. NaN counts as nonzero. The other operand has no effect, not even with a NaN.
    `condition` has no derivative. */
COPSE_API COPSE_CHECKED copse_tensor *copse_where(copse_graph *g, copse_tensor *condition,
                                                  copse_tensor *a, copse_tensor *b);
/** x repeated to a larger shape by NumPy's rule. */
COPSE_API COPSE_CHECKED copse_tensor *copse_broadcast_to(copse_graph *g, copse_tensor *x,
                                                         copse_shape shape);

/* ---- others ---- */

/**
 * Rows of a table: an embedding. The derivative of a row is the sum over its positions, in one
 * order on every device.
 * @param table    f32 [rows, ...].
 * @param indices  i32, any shape, with a derivative at most 2^22 of them. An index out of range
 *                 gives a row of NaN.
 * @param out      [indices..., rest of table].
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_gather(copse_graph *g, copse_tensor *table,
                                                   copse_tensor *indices);

/** To f32, i32, f16 or bf16: i32 drops the fraction (out of range: the end of the range; NaN: 0),
    others round to nearest, ties to even. Derivatives are f32; i32 has none. */
COPSE_API COPSE_CHECKED copse_tensor *copse_cast(copse_graph *g, copse_tensor *x, copse_type type);
/** f32 [indices..., classes]: 1 at the index (i32), else 0; zeros for an index out of range. No
    derivative. */
COPSE_API COPSE_CHECKED copse_tensor *copse_one_hot(copse_graph *g, copse_tensor *indices,
                                                    uint32_t classes);
/** A tensor with these values of `type`, f32 or i32, row-major. They are copied. */
COPSE_API COPSE_CHECKED copse_tensor *copse_constant(copse_graph *g, copse_type type,
                                                     copse_shape shape, const void *values);
/** A tensor of one value, rounded to the type. */
COPSE_API COPSE_CHECKED copse_tensor *copse_fill(copse_graph *g, copse_type type, copse_shape shape,
                                                 double value);
/** An f32 scalar, as an operand: copse_mul(g, x, copse_scalar(g, 0.5)). */
COPSE_API COPSE_CHECKED copse_tensor *copse_scalar(copse_graph *g, double value);
/**
 * Dropout (Srivastava et al., 2014): each element is 0 with probability `rate`, else x / (1 -
 * rate). Axis 0 counts examples. The choice depends on seed, step, the place of this call in the
 * graph and the position of the element in the epoch, not on devices or the split of a batch.
 * @param rate         0 <= rate < 1.
 * @param is_training  false returns x.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_dropout(copse_graph *g, copse_tensor *x, float rate,
                                                    bool is_training);

#if defined(__cplusplus)
}
#endif
#endif
