/* SPDX-License-Identifier: MIT */
/* Matrix product for drivers that run shaders on a CPU. Their loads from buffers and group memory are done lane by
   lane, texel loads are not. So nothing is shared: every lane keeps 8 x 8 of C and reads A and B as texels,
   transposed or not. Rows of both and k are whole texels (4 floats); the host pads others. Indices past an edge
   repeat the edge, and their results are not stored. Item i of the batch reads the matrix i of an operand or (REPEATS)
   i / each % count. A part of k that starts at k_begin > 0 adds to the content of C. An end (ends.clh) is a loop over
   the finished elements. */
GROUP(8, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
SPEC(4, REPEATS)
PARAMS(uint m; uint n; uint k; uint k_begin; uint k_end; uint a_row; uint b_row;
       uint a_batch; uint b_batch; uint batch; uint a_each; uint a_count; uint b_each; uint b_count;)

#include "product/ends.clh"

#define ROWS 8u    /* of a tile */
#define COLS 64u   /* of a tile: a lane has columns 4 lane .. 4 lane + 3, and those 32 columns further */
#define CHUNK 256u /* longest chain of additions */

KERNEL5(matmul_texel, TEXEL(a), TEXEL(b), IN(real, bias), OUT(real, z), OUT(real, c))
{
    const uint tiles_m = (p.m + ROWS - 1u) / ROWS, tiles = (p.n + COLS - 1u) / COLS * tiles_m;
    const uint item = GROUP_INDEX() / tiles, tile = GROUP_INDEX() % tiles;
    if (item >= p.batch)
        return;
    const uint row = tile % tiles_m * ROWS, col = tile / tiles_m * COLS + LOCAL_ID(0) * 4u;

    /* Without REPEATS no division: every lane would do it on its own. */
    const uint base_a = SELECT(REPEATS != 0, item / p.a_each % p.a_count, item) * p.a_batch;
    const uint base_b = SELECT(REPEATS != 0, item / p.b_each % p.b_count, item) * p.b_batch;
    int at_a[8], at_b[8]; /* texels: 8 rows of A or 4 k x 2, 8 columns of B or 2 x 4 k */
    for (uint i = 0u; i < 8u; i++) {
        const uint low = i % 4u, high = i / 4u;
        if (A_TRANSPOSED != 0)
            at_a[i] = int(base_a + low * p.a_row +
                          min(row / 4u + high, (p.m + 3u) / 4u - 1u));
        else
            at_a[i] = int(base_a + min(row + i, p.m - 1u) * p.a_row);
        if (B_TRANSPOSED != 0)
            at_b[i] = int(base_b + min(col + low + high * 32u, p.n - 1u) * p.b_row);
        else
            at_b[i] = int(base_b + low * p.b_row +
                          min(col / 4u + high * 8u, (p.n + 3u) / 4u - 1u));
    }
    const int step_a = A_TRANSPOSED != 0 ? int(4u * p.a_row) : 1;
    const int step_b = B_TRANSPOSED != 0 ? 1 : int(4u * p.b_row);

    vec4 total[16], sum[16]; /* row r: [2 r] and, 32 columns on, [2 r + 1] */
    for (uint t = 0u; t < 16u; t++)
        total[t] = vec4(0.0);
    int from_a = int(p.k_begin / 4u) * step_a, from_b = int(p.k_begin / 4u) * step_b;
    for (uint k0 = p.k_begin; k0 < p.k_end; k0 += CHUNK) {
        const uint k1 = min(k0 + CHUNK, p.k_end);
        for (uint t = 0u; t < 16u; t++)
            sum[t] = vec4(0.0);
        for (uint k = k0; k < k1; k += 4u) {
            vec4 va[8], vb[8];
            for (uint i = 0u; i < 8u; i++)
                va[i] = imageLoad(a, at_a[i] + from_a);
            for (uint i = 0u; i < 8u; i++)
                vb[i] = imageLoad(b, at_b[i] + from_b);
            for (uint u = 0u; u < 4u; u++)
                for (uint h = 0u; h < 2u; h++) {
                    vec4 y = vb[4u * h + u];
                    if (B_TRANSPOSED != 0)
                        y = vec4(vb[4u * h][u], vb[4u * h + 1u][u], vb[4u * h + 2u][u],
                                 vb[4u * h + 3u][u]);
                    for (uint r = 0u; r < 8u; r++) {
                        const float x = A_TRANSPOSED != 0 ? va[r / 4u * 4u + u][r % 4u] : va[r][u];
                        sum[2u * r + h] += x * y;
                    }
                }
            from_a += step_a;
            from_b += step_b;
        }
        for (uint t = 0u; t < 16u; t++)
            total[t] += sum[t];
    }

    for (uint h = 0u; h < 2u; h++)
        for (uint e = 0u; e < 4u; e++) {
            const uint j = col + 32u * h + e;
            if (j >= p.n)
                continue;
            const float add = HAS_BIAS != 0 ? LOAD(bias, j) : 0.0;
            for (uint r = 0u; r < 8u; r++)
                if (row + r < p.m) {
                    const uint at = (item * p.m + row + r) * p.n + j;
                    float value = total[2u * r + h][e];
                    if (p.k_begin > 0u)
                        value = LOAD(c, at) + value;
                    if (p.k_end == p.k)
                        value = activate(HAS_BIAS != 0 ? value + add : value);
                    STORE(c, at, value);
                }
        }
    if (HAS_END && p.k_end == p.k)
        [[dont_unroll]] for (uint e = 0u; e < 64u; e++) {
            const uint i = row + e % 8u, j = col + e / 8u % 4u + e / 32u * 32u;
            const uint at = (item * p.m + i) * p.n + j;
            if (i < p.m && j < p.n)
                STORE_END(at, LOAD(c, at))
        }
}
