/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* Copies B [k, n] of matmul_wide into panels of `width` columns: element (i, j) is stored at (j / width * k + i) *
   width + j % width. The last panel is padded with zeros. */
GROUP(1, 1)
PARAMS(uint k; uint n; uint width; uint batch;)

#include "part_wide.clh"

#define ROWS 64u /* that one group copies */

KERNEL2(matmul_wide_pack, IN(float, b), OUT(float, panels))
{
    const uint panel_count = (p.n + p.width - 1) / p.width, blocks = (p.k + ROWS - 1) / ROWS;
    const uint index = GROUP_INDEX(), per_item = panel_count * blocks;
    const uint item = index / per_item, panel = index % per_item / blocks;
    if (item >= p.batch)
        return;
    const uint k0 = index % blocks * ROWS, k1 = min(p.k, k0 + ROWS), cols = p.n - panel * p.width;
    __global const float *from = b + ((size_t)item * p.k + k0) * p.n + panel * p.width;
    __global float *to = panels + (((size_t)item * panel_count + panel) * p.k + k0) * p.width;
    for (uint k = k0; k < k1; k++, from += p.n, to += p.width)
        for (uint j = 0; j < p.width; j += 16)
            vstore16(load_part(from, j, cols), 0, to + j);
}
