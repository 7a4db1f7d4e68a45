/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* Sums down the columns of x [rows, cols], for CPUs with wide vectors: one invocation sums 32 columns of `block` <=
   4096 rows and writes one row of y [blocks, cols]. No chain of additions is longer than 64: 64 rows (in four chains
   of 16 if all 32 columns exist), then 8 such sums, then 8 of those. */
GROUP(1, 1)
PARAMS(uint rows; uint cols; uint block;)

#include "part_wide.clh"

KERNEL2(column_sum_wide, IN(float, x), OUT(float, y))
{
    const uint strips = (p.cols + 31) / 32;
    const uint strip = GROUP_INDEX() % strips, block = GROUP_INDEX() / strips;
    const uint row = block * p.block, end = min(p.rows, row + p.block), col = strip * 32;
    if (row >= end)
        return;
    float16 total[2] = { (float16)(0.0f), (float16)(0.0f) };
    for (uint i2 = row; i2 < end; i2 += 512) {
        const uint i3 = min(end, i2 + 512);
        float16 some[2] = { (float16)(0.0f), (float16)(0.0f) };
        for (uint i0 = i2; i0 < i3; i0 += 64) {
            float16 sum[4][2];
#pragma unroll
            for (uint t = 0; t < 4; t++)
                sum[t][0] = sum[t][1] = (float16)(0.0f);
            const uint i1 = min(i3, i0 + 64);
            uint i = i0;
            if (col + 32 <= p.cols) {
                for (; i + 4 <= i1; i += 4)
#pragma unroll
                    for (uint t = 0; t < 4; t++) {
                        __global const float *from = x + (size_t)(i + t) * p.cols + col;
                        sum[t][0] += load16(from);
                        sum[t][1] += load16(from + 16);
                    }
            }
            for (; i < i1; i++) {
                __global const float *from = x + (size_t)i * p.cols;
                sum[0][0] += load_part(from, col, p.cols);
                sum[0][1] += load_part(from, col + 16, p.cols);
            }
#pragma unroll
            for (uint v = 0; v < 2; v++)
                some[v] += (sum[0][v] + sum[1][v]) + (sum[2][v] + sum[3][v]);
        }
        total[0] += some[0];
        total[1] += some[1];
    }
    float part[32];
    vstore16(total[0], 0, part);
    vstore16(total[1], 1, part);
    for (uint j = 0; j < 32 && col + j < p.cols; j++)
        y[(size_t)block * p.cols + col + j] = part[j];
}
