/* SPDX-License-Identifier: MIT */
/* Matrix product for drivers that run shaders on a CPU: texel loads are their only fast access, so
   nothing is shared and every lane keeps 8 x 8 of C. Rows of A and B must be whole texels (K, N and
   offsets multiples of 4), in whichever way they are stored; lanes run along N. */
GROUP(8, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, A_TRANSPOSED)
SPEC(3, B_TRANSPOSED)
PARAMS(uint m; uint n; uint k; uint a_row; uint b_row; uint a_batch; uint b_batch; uint batch;)

#define ROWS 8u
#define COLS 64u
#define CHUNK 256u /* longest chain of additions */

KERNEL4(matmul_texel, TEXEL(a), TEXEL(b), IN(real, bias), OUT(real, c))
{
    const uint tiles_m = (p.m + ROWS - 1u) / ROWS, tiles_n = (p.n + COLS - 1u) / COLS;
    const uint index = GROUP_INDEX(), item = index / (tiles_m * tiles_n);
    if (item >= p.batch)
        return;
    const uint tile = index % (tiles_m * tiles_n);
    const uint row = tile % tiles_m * ROWS, col = tile / tiles_m * COLS + LOCAL_INDEX() * 4u;

    /* Where the operands start, in texels. What is past the end repeats what stands at the end. */
    int at_a[8], at_b[8];
    const uint a_row = p.a_row / 4u, b_row = p.b_row / 4u;
    for (uint i = 0u; i < 8u; i++) {
        if (A_TRANSPOSED != 0)
            at_a[i] = int(item * p.a_batch / 4u + i % 4u * a_row + MIN(row + i / 4u * 4u, p.m - 4u) / 4u);
        else
            at_a[i] = int(item * p.a_batch / 4u + MIN(row + i, p.m - 1u) * a_row);
        if (B_TRANSPOSED != 0)
            at_b[i] = int(item * p.b_batch / 4u + MIN(col + i % 4u + i / 4u * 32u, p.n - 1u) * b_row);
        else
            at_b[i] = int(item * p.b_batch / 4u + i % 4u * b_row + MIN(col + i / 4u * 32u, p.n - 4u) / 4u);
    }

    vec4 total[16], sum[16];
    for (uint i = 0u; i < 16u; i++)
        total[i] = vec4(0.0);
    const int a_step = A_TRANSPOSED != 0 ? int(p.a_row) : 1;
    const int b_step = B_TRANSPOSED != 0 ? 1 : int(p.b_row);
    int ia = 0, ib = 0;
    for (uint k0 = 0u; k0 < p.k; k0 += CHUNK) {
        for (uint i = 0u; i < 16u; i++)
            sum[i] = vec4(0.0);
        const uint end = MIN(p.k - k0, CHUNK);
        for (uint k = 0u; k < end; k += 4u) {
            vec4 x[8], y[8];
            for (uint i = 0u; i < 8u; i++) {
                x[i] = imageLoad(a, at_a[i] + ia);
            }
            for (uint i = 0u; i < 8u; i++)
                y[i] = imageLoad(b, at_b[i] + ib);
            for (uint u = 0u; u < 4u; u++) {
                for (uint h = 0u; h < 2u; h++) {
                    const vec4 q = B_TRANSPOSED != 0 ? vec4(y[h * 4u][u], y[h * 4u + 1u][u], y[h * 4u + 2u][u], y[h * 4u + 3u][u]) : y[h * 4u + u];
                    for (uint r = 0u; r < 8u; r++) {
                        const float v = A_TRANSPOSED != 0 ? x[r / 4u * 4u + u][r % 4u] : x[r][u];
                        sum[r * 2u + h] += v * q;
                    }
                }
            }
            ia += a_step;
            ib += b_step;
        }
        for (uint i = 0u; i < 16u; i++)
            total[i] += sum[i];
    }

    for (uint h = 0u; h < 2u; h++)
        for (uint e = 0u; e < 4u; e++) {
            const uint j = col + h * 32u + e;
            if (j < p.n) {
                for (uint r = 0u; r < 8u; r++)
                    if (row + r < p.m)
                        STORE(c, (item * p.m + row + r) * p.n + j, total[r * 2u + h][e]);
            }
        }
}
