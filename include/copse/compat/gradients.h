/* SPDX-License-Identifier: MIT */
/** @file
 * Functions for gradient transforms, and summaries of the gradients of a step.
 */
#ifndef COPSE_PUBLIC_COMPAT_GRADIENTS_H
#define COPSE_PUBLIC_COMPAT_GRADIENTS_H

#include "copse/trainer.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** sqrt(sum of squares) of a tensor. */
COPSE_API COPSE_CHECKED copse_tensor *copse_gradient_norm(copse_graph *g, copse_tensor *gradient);
/** Scale each gradient with a larger norm down to the norm `largest` > 0; a NaN norm gives NaN,
    others keep their bits. */
COPSE_API void copse_gradients_clip_norms(copse_graph *g, struct copse_gradient *pairs,
                                          size_t count, float largest);
/** Scale all gradients by one factor so that their common norm is at most `largest` > 0.
    @param norm  Their norm before; NULL = not wanted. */
COPSE_API copse_tensor *copse_gradients_clip_global_norm(copse_graph *g,
                                                         struct copse_gradient *pairs, size_t count,
                                                         float largest);

/** A factor on the gradient of one variable. */
struct copse_multiplier {
    copse_variable *variable;
    float factor;
};
/** Multiply gradients by factors, in a gradient transform. @retval COPSE_ERR_ARGUMENT  A variable is not trained here. */
COPSE_API void copse_gradients_multiply(copse_graph *g, struct copse_gradient *pairs, size_t count,
                                        const struct copse_multiplier *factors,
                                        size_t factor_count);

/** Magnitudes from 10^-8 on, a factor of 10 per bin. */
#define COPSE_GRADIENT_LOW  (-8)
#define COPSE_GRADIENT_BINS 12
/** A replica's gradient of a variable in the newest (micro-)batch, after the transform and before
    the sum over the replicas. */
struct copse_gradient_summary {
    bool is_known; /**< false: the replica had no example */
    double norm;
    /** bins[0]: elements of a magnitude below 10^-8, and NaN; bins[i]: from 10^(i-9) to below
        10^(i-8); the last: from 10^3 on. Exact up to 2^24 elements. */
    uint64_t bins[COPSE_GRADIENT_BINS + 1];
    uint64_t reserved[4]; /**< 0 */
};
/** Needs `summarize_gradients` in copse_trainer_params.
    @retval COPSE_ERR_ARGUMENT  This trainer does not summarize gradients of the variable. */
COPSE_API COPSE_CHECKED copse_status copse_trainer_gradient(const copse_trainer *t,
                                                            const copse_variable *v,
                                                            uint32_t replica,
                                                            struct copse_gradient_summary *out);

#if defined(__cplusplus)
}
#endif
#endif
