/* SPDX-License-Identifier: MIT */
/* An exact sum of squares: the result has the same bits in any order of its terms, and whichever
   replica or worker adds which of them. */
#ifndef COPSE_SQUARES_H
#define COPSE_SQUARES_H

#include "core/base/base.h"

#define COPSE_SQUARES_WORDS 20

struct copse_squares {
    /* Digits of 32 bits with room for carries, the lowest one of weight 2^-275; then how many terms
       are infinite, and how many are NaN. */
    uint64_t words[COPSE_SQUARES_WORDS];
};

/* Add the parts of blocks as copse__rule_measure has them: s u^2 for each pair (s, u), s < 2^11. At
   most 2^31 of them between calls of copse__squares_carry. */
COPSE_PRIVATE void copse__squares_add(struct copse_squares *sum, const float *parts, size_t blocks);
/* Bring the carries to the digits above. Each sum is carried before it is joined. */
void copse__squares_carry(struct copse_squares *sum);
void copse__squares_join(struct copse_squares *sum, const struct copse_squares *other);
/* The root of a sum; infinite or NaN where a term is. */
COPSE_PRIVATE double copse__squares_root(const struct copse_squares *sum);

#endif
