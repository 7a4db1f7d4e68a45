/* SPDX-License-Identifier: MIT */
/* Host functions of the reduction kernels, in stepwise single precision: every device gives these bits. No
   graph contains these kernels, so their arguments are f32 or i32. */
#include "core/reduce/schedule.h"
#include "core/reduce/tree.h"

copse_host_fn copse_host_tree_sum, copse_host_accumulate, copse_host_sum_i32, copse_host_mean;

#define NEAR_WORDS 128

/* Row r of `count` words begins at terms[r * stride]; `sums` may overlap the rows at the same elements. */
static void sum_rows(const uint32_t *terms, uint32_t *sums, size_t count, uint32_t stride, uint32_t row_count,
                     copse_type type)
{
    uint32_t near[COPSE_MAX_REPLICAS][NEAR_WORDS];
    void *rows[COPSE_MAX_REPLICAS];
    for (size_t at = 0; at < count; at += NEAR_WORDS) {
        const size_t n = COPSE_MIN(count - at, NEAR_WORDS);
        for (uint32_t r = 0; r < row_count; r++) {
            rows[r] = near[r];
            memcpy(near[r], terms + at + (size_t)r * stride, n * COPSE_WORD_BYTES);
        }
        copse__tree_rows(rows, row_count, n, type);
        memcpy(sums + at, near[0], n * COPSE_WORD_BYTES);
    }
}

void copse_host_tree_sum(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_tree_sum *p = params;
    sum_rows((const uint32_t *)args[0].data + p->base, args[1].data, p->n, p->stride, (uint32_t)spec[2], COPSE_F32);
}

void copse_host_sum_i32(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_sum_i32 *p = params;
    sum_rows(args[0].data, args[1].data, p->n, p->stride, (uint32_t)spec[2], COPSE_I32);
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

void copse_host_mean(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_mean *p = params;
    copse__mean_values(args[0].data, args[1].data, p->n, p->divisor >> p->shift, spec[2] != 0);
}
