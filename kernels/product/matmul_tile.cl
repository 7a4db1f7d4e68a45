/* SPDX-License-Identifier: MIT */
/* C = f(op(A) op(B) + bias) for GPUs: see tile.clh. matmul_join adds the parts. Item i of the batch reads matrix
   i / each % count of an operand.
   IN_QUADS: 1 the rows of A are whole quads, 2 the rows of B, 3 both; others are read element by element.
   An end (ends.clh) is a loop over the finished elements: its text is too long for a copy at each of them. */
GROUP(256, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
SPEC(4, SHAPE)
SPEC(5, IN_QUADS)
PARAMS(uint m; uint n; uint k; uint batch; uint a_each; uint a_count; uint b_each; uint b_count; uint part; uint parts;)
QUAD_VIEW(0, a)
QUAD_VIEW(1, b)
GROUP_ARRAY(QUAD, strips, 1088)

#include "product/ends.clh"
#include "product/tile.clh"

#define COLUMNS p.n
#define PLACE(i) ((index * p.m + (i)) * p.n)
#define FINISH(j)                                                                                  \
    if (HAS_BIAS != 0)                                                                             \
        value = value + LOAD(bias, j);                                                             \
    value = activate(value);

#define STRIDE(ALONG_K, size) SELECT(ALONG_K, p.k, size)
#define FETCH_STRIP()                                                                              \
    FETCH(next_a, a, A_TRANSPOSED == 0, IN_QUADS % 2 != 0, base_a, STRIDE(A_TRANSPOSED == 0, p.m), p.m, i0, TILE_M) \
    FETCH(next_b, b, B_TRANSPOSED != 0, IN_QUADS / 2 != 0, base_b, STRIDE(B_TRANSPOSED != 0, p.n), p.n, j0, TILE_N)

KERNEL5(matmul_tile, IN(real, a), IN(real, b), IN(real, bias), OUT(real, z), OUT(real, c))
{
    GROUP_ARRAY_HERE(QUAD, strips, 1088)
    FIND_TILE(p.batch)
    const uint base_a = item / p.a_each % p.a_count * p.m * p.k, base_b = item / p.b_each % p.b_count * p.k * p.n;

    uint side = 0u;
    uint at = k_begin;
    FETCH_STRIP()
    for (uint k0 = k_begin; k0 < k_end; k0 += CHUNK) {
        const uint k1 = MIN(k0 + CHUNK, k_end);
        EACH_ROW(CLEAR)
        MULTIPLY_STRIPS(A_TRANSPOSED == 0, B_TRANSPOSED != 0, IS_READY, FETCH_STRIP())
        EACH_ROW(PUT_ROW)
    }
    if (HAS_END)
        for (uint e = 0u; e < EACH * EACH / 4u; e++) {
            const uint row = e % EACH, i = i0 + 4u * lane_m + row % 4u + row / 4u * (TILE_M / 2u);
            const uint j = SELECT(e < EACH, j_left, j_right);
            if (i < p.m) {
                const uint place = PLACE(i) + j;
                UNROLL for (uint q = 0u; q < 4u; q++)
                    if (j + q < p.n)
                        STORE_END(place + q, LOAD(c, place + q))
            }
        }
}
