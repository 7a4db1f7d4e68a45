/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* C = A op(B) for a matrix B of blocks, for CPUs with wide vectors: the elements of a chunk are computed when it is copied
   (chunk_wide.clh). */
GROUP(1, 1)
SPEC(0, B_TRANSPOSED)
SPEC(1, BITS)
SPEC(2, LOG_GROUP)
SPEC(3, HAS_OFFSETS)
PARAMS(uint m; uint n; uint k; uint rows;)

#include "product/blocks_16.clh"

/* Rows of B are whole vectors. */
#define A_ROW(i) (a + (size_t)(i)*p.k)
#define A_STEP 1
#define B_COLUMN(j, at) blocks_16(words, scales, offsets, (j)*p.k + (at))
#define B_ROW(at, j) blocks_16(words, scales, offsets, (at)*p.n + min(j, p.n - 16))
#define FINISH(y, j) (y)

#include "product/chunk_wide.clh"

KERNEL5(blocks_wide, IN(float, a), IN(int, words), IN(float, scales), IN(float, offsets), OUT(float, c))
{
    const uint panels = (p.n + COLS - 1) / COLS, index = GROUP_INDEX();
    const uint i0 = index / panels * p.rows, j0 = index % panels * COLS;
    if (i0 >= p.m)
        return;
    MULTIPLY_TILE(c)
}
