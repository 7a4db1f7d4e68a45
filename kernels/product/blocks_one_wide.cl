/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* C = A B^T for few rows of A and a matrix B of blocks, for CPUs with wide vectors: one invocation computes four numbers of a
   row of C, each from 16 chains. */
GROUP(1, 1)
SPEC(0, UNUSED)
SPEC(1, BITS)
SPEC(2, LOG_GROUP)
SPEC(3, HAS_OFFSETS)
PARAMS(uint m; uint n; uint k;)

#define COLS 4u
#define STEP (LOG_GROUP >= 5 ? 32u : 16u) /* numbers of one group */
#define CHUNK 4096u /* 256 terms of each of 16 chains */

#include "product/blocks_16.clh"

FN float sum_of_16(float16 x)
{
    const float8 a = x.lo + x.hi;
    const float4 b = a.lo + a.hi;
    const float2 c = b.lo + b.hi;
    return c.x + c.y;
}

KERNEL5(blocks_one_wide, IN(float, a), IN(int, words), IN(float, scales), IN(float, offsets), OUT(float, c))
{
    const uint panels = (p.n + COLS - 1) / COLS, index = GROUP_INDEX();
    const uint i = index / panels, j0 = index % panels * COLS;
    if (i >= p.m)
        return;
    __global const float *from = a + (size_t)i * p.k;
    uint row[COLS];
#pragma unroll
    for (uint r = 0; r < COLS; r++) /* rows past the end repeat the last one */
        row[r] = min(j0 + r, p.n - 1) * p.k;
    float16 total[COLS];
#pragma unroll
    for (uint r = 0; r < COLS; r++)
        total[r] = (float16)(0.0f);
#pragma unroll 1
    for (uint k0 = 0; k0 < p.k; k0 += CHUNK) {
        const uint k1 = min(p.k, k0 + CHUNK);
        float16 sum[COLS];
#pragma unroll
        for (uint r = 0; r < COLS; r++)
            sum[r] = (float16)(0.0f);
#pragma unroll 1
        for (uint k = k0; k < k1; k += STEP) {
#pragma unroll
            for (uint r = 0; r < COLS; r++) {
                const uint at = row[r] + k, group = at >> LOG_GROUP;
                const float scale = scales[group], offset = HAS_OFFSETS ? offsets[group] : 0.0f;
#pragma unroll
                for (uint t = 0; t < STEP; t += 16)
                    sum[r] = fma(load16(from + k + t),
                                 blocks_16_of(words + ((at + t) >> LOG_PER_WORD), scale, offset), sum[r]);
            }
        }
#pragma unroll
        for (uint r = 0; r < COLS; r++)
            total[r] += sum[r];
    }
#pragma unroll
    for (uint r = 0; r < COLS; r++)
        if (j0 + r < p.n)
            c[(size_t)i * p.n + j0 + r] = sum_of_16(total[r]);
}
