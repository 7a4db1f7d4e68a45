/* SPDX-License-Identifier: MIT */
/* Division by a parameter in kernels (kernels/divide.clh). */
#ifndef COPSE_DIVISOR_H
#define COPSE_DIVISOR_H

#include <stdint.h>

/* The constants with which kernels divide i < 2^31 by d > 0: ((2 i m) >> 32) >> h. */
static inline void copse__divisor(uint32_t d, uint32_t *m, uint32_t *h)
{
    *h = 0;
    while (((uint64_t)1 << *h) < d)
        (*h)++;
    *m = d ? (uint32_t)((((uint64_t)1 << (31 + *h)) + d - 1) / d) : 0;
}

#endif
