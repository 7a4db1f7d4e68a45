/* SPDX-License-Identifier: MIT */
/* Normalisation of channels by statistics over places: group, instance and batch norm. */
#ifndef COPSE_CORE_CHANNEL_NORM_H
#define COPSE_CORE_CHANNEL_NORM_H

#include "core/graph/graph.h"
#include "core/graph/op.h"

struct copse_channel_norm {
    copse_tensor *x;              /* f32 [.., channels] */
    uint32_t batches;             /* parts of its other elements with statistics of their own */
    copse_tensor *scale, *offset; /* f32 [channels] */
    uint32_t groups;              /* of channels with one mean and variance; divides the channels */
    float epsilon;
    /* one batch, whose statistics are those of the batches of all replicas */
    bool is_synchronised;
};
/* Whether the kernels can process so many places in groups of so many channels. */
bool copse__channel_norm_fits(uint32_t places, uint32_t group);
/* y, and mean and variance [batches, channels] (NULL: not wanted). */
copse_tensor *copse__channel_norm(copse_graph *g, const struct copse_channel_norm *n,
                                  copse_tensor **mean, copse_tensor **variance);

/* ---- launches ---- */

/* OP of kernels/norm/channel_sums.cl and channel_merge.cl, and their variants. */
enum { COPSE_CHANNEL_MEAN, COPSE_CHANNEL_SPREAD, COPSE_CHANNEL_SLOPES };

/* Sums over the places of x. Tensors that the kernels do not read are NULL. */
struct copse_channel_sums {
    int32_t op;
    uint32_t group;    /* channels that are added */
    copse_shape shape; /* of x, as [batches, places, channels] */
    const copse_tensor *x, *slope, *mean, *inverse;
};
/* y: the sums (channel_sums_variants.c). */
copse_status copse__lower_channel_sums(struct copse_lowering *l, const copse_tensor *y,
                                       const struct copse_channel_sums *s);

/* x as [batches, places, channels]; `inverse` has one number for each batch and channel. */
copse_shape copse__channel_shape(const copse_tensor *x, const copse_tensor *inverse);

/* OP of kernels/norm/channel_norm.cl, and its variant. */
enum copse_channel_op {
    COPSE_CHANNEL_FORWARD,
    COPSE_CHANNEL_GRADIENT,
    COPSE_CHANNEL_RELU, /* of the normalised channels */
    COPSE_CHANNEL_SUM,  /* of them and r */
    COPSE_CHANNEL_RELU_OF_SUM
};
/* `to` gets: y of x, mean and rest, 1 / sigma, scale, offset; or dx of x, mean and rest, 1 / sigma,
   scale, dy, shares: the operands of `y`; r, or NULL (channel_norm_variants.c). */
copse_status copse__lower_channel_norm(struct copse_lowering *l, const copse_tensor *y,
                                       enum copse_channel_op op, const copse_tensor *r,
                                       const copse_tensor *to);

/* What channels are normalised by, from the mean [batches, channels] and the variance about it with
   the rest [2, batches, channels] (channel_finish.c): mean and rest [2, batches, channels], 1 /
   sigma, the variance. */
enum copse_channel_finish { COPSE_CHANNEL_CENTRE, COPSE_CHANNEL_INVERSE, COPSE_CHANNEL_VARIANCE };
copse_tensor *copse__channel_finish(copse_graph *g, enum copse_channel_finish op,
                                    copse_tensor *mean, copse_tensor *spread, float epsilon);
/* Part `i` of a pair [2, batches, channels]. */
copse_tensor *copse__channel_part(copse_graph *g, copse_tensor *pair, uint32_t i);

/* Least channels of the kernels for wide vectors: one vector. */
#define COPSE_WIDE_CHANNELS 16u

#endif
