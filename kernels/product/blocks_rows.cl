/* SPDX-License-Identifier: MIT */
/* Rows of a matrix of blocks as f32, by index; or all rows, without indices. An invocation has a word. An index out of range
   gives NaN and reads nothing. */
GROUP(256, 1)
SPEC(0, HAS_INDICES)
SPEC(1, BITS)
SPEC(2, LOG_GROUP)
SPEC(3, HAS_OFFSETS)
PARAMS(uint count; uint width; uint m; uint h; uint rows;) /* count and width in words */

#include "divide.clh"
#include "product/blocks.clh"

KERNEL5(blocks_rows, IN(int, words), IN(real, scales), IN(real, offsets), IN(int, indices), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.count) {
        uint from = i;
        bool is_there = true;
        if (HAS_INDICES != 0) {
            const uint place = QUOTIENT(i, p.m, p.h), row = TO_U32(indices[place]);
            is_there = row < p.rows;
            from = row * p.width + i - place * p.width;
        }
        if (is_there) {
            const uint word = TO_U32(words[from]);
            const float scale = BLOCK_SCALE(scales, from * PER_WORD);
            const float offset = BLOCK_OFFSET(offsets, from * PER_WORD);
            UNROLL for (uint t = 0u; t < PER_WORD; t++)
                STORE(to, i * PER_WORD + t, block_value(word >> (NUMBER_BITS * t), scale, offset));
        } else {
            UNROLL for (uint t = 0u; t < PER_WORD; t++)
                STORE(to, i * PER_WORD + t, NAN_);
        }
    }
}
