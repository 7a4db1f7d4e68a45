/* SPDX-License-Identifier: MIT */
/* Normalisation of channels by statistics over places: group, instance and batch norm. */
#ifndef COPSE_CORE_CHANNEL_NORM_H
#define COPSE_CORE_CHANNEL_NORM_H

#include "core/graph/graph.h"

struct copse_channel_norm {
    copse_tensor *x;             /* f32 [batches, places, channels]: each batch has statistics of its own */
    copse_tensor *scale, *offset; /* f32 [channels] */
    uint32_t groups;             /* of channels with one mean and variance; divides the channels */
    float epsilon;
    bool is_synchronised;        /* one batch, whose statistics are those of the batches of all replicas */
};
/* Whether the kernels can process so many places in groups of so many channels. */
bool copse__channel_norm_fits(uint32_t places, uint32_t group);
/* y, and mean and variance [batches, channels] (NULL: not wanted). */
copse_status copse__channel_norm(copse_graph *g, const struct copse_channel_norm *n, copse_tensor **mean,
                                 copse_tensor **variance, copse_tensor **y);

#endif
