/* SPDX-License-Identifier: MIT */
/* Host functions of the kernels that sum integers and divide sums by a count. Like those of the other
   reduction kernels they give the bits that every device gives. */
#include "core/device/device.h"
#include "core/reduce/packing.h"

copse_host_fn copse_host_sum_i32, copse_host_mean;

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

/* The quotient of an i32 by less than 2^16 is 2^-41 of itself away from the middle of two floats, or just
   there: rounding to double first does no harm. */
void copse__mean_values(const void *sums, void *means, size_t count, uint32_t divisor, bool is_whole)
{
    const unsigned char *from = sums;
    unsigned char *to = means; /* may be the same memory */
    for (size_t i = 0; i < count; i++) {
        int32_t whole;
        float sum, mean;
        memcpy(&whole, from + 4 * i, sizeof whole);
        memcpy(&sum, from + 4 * i, sizeof sum);
        mean = is_whole ? (float)((double)whole / divisor) : sum / (float)divisor;
        memcpy(to + 4 * i, &mean, sizeof mean);
    }
}
