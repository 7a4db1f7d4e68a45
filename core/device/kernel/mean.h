/* SPDX-License-Identifier: MIT */
/* Parameters of the kernel `mean`, which divides sums by a count. Reductions of values and the op
   all_reduce both use it, so that their means have the same bits. */
#ifndef COPSE_MEAN_H
#define COPSE_MEAN_H

#include <stdbool.h>

#include "kernel_ids.h" /* generated */

/* Whether the kernel's POWER is set: f32 sums are divided by a power of two without a division. */
static inline bool copse__mean_is_power(uint32_t count, bool is_whole)
{
    return !is_whole && (count & (count - 1)) == 0;
}

/* `n` sums divided by `count`, 1 to 2^16. */
static inline struct copse_params_mean copse__mean_params(uint32_t n, uint32_t count)
{
    struct copse_params_mean p = { .n = n, .divisor = count };
    for (; p.divisor <= 1u << 15; p.shift++)
        p.divisor <<= 1;
    /* ceil(2^47 / divisor): the product's bits from 2^47 on are the quotient of every i below 2^31
       (kernels/divide.clh) */
    p.m = (uint32_t)((((uint64_t)1 << 47) + p.divisor - 1) / p.divisor);
    return p;
}

#endif
