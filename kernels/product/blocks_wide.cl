/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* C = A op(B) for a matrix B of blocks, for CPUs with wide vectors. One invocation has up to ROWS rows and COLS columns of C:
   it computes a part of op(B) with up to CHUNK terms, 64 KiB, and multiplies all its rows with that, six at a time in registers.
   A part of k after the first one adds to the content of C. */
GROUP(1, 1)
SPEC(0, B_TRANSPOSED)
SPEC(1, BITS)
SPEC(2, LOG_GROUP)
SPEC(3, HAS_OFFSETS)
PARAMS(uint m; uint n; uint k; uint rows;)

#define AT_ONCE 6u
#define VECTORS 4u
#define COLS 64u
#define CHUNK 256u /* longest chain of additions */

#include "product/blocks_16.clh"
#include "product/turn_wide.clh"

#define EACH_VECTOR                                                                                \
    _Pragma("unroll") for (uint r = 0; r < AT_ONCE; r++)                                           \
        _Pragma("unroll") for (uint v = 0; v < VECTORS; v++)

KERNEL5(blocks_wide, IN(float, a), IN(int, words), IN(float, scales), IN(float, offsets), OUT(float, c))
{
    const uint panels = (p.n + COLS - 1) / COLS, index = GROUP_INDEX();
    const uint i0 = index / panels * p.rows, j0 = index % panels * COLS;
    if (i0 >= p.m)
        return;
    const uint i1 = min(p.m, i0 + p.rows), cols = min(p.n - j0, COLS);
    float16 part[CHUNK * VECTORS];
#pragma unroll 1
    for (uint k0 = 0; k0 < p.k; k0 += CHUNK) {
        const uint count = min(p.k - k0, CHUNK);
        if (B_TRANSPOSED) {
            for (uint v = 0; v < VECTORS; v++)
                for (uint at = 0; at < count; at += 16) {
                    float16 s[16], t[16];
#pragma unroll
                    for (uint j = 0; j < 16; j++) /* rows of B past the end repeat the last one */
                        s[j] = blocks_16(words, scales, offsets,
                                         min(j0 + v * 16 + j, p.n - 1) * p.k + k0 + at);
                    TURN_16(s, t)
#pragma unroll
                    for (uint j = 0; j < 16; j++)
                        part[(at + j) * VECTORS + v] = s[j];
                }
        } else {
            /* rows of B are whole vectors; those past the end repeat the last one */
            for (uint at = 0; at < count; at++)
#pragma unroll
                for (uint v = 0; v < VECTORS; v++)
                    part[at * VECTORS + v] = blocks_16(words, scales, offsets,
                                                       (k0 + at) * p.n + min(j0 + v * 16, p.n - 16));
        }
#pragma unroll 1
        for (uint i = i0; i < i1; i += AT_ONCE) {
            __global const float *row[AT_ONCE];
#pragma unroll
            for (uint r = 0; r < AT_ONCE; r++) /* rows past the end repeat the last one */
                row[r] = a + (size_t)min(i + r, i1 - 1) * p.k + k0;
            float16 sum[AT_ONCE][VECTORS];
            EACH_VECTOR sum[r][v] = (float16)(0.0f);
#pragma unroll 1
            for (uint k = 0; k < count; k++) {
#pragma unroll
                for (uint r = 0; r < AT_ONCE; r++) {
                    const float16 x = (float16)(row[r][k]);
#pragma unroll
                    for (uint v = 0; v < VECTORS; v++)
                        sum[r][v] = fma(x, part[k * VECTORS + v], sum[r][v]);
                }
            }
#pragma unroll
            for (uint r = 0; r < AT_ONCE; r++)
                if (i + r < i1) {
                    __global float *to = c + (size_t)(i + r) * p.n + j0;
#pragma unroll
                    for (uint v = 0; v < VECTORS; v++) {
                        float16 y = sum[r][v];
                        if (v * 16 + 16 <= cols) {
                            if (k0 > 0)
                                y = load16(to + v * 16) + y;
                            store16(y, to + v * 16);
                        } else {
                            float tail[16];
                            vstore16(y, 0, tail);
                            for (uint j = v * 16; j < cols; j++)
                                to[j] = k0 > 0 ? to[j] + tail[j - v * 16] : tail[j - v * 16];
                        }
                    }
                }
        }
    }
}
