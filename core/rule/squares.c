/* SPDX-License-Identifier: MIT */
/* Exact sums of squares in fixed point. A term is s u^2: s has 24 bits and is 0 or from 1 to 2^11,
   u is a power of two from 2^-126 to 2^126. So its lowest bit is 2^-275 at least and its highest
   one 2^263 at most: 17 digits of 32 bits, and one for carries. */
#include "core/rule/squares.h"

#include <math.h>
#include <string.h>

#define DIGITS   18
#define INFINITE 18 /* word */
#define NANS     19
#define LOWEST   275

static uint32_t bits_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static int exponent_of(uint32_t word)
{
    return (int)(word >> 23 & 0xff) - 127;
}

void copse__squares_add(struct copse_squares *sum, const float *parts, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++) {
        const uint32_t s = bits_of(parts[2 * b]), u = bits_of(parts[2 * b + 1]);
        const uint64_t mantissa = (s & 0x7fffff) | 0x800000;
        if (s << 1 == 0)
            continue;
        if ((s & 0x7f800000) == 0x7f800000) {
            sum->words[s & 0x7fffff ? NANS : INFINITE]++;
            continue;
        }
        const unsigned at = (unsigned)(exponent_of(s) - 23 + 2 * exponent_of(u) + LOWEST);
        const uint64_t shifted = mantissa << at % 32;
        sum->words[at / 32] += (uint32_t)shifted;
        sum->words[at / 32 + 1] += shifted >> 32;
    }
}

void copse__squares_carry(struct copse_squares *sum)
{
    for (int i = 0; i + 1 < DIGITS; i++) {
        sum->words[i + 1] += sum->words[i] >> 32;
        sum->words[i] = (uint32_t)sum->words[i];
    }
}

void copse__squares_join(struct copse_squares *sum, const struct copse_squares *other)
{
    for (int i = 0; i < COPSE_SQUARES_WORDS; i++)
        sum->words[i] += other->words[i];
}

double copse__squares_root(const struct copse_squares *sum)
{
    struct copse_squares s = *sum;
    double value = 0.0;
    if (s.words[NANS] > 0)
        return (double)NAN;
    if (s.words[INFINITE] > 0)
        return (double)INFINITY;
    copse__squares_carry(&s);
    for (int i = DIGITS - 1; i >= 0; i--)
        value += ldexp((double)s.words[i], 32 * i - LOWEST);
    return sqrt(value);
}
