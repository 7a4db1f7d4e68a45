/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* C = f(op(A) op(B) + bias) for CPUs with wide vectors, where B is large beside A: each element of B is read from memory
   once for all rows of an invocation (chunk_wide.clh). */
GROUP(1, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
PARAMS(uint m; uint n; uint k; uint batch; uint a_each; uint a_count; uint b_each; uint b_count; uint rows;)

#define A_ROW(i) (pa + (size_t)(i) * (A_TRANSPOSED ? 1 : p.k))
#define A_STEP (A_TRANSPOSED ? p.m : 1)
#define B_COLUMN(j, at) load_part(pb + (size_t)(j)*p.k, at, p.k)
#define B_ROW(at, j) ((j) < p.n ? load_part(pb + (size_t)(at)*p.n, j, p.n) : (float16)(0.0f))
#define FINISH(y, j) activate(HAS_BIAS ? y + load_part(bias, j, p.n) : y)

#include "product/chunk_wide.clh"
#include "elementwise/activation_wide.clh"

KERNEL4(matmul_chunk, IN(float, a), IN(float, b), IN(float, bias), OUT(float, c))
{
    const uint panels = (p.n + COLS - 1) / COLS, slabs = (p.m + p.rows - 1) / p.rows;
    const uint index = GROUP_INDEX(), tiles = panels * slabs, item = index / tiles, tile = index % tiles;
    if (item >= p.batch)
        return;
    const uint i0 = tile / panels * p.rows, j0 = tile % panels * COLS;
    __global const float *pa = a + (size_t)(item / p.a_each % p.a_count) * p.m * p.k;
    __global const float *pb = b + (size_t)(item / p.b_each % p.b_count) * p.k * p.n;
    __global float *to_c = c + (size_t)item * p.m * p.n;
    MULTIPLY_TILE(to_c)
}
