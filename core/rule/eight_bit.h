/* SPDX-License-Identifier: MIT */
/* Numbers as 8-bit codes and a scale for each block of 128: the functions of
   kernels/rule/eight_bit.clh, which says what a code stands for, with the same bits. */
#ifndef COPSE_EIGHT_BIT_H
#define COPSE_EIGHT_BIT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/private.h"

/* of a magnitude; a mean has a sign, too */
enum { COPSE_CODE_MEAN_BITS = 7, COPSE_CODE_SQUARE_BITS = 8 };
#define COPSE_CODE_NOT_FINITE 128u /* of a mean */

/* The number of a code, 0 to 1. */
float copse__code_value(uint32_t code, uint32_t bits);
/* Element of a slot of means or squares. */
COPSE_PRIVATE float copse__code_mean(uint32_t code, float scale);
COPSE_PRIVATE float copse__code_square(uint32_t code, float scale);
/* Code `count` numbers, at most 128; returns the scale. The codes go to the bytes of `words`, the
   lowest byte of a word first; the other bytes of the last word become 0. */
float copse__code_means(const float *x, size_t count, uint32_t *words);
float copse__code_squares(const float *x, size_t count, uint32_t *words);

static inline uint32_t copse__code_at(const uint32_t *words, size_t i)
{
    return words[i / 4] >> i % 4 * 8 & 255u;
}

#endif
