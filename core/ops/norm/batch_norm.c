/* SPDX-License-Identifier: MIT */
/* Statistics of the global batch, and batch norm by them. The features of an ordinary batch norm
   are the channels of one batch of statistics; other axes and factors are composed of several
   ops. */
#include <math.h>

#include "copse/distribute/sync.h"
#include "core/ops/norm/channel_norm.h"
#include "core/ops/ops.h"

/* Returns the mean. */
static copse_tensor *batch_norm_moments(copse_graph *g, copse_tensor *x, const uint32_t *axes,
                                        size_t axis_count, copse_tensor **centred,
                                        copse_tensor **variance)
{
    bool has_examples = axis_count == 0;
    if (axis_count > 0)
        COPSE_LATCH(g, copse_need("sync_moments", axes));
    for (size_t i = 0; i < axis_count; i++)
        has_examples |= axes[i] == 0;
    if (!has_examples)
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "sync_moments: axis 0, the examples, must be among the axes");
    copse_tensor *mean = copse_mean(g, x, axes, axis_count, true);
    mean = copse__mean_over_batch(g, mean);
    *centred = copse_sub(g, x, mean);
    *variance = copse_square(g, *centred);
    *variance = copse_mean(g, *variance, axes, axis_count, true);
    *variance = copse__mean_over_batch(g, *variance);
    return mean;
}

static copse_tensor *sync_moments(copse_graph *g, copse_tensor *x, const uint32_t *axes,
                                  size_t axis_count, copse_tensor **variance)
{
    copse_tensor *centred;
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("sync_moments", g, x));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    return batch_norm_moments(g, x, axes, axis_count, &centred, variance);
}

copse_tensor *copse_sync_moments(copse_graph *g, copse_tensor *x, const uint32_t *axes,
                                 size_t axis_count, copse_tensor **variance)
{
    copse_tensor *of_x, *mean = sync_moments(g, x, axes, axis_count, &of_x);
    if (variance)
        *variance = copse__is_failed(mean) ? mean : of_x;
    return mean;
}

/* ---- batch norm ---- */

static bool is_of_channels(const copse_tensor *t, uint32_t channels)
{
    return t && t->type == COPSE_F32 && t->shape.rank == 1 && t->shape.dims[0] == channels;
}

/* Whether the statistics are those of the last axis over all others, with a factor and a summand
   for each of its elements. */
static bool is_of_features(const copse_tensor *x, const uint32_t *axes, size_t axis_count,
                           const struct copse_batch_norm *s)
{
    const uint32_t rank = x->shape.rank;
    bool is_reduced[COPSE_MAX_RANK] = { false };
    if (rank < 2 || axis_count != rank - 1 || x->type != COPSE_F32 ||
        copse__elements(x->shape) == 0)
        return false;
    for (size_t i = 0; i < axis_count; i++)
        if (axes[i] < rank)
            is_reduced[axes[i]] = true;
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (!is_reduced[i])
            return false;
    const uint32_t channels = x->shape.dims[rank - 1];
    return is_of_channels(s->gamma, channels) && is_of_channels(s->beta, channels) &&
           copse__channel_norm_fits((uint32_t)(copse__elements(x->shape) / channels), 1);
}

static copse_tensor *norm_features(copse_graph *g, copse_tensor *x,
                                   const struct copse_batch_norm *s, float epsilon,
                                   copse_tensor **mean, copse_tensor **variance)
{
    copse_shape one = x->shape;
    struct copse_channel_norm n = { .x = x,
                                    .batches = 1,
                                    .scale = s->gamma,
                                    .offset = s->beta,
                                    .groups = one.dims[one.rank - 1],
                                    .epsilon = epsilon,
                                    .is_synchronised = true };
    for (uint32_t i = 0; i + 1 < one.rank; i++)
        one.dims[i] = 1;
    copse_tensor *y = copse__channel_norm(g, &n, mean, variance);
    *mean = copse_reshape(g, *mean, one);
    *variance = copse_reshape(g, *variance, one);
    return y;
}

static copse_tensor *batch_norm_compose(copse_graph *g, copse_tensor *x, const uint32_t *axes,
                                        size_t axis_count, const struct copse_batch_norm *s,
                                        float epsilon, copse_tensor **mean, copse_tensor **variance)
{
    copse_tensor *centred;
    *mean = batch_norm_moments(g, x, axes, axis_count, &centred, variance);
    if (copse__is_failed(*mean))
        return *mean;
    copse_tensor *small = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)epsilon);
    copse_tensor *y = copse_add(g, *variance, small);
    y = copse_rsqrt(g, y);
    y = copse_mul(g, centred, y);
    if (s->gamma)
        y = copse_mul(g, y, s->gamma);
    return s->beta ? copse_add(g, y, s->beta) : y;
}

copse_tensor *copse_sync_batch_norm(copse_graph *g, copse_tensor *x, const uint32_t *axes,
                                    size_t axis_count, const struct copse_batch_norm *settings)
{
    COPSE_LATCH(g, copse_no_reserved(copse_batch_norm, settings));
    static const struct copse_batch_norm defaults = { 0 };
    const struct copse_batch_norm *s = settings ? settings : &defaults;
    const float epsilon = s->epsilon == 0.0f ? 1e-3f : s->epsilon;
    copse_tensor *mean, *variance, *y;
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("sync_batch_norm", g, x));
    COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &x));
    if (!(epsilon > 0.0f) || !isfinite(epsilon))
        return copse__refuse(g, COPSE_ERR_ARGUMENT,
                             "sync_batch_norm: epsilon is %g: a finite number > 0 "
                             "is needed",
                             (double)epsilon);
    if (axes && is_of_features(x, axes, axis_count, s))
        y = norm_features(g, x, s, epsilon, &mean, &variance);
    else
        y = batch_norm_compose(g, x, axes, axis_count, s, epsilon, &mean, &variance);
    if (copse__is_failed(y))
        mean = variance = y;
    if (s->mean)
        *s->mean = mean;
    if (s->variance)
        *s->variance = variance;
    return y;
}
