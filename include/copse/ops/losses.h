/* SPDX-License-Identifier: MIT */
/** @file
 * Losses. The rules of copse/ops.h hold here too.
 *
 * Every loss is first a tensor of losses, which the averaging makes one number: COPSE_MEAN,
 * COPSE_SUM, or COPSE_EACH for the tensor itself. Under several replicas COPSE_MEAN gives the
 * gradient of the mean over the global batch: replicas are weighted by their examples, and a mean
 * that is weighted by examples' own weights (copse_cross_entropy) is divided by the mean weight of
 * the global batch, which takes one all-reduce of a number.
 */
#ifndef COPSE_PUBLIC_OPS_LOSSES_H
#define COPSE_PUBLIC_OPS_LOSSES_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Settings of copse_cross_entropy. A zeroed struct, or NULL, means the defaults in brackets. */
struct copse_cross_entropy_params {
    copse_averaging averaging; /**< [COPSE_MEAN] */
    /** e, 0 to 1 (Szegedy et al., "Rethinking the Inception architecture", 2016) [0] */
    float label_smoothing;
    /** f32 [classes]; no derivative is computed for them [NULL = 1] */
    copse_tensor *class_weights;
    bool ignores;          /**< whether examples with ignored_label count nothing [false] */
    int32_t ignored_label; /**< any number, also one out of range */
    uint64_t reserved[4];  /**< 0 */
};

/**
 * Cross-entropy of softmax(logits) with label smoothing, class weights and an ignored label. With
 * the label y of an example, its C logits and p = softmax(logits), the example's loss is the sum
 * over classes c of -q_c log p_c, where q_c = weight_c ((1 - e) [c = y] + e / C).
 *
 * COPSE_MEAN divides the sum of the losses by the sum of weight_y over the examples that are not
 * ignored, as torch.nn.CrossEntropyLoss does; NaN if that is 0. Without settings it is
 * copse_sparse_cross_entropy.
 *
 * @param logits  f32 [examples, classes], at least one class.
 * @param labels  i32 [examples]. An ignored example has loss and gradient 0, whatever its logits
 *                are. Another label out of range makes the loss and the gradient of its row NaN.
 * @param params  NULL: the defaults.
 * @param out     A scalar; COPSE_EACH: [examples].
 *
 * A class with q_c = 0 adds nothing, also where its logit is infinite.
 */
COPSE_API COPSE_CHECKED copse_tensor *
copse_cross_entropy(copse_graph *g, copse_tensor *logits, copse_tensor *labels,
                    const struct copse_cross_entropy_params *params);

/**
 * copse_cross_entropy of the logits x w + bias, which are not kept: they are computed for a chunk
 * of classes at a time, and again for the derivative. For large vocabularies: the memory does not
 * grow with examples times classes. The products convert their operands as those of copse_dense do.
 *
 * @param x       f32 [examples, width].
 * @param w       f32 [width, classes], at least one class.
 * @param bias    f32 [classes]; NULL = none.
 * @param labels  As of copse_cross_entropy.
 * @param params  Without label_smoothing and class_weights: COPSE_ERR_UNSUPPORTED. NULL: the
 *                defaults.
 * @param out     A scalar; COPSE_EACH: [examples].
 * @param hits    f32 [examples], without a derivative: 1 where the label has the largest logit,
 *                else 0. NULL: not wanted.
 */
COPSE_API copse_tensor *copse_dense_cross_entropy(copse_graph *g, copse_tensor *x, copse_tensor *w,
                                                  copse_tensor *bias, copse_tensor *labels,
                                                  const struct copse_cross_entropy_params *params,
                                                  copse_tensor **hits);

/**
 * Binary cross-entropy of sigmoid(logits): -w y log sigmoid(x) - (1 - y) log sigmoid(-x), for each
 * element.
 *
 * @param logits           f32.
 * @param targets          y: f32 of the same shape, 0 to 1. Infinite logits with targets 0 or 1
 *                         give 0 or infinity.
 * @param positive_weight  w: f32, one number or of the shape of the last axes; NULL = 1.
 * @param averaging        The mean is over all elements.
 */
COPSE_API COPSE_CHECKED copse_tensor *
copse_binary_cross_entropy(copse_graph *g, copse_tensor *logits, copse_tensor *targets,
                           copse_tensor *positive_weight, copse_averaging averaging);

/** Huber's loss (1964) of d = a - b, with broadcasting: d^2 / 2 where |d| <= delta, else delta (|d|
    - delta / 2).
    @param delta  Finite, above 0. */
COPSE_API COPSE_CHECKED copse_tensor *copse_huber_loss(copse_graph *g, copse_tensor *a,
                                                       copse_tensor *b, float delta,
                                                       copse_averaging averaging);
/** Smooth L1 loss (Girshick, "Fast R-CNN", 2015): Huber's loss with delta = beta, divided by beta.
    With beta 0: |a - b|.
    @param beta  Finite, 0 or more. */
COPSE_API COPSE_CHECKED copse_tensor *copse_smooth_l1_loss(copse_graph *g, copse_tensor *a,
                                                           copse_tensor *b, float beta,
                                                           copse_averaging averaging);

/**
 * Kullback-Leibler divergence: the sum over the last axis of p (log p - log q), 0 where p is 0.
 * There the derivative with respect to p is 0, too.
 *
 * @param log_q      f32, rank 1 or more, for example from copse_log_softmax.
 * @param p          f32 of the same shape. A negative number gives NaN.
 * @param averaging  Over the rows: torch's "batchmean" is COPSE_MEAN.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_kl_divergence(copse_graph *g, copse_tensor *log_q,
                                                          copse_tensor *p,
                                                          copse_averaging averaging);

/** Cosine of the angle between vectors along the last axis: a.b / (max(|a|, 1e-8) max(|b|, 1e-8)).
    Lengths must be below
    1e19. @param a, b  f32 of one shape, rank 1 or more. @param out  Their shape without the last axis. */
COPSE_API COPSE_CHECKED copse_tensor *copse_cosine_similarity(copse_graph *g, copse_tensor *a,
                                                              copse_tensor *b);
/** 1 - cosine where the label is 1, max(0, cosine - margin) where it is -1, else NaN.
    @param labels  i32, of the shape of the result of copse_cosine_similarity.
    @param margin  -1 to 1. */
COPSE_API COPSE_CHECKED copse_tensor *
copse_cosine_embedding_loss(copse_graph *g, copse_tensor *a, copse_tensor *b, copse_tensor *labels,
                            float margin, copse_averaging averaging);

#if defined(__cplusplus)
}
#endif
#endif
