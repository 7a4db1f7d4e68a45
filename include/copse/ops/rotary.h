/* SPDX-License-Identifier: MIT */
/** @file
 * Rotary positions. The rules of copse/ops.h hold here too.
 */
#ifndef COPSE_PUBLIC_OPS_ROTARY_H
#define COPSE_PUBLIC_OPS_ROTARY_H

#include "copse/ops.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Which numbers turn, and by which angles: pair k of R / 2 pairs at position t by (t + offset)
    base^(-2 k / R). */
struct copse_rotary_params {
    float base;      /**< finite, above 0                                       [0: 10000] */
    uint32_t offset; /**< position of the first row                             [0] */
    uint32_t width;  /**< R: the first elements of each head that turn; even    [0: all] */
    uint32_t heads;  /**< the first heads that turn, others are copied          [0: all] */
    /** a pair is elements 2 k and 2 k + 1 [false: k and k + R / 2] */
    bool is_interleaved;
    uint64_t reserved[4]; /**< 0 */
};

/**
 * Rotary positions (Su et al., 2021): each pair (a, b) of a head becomes (a cos - b sin, b cos + a
 * sin) of its angle. Cosines and sines are computed on the host in double precision and rounded
 * once, also at large positions; graphs keep one table for calls of equal parameters. Errors of the
 * result are at most 4 * 2^-24 (|a cos| + |b sin|) of the rounded table's, which devices share.
 *
 * @param x       f32 [.., length, heads, width], rank 3 or more.
 * @param params  NULL for defaults.
 * @param y       The shape of x.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_rotary(copse_graph *g, copse_tensor *x,
                                                   const struct copse_rotary_params *params);

/**
 * The same with given cosines and sines, such as those of scaled positions. params->base and
 * params->offset do not count.
 *
 * @param turns  f32 [.., length, R]: R / 2 cosines, then R / 2 sines; its axes but the last are the
 *               last axes of [.., length] of x.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_rotary_by(copse_graph *g, copse_tensor *x,
                                                      copse_tensor *turns,
                                                      const struct copse_rotary_params *params);

#if defined(__cplusplus)
}
#endif
#endif
