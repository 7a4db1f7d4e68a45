/* SPDX-License-Identifier: MIT */
/* Host functions of the reduction kernels, in stepwise single precision: these bits are promised on
   every device. They never stand in a graph, so their arguments are float. */
#include "core/device/device.h"
#include "core/reduce/schedule.h"

copse_host_fn copse_host_tree_sum, copse_host_accumulate;

/* The canonical tree over value[0..ranks), in place. */
static float tree(float *value, uint32_t ranks)
{
    for (uint32_t width = 1; width < ranks; width *= 2)
        for (uint32_t r = 0; r + width < ranks; r += 2 * width)
            value[r] = value[r] + value[r + width];
    return value[0];
}

void copse_host_tree_sum(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_tree_sum *p = params;
    const uint32_t ranks = (uint32_t)spec[2];
    const float *parts = args[0].data;
    float *sums = args[1].data, value[COPSE_MAX_REPLICAS] = { 0 };
    for (size_t i = 0; i < p->n; i++) {
        for (uint32_t r = 0; r < ranks; r++)
            value[r] = parts[p->base + i + (size_t)r * p->stride];
        sums[i] = tree(value, ranks);
    }
}

void copse_host_accumulate(const void *params, const int32_t *spec,
                           const struct copse_host_arg *args)
{
    const struct copse_params_accumulate *p = params;
    const float *x = args[0].data;
    float *acc = args[1].data;
    (void)spec;
    for (size_t i = 0; i < p->n; i++)
        acc[i] = acc[i] + x[i];
}
