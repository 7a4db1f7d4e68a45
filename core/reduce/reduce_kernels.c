/* SPDX-License-Identifier: MIT */
/* Host functions of the reduction kernels, in stepwise single precision: every device gives these bits. No graph
   contains these kernels, so their arguments are f32 or i32. */
#include "core/reduce/schedule.h"
#include "core/reduce/tree.h"

copse_host_fn copse_host_tree_sum, copse_host_accumulate, copse_host_sum_i32, copse_host_mean;

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

void copse_host_sum_i32(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_sum_i32 *p = params;
    const uint32_t *parts = args[0].data;
    uint32_t *sums = args[1].data;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t sum = 0;
        for (int32_t r = 0; r < spec[2]; r++)
            sum += parts[i + (size_t)r * p->stride];
        sums[i] = sum;
    }
}

void copse_host_mean(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_mean *p = params;
    copse__mean_values(args[0].data, args[1].data, p->n, p->divisor >> p->shift, spec[2] != 0);
}
