/* SPDX-License-Identifier: MIT */
/* C = A op(B) for a matrix B of blocks, whose elements are computed when they are loaded. */
GROUP(16, 16)
SPEC(0, B_TRANSPOSED)
SPEC(1, BITS)
SPEC(2, LOG_GROUP)
SPEC(3, HAS_OFFSETS)
PARAMS(uint m; uint n; uint k; uint k_begin; uint k_end; uint batch; uint a_each; uint a_count; uint b_each;
       uint b_count;)

#include "product/blocks.clh"

#define A_TRANSPOSED 0
#define REPEATS 0
#define A_OR(i, last, inside, z) LOAD_OR(a, i, last, inside, z)
#define B_OR(i, last, inside, z) PICK(inside, BLOCK_AT(words, scales, offsets, MIN(i, last)), z)
#define FINISH(v, j) (v)
/* One more than the tile: neighbours along k must not fall on one bank. */
GROUP_ARRAY(float, part_a, 16 * (4 * GROUP_Y + 1))
GROUP_ARRAY(float, part_b, 16 * (4 * GROUP_X + 1))

KERNEL5(matmul_blocks, IN(real, a), IN(int, words), IN(real, scales), IN(real, offsets), OUT(real, c))
{
    GROUP_ARRAY_HERE(float, part_a, 16 * (4 * GROUP_Y + 1))
    GROUP_ARRAY_HERE(float, part_b, 16 * (4 * GROUP_X + 1))
#include "product/matmul.clh"
}
