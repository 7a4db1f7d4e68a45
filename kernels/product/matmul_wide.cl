/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* Matrix product for CPUs with wide vectors: one invocation keeps a tile of 6 rows and VECTORS * 16 columns of C in
   registers. A is read in place through two strides, so a transposed A costs nothing here; B is read in place, or
   from the panels that matmul_wide_pack and matmul_wide_turn make. */
GROUP(1, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
SPEC(2, LOG_VECTORS)
PARAMS(uint m; uint n; uint k; uint a_row; uint a_step; uint b_panel; uint b_step; uint a_batch;
       uint b_batch; uint batch; uint a_each; uint a_count; uint b_each; uint b_count;)

#define ROWS 6u
#define VECTORS (1u << LOG_VECTORS)
#define COLS (16u * VECTORS)
#define SLAB 16u
#define CHUNK 256u          /* longest chain of additions */
#define CHUNKS (64 * CHUNK)

#define EACH_VECTOR                                                                                \
    _Pragma("unroll") for (uint r = 0; r < ROWS; r++)                                              \
        _Pragma("unroll") for (uint v = 0; v < VECTORS; v++)
#define CLEAR(x) EACH_VECTOR x[r][v] = (float16)(0.0f);
#define ADD(x, y) EACH_VECTOR x[r][v] += y[r][v];

#include "part_wide.clh"
#include "elementwise/activation_wide.clh"

KERNEL4(matmul_wide, IN(float, a), IN(float, b), IN(float, bias), OUT(float, c))
{
    const uint panels_m = (p.m + ROWS - 1) / ROWS, panels_n = (p.n + COLS - 1) / COLS;
    const uint index = GROUP_INDEX(), tiles = panels_m * panels_n;
    const uint item = index / tiles, tile = index % tiles;
    if (item >= p.batch)
        return;
    /* A cache keeps the elements of A for SLAB rows of tiles: these are multiplied with all panels of B before the next. */
    const uint slab = tile / (SLAB * panels_n) * SLAB, in_slab = tile - slab * panels_n;
    const uint tiles_m = min(panels_m - slab, SLAB), panel = in_slab / tiles_m;
    const uint i0 = (slab + in_slab % tiles_m) * ROWS, j0 = panel * COLS;
    const uint rows = min(p.m - i0, ROWS), cols = min(p.n - j0, COLS);

    const size_t a_step = p.a_step, b_step = p.b_step;
    __global const float *pa = a + (size_t)(item / p.a_each % p.a_count) * p.a_batch + (size_t)i0 * p.a_row;
    __global const float *pb = b + (size_t)(item / p.b_each % p.b_count) * p.b_batch + (size_t)panel * p.b_panel;
    size_t row[ROWS];
#pragma unroll
    for (uint r = 0; r < ROWS; r++) /* rows past the end repeat the last one */
        row[r] = (size_t)min(r, rows - 1) * p.a_row;

    /* Three levels of sums: `sum` stays in registers, the others are accessed once per chunk. */
    float16 total[ROWS][VECTORS];
    CLEAR(total)
#pragma unroll 1
    for (uint k0 = 0; k0 < p.k; k0 += CHUNKS) {
        const uint k1 = min(p.k, k0 + CHUNKS);
        float16 part[ROWS][VECTORS];
        CLEAR(part)
#pragma unroll 1
        for (uint at = k0; at < k1; at += CHUNK) {
            const uint count = min(k1 - at, CHUNK);
            float16 sum[ROWS][VECTORS];
            CLEAR(sum)
#pragma unroll 1
            for (uint k = 0; k < count; k++) {
                float16 vb[VECTORS];
#pragma unroll
                for (uint v = 0; v < VECTORS; v++)
                    vb[v] = vload16(v, pb);
#pragma unroll
                for (uint r = 0; r < ROWS; r++) {
                    const float16 va = (float16)(pa[row[r]]);
#pragma unroll
                    for (uint v = 0; v < VECTORS; v++)
                        sum[r][v] = fma(va, vb[v], sum[r][v]);
                }
                pa += a_step;
                pb += b_step;
            }
            ADD(part, sum)
        }
        ADD(total, part)
    }

    if (HAS_BIAS) {
#pragma unroll
        for (uint v = 0; v < VECTORS; v++) {
            const float16 add = load_part(bias + j0, v * 16, cols);
#pragma unroll
            for (uint r = 0; r < ROWS; r++)
                total[r][v] += add;
        }
    }
    EACH_VECTOR total[r][v] = activate(total[r][v]);

    __global float *to = c + ((size_t)item * p.m + i0) * p.n + j0;
    if (cols == COLS) {
#pragma unroll
        for (uint r = 0; r < ROWS; r++)
            if (r < rows) {
#pragma unroll
                for (uint v = 0; v < VECTORS; v++)
                    vstore16(total[r][v], v, to + (size_t)r * p.n);
            }
        return;
    }
    float tile_edge[ROWS * COLS];
    EACH_VECTOR vstore16(total[r][v], r * VECTORS + v, tile_edge);
    for (uint r = 0; r < rows; r++)
        for (uint j = 0; j < cols; j++)
            to[(size_t)r * p.n + j] = tile_edge[r * COLS + j];
}
