/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* Transposes x [rows, cols] for matmul_wide, blocks of 16 x 16 in registers: element (i, j) goes to
   i / width * panel + j * step + i % width. B^T becomes panels (width = step = 16 * vectors, rows
   past the end are zeros), A^T becomes A (width = step = rows rounded up to 16). */
GROUP(1, 1)
PARAMS(uint rows; uint cols; uint width; uint panel; uint step; uint padded; uint to_batch;
       uint batch;)

#include "part_wide.clh"
#include "product/turn_wide.clh"

#define COLS 64u /* that one group moves, of 16 rows */

KERNEL2(matmul_wide_turn, IN(float, x), OUT(float, y))
{
    const uint strips = p.padded / 16, blocks = (p.cols + COLS - 1) / COLS;
    const uint index = GROUP_INDEX(), per_item = strips * blocks, item = index / per_item;
    if (item >= p.batch)
        return;
    const uint i0 = index % strips * 16, j0 = index % per_item / strips * COLS;
    const uint end = min(p.cols, j0 + COLS);
    __global const float *from = x + ((size_t)item * p.rows + i0) * p.cols;
    __global float *to = y + (size_t)item * p.to_batch + (size_t)(i0 / p.width) * p.panel +
                         i0 % p.width;
    for (uint j = j0; j < end; j += 16) {
        float16 s[16], t[16];
#pragma unroll
        for (uint i = 0; i < 16; i++)
            s[i] = i0 + i < p.rows ? load_part(from + (size_t)i * p.cols, j, p.cols)
                                   : (float16)(0.0f);
        TURN_16(s, t)
        if (j + 16 <= end) {
#pragma unroll
            for (uint i = 0; i < 16; i++)
                vstore16(s[i], 0, to + (size_t)(j + i) * p.step);
        } else {
#pragma unroll
            for (uint i = 0; i < 16; i++)
                if (j + i < end)
                    vstore16(s[i], 0, to + (size_t)(j + i) * p.step);
        }
    }
}
