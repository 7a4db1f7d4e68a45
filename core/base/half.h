/* SPDX-License-Identifier: MIT */
/* Conversion between 16-bit floating point and f32: IEEE 754 binary16, and bfloat16, the upper half
   of a binary32. To 16 bits, values are rounded to nearest, ties to even. */
#ifndef COPSE_CORE_HALF_H
#define COPSE_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t copse__bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float copse__of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float copse__f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = (h >> 10) & 31,
                   fraction = h & 0x3ff;
    if (exponent == 31)
        return copse__of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent > 0)
        return copse__of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = (float)fraction * 0x1p-24f; /* exact */
    return sign ? -small : small;
}

static inline float copse__bf16_to_f32(uint16_t h)
{
    return copse__of_bits((uint32_t)h << 16);
}

/* The bits above `shift`, rounded to nearest, ties to even. */
static inline uint32_t copse__round_shift(uint32_t bits, uint32_t shift)
{
    const uint32_t half = 1u << (shift - 1);
    return (bits + half - 1 + (bits >> shift & 1)) >> shift;
}

static inline uint16_t copse__f32_to_f16(float f)
{
    const uint32_t bits = copse__bits_of(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) /* NaN: quiet, with the upper bits of its payload */
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));
    if (size >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000) /* 2^-14: normal; the carry of a fraction goes to the exponent */
        return (uint16_t)(sign | copse__round_shift(size - 0x38000000, 13));
    if (size < 0x33000000) /* below 2^-25 */
        return (uint16_t)sign;
    const uint32_t shift = 126 - (size >> 23); /* 14 to 24: units of 2^-24 */
    return (uint16_t)(sign | copse__round_shift((size & 0x7fffff) | 0x800000, shift));
}

static inline uint16_t copse__f32_to_bf16(float f)
{
    const uint32_t bits = copse__bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)copse__round_shift(bits, 16);
}

#endif
