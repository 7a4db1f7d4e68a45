/* SPDX-License-Identifier: MIT */
/* C = f(op(A) op(B) + bias) for a batch of matrices, every size and both transposes. Item i of the batch reads the
   matrix i of an operand or (REPEATS) i / each % count. A group computes
   a tile of C from strips of A and B in group memory; an invocation computes 4 x 4 elements, spread so that adjacent
   invocations access adjacent columns. A part of k that starts at k_begin > 0 adds to the content of C. */
GROUP(16, 16)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
SPEC(4, REPEATS)
PARAMS(uint m; uint n; uint k; uint k_begin; uint k_end; uint batch; uint a_each; uint a_count; uint b_each;
       uint b_count;)

#include "elementwise/activation.clh"

#define CHUNK 256u /* longest chain of additions */
#define STRIP 16u  /* of k in group memory at a time */
#define TILE_M (4u * GROUP_Y)
#define TILE_N (4u * GROUP_X)
/* One more than the tile: neighbours along k must not fall on one bank. */
GROUP_ARRAY(float, part_a, 16 * (4 * GROUP_Y + 1))
GROUP_ARRAY(float, part_b, 16 * (4 * GROUP_X + 1))

KERNEL4(matmul, IN(real, a), IN(real, b), IN(real, bias), OUT(real, c))
{
    GROUP_ARRAY_HERE(float, part_a, 16 * (4 * GROUP_Y + 1))
    GROUP_ARRAY_HERE(float, part_b, 16 * (4 * GROUP_X + 1))
    const uint tiles_n = (p.n + TILE_N - 1u) / TILE_N;
    const uint tiles = (p.m + TILE_M - 1u) / TILE_M * tiles_n;
    const uint item = GROUP_INDEX() / tiles, tile = GROUP_INDEX() % tiles;
    const uint i0 = tile / tiles_n * TILE_M, j0 = tile % tiles_n * TILE_N;
    const uint x = LOCAL_ID(0), y = LOCAL_ID(1);
    if (item >= p.batch)
        return;
    const uint base_a = SELECT(REPEATS != 0, item / p.a_each % p.a_count, item) * p.m * p.k;
    const uint base_b = SELECT(REPEATS != 0, item / p.b_each % p.b_count, item) * p.k * p.n;

    float sum[16];
    float total[16];
    for (uint t = 0u; t < 16u; t++)
        total[t] = 0.0f;
    for (uint k0 = p.k_begin; k0 < p.k_end; k0 += CHUNK) {
        const uint k1 = MIN(k0 + CHUNK, p.k_end);
        for (uint t = 0u; t < 16u; t++)
            sum[t] = 0.0f;
        for (uint at = k0; at < k1; at += STRIP) {
            for (uint e = LOCAL_INDEX(); e < STRIP * TILE_M; e += GROUP_SIZE) {
                const uint i = A_TRANSPOSED != 0 ? e % TILE_M : e / STRIP;
                const uint k = A_TRANSPOSED != 0 ? e / TILE_M : e % STRIP;
                const uint place = A_TRANSPOSED != 0 ? (at + k) * p.m + i0 + i
                                                     : (i0 + i) * p.k + at + k;
                part_a[k * (TILE_M + 1u) + i] =
                    SELECT(at + k < k1 && i0 + i < p.m, LOAD(a, base_a + place), 0.0f);
            }
            for (uint e = LOCAL_INDEX(); e < STRIP * TILE_N; e += GROUP_SIZE) {
                const uint j = B_TRANSPOSED != 0 ? e / STRIP : e % TILE_N;
                const uint k = B_TRANSPOSED != 0 ? e % STRIP : e / TILE_N;
                const uint place = B_TRANSPOSED != 0 ? (j0 + j) * p.k + at + k
                                                     : (at + k) * p.n + j0 + j;
                part_b[k * (TILE_N + 1u) + j] =
                    SELECT(at + k < k1 && j0 + j < p.n, LOAD(b, base_b + place), 0.0f);
            }
            BARRIER();
            for (uint k = 0u; k < STRIP; k++) {
                const uint row = k * (TILE_M + 1u) + y, col = k * (TILE_N + 1u) + x;
                for (uint r = 0u; r < 4u; r++)
                    for (uint s = 0u; s < 4u; s++)
                        sum[r * 4u + s] = FMA(part_a[row + r * GROUP_Y],
                                              part_b[col + s * GROUP_X], sum[r * 4u + s]);
            }
            BARRIER();
        }
        for (uint t = 0u; t < 16u; t++)
            total[t] = total[t] + sum[t];
    }

    for (uint r = 0u; r < 4u; r++)
        for (uint s = 0u; s < 4u; s++) {
            const uint i = i0 + y + r * GROUP_Y, j = j0 + x + s * GROUP_X;
            if (i < p.m && j < p.n) {
                const uint at = (item * p.m + i) * p.n + j;
                float value = total[r * 4u + s];
                if (p.k_begin > 0u)
                    value = LOAD(c, at) + value;
                if (p.k_end == p.k) {
                    if (HAS_BIAS != 0)
                        value = value + LOAD(bias, j);
                    value = activate(value);
                }
                STORE(c, at, value);
            }
        }
}
