/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* All passes of row_stats for CPUs with wide vectors: one invocation processes `each` rows. */
GROUP(1, 1)
PARAMS(uint rows; uint cols; uint each;)

#include "softmax/softmax_wide.clh"

#define NO_VECTOR(k, e)
#define NO_TAIL(e)

KERNEL2(row_stats_wide, IN(float, x), OUT(float, to))
{
    const uint cols = p.cols, whole = cols / 16 * 16;
    const uint row = GROUP_INDEX() * p.each, end = min(p.rows, row + p.each);
    const size_t end_of_x = (size_t)p.rows * cols;
    for (uint r = row; r < end; r++) {
        const size_t base = (size_t)r * cols;
        __global const float *px = x + base;
        ROW_STATS(NO_VECTOR, NO_TAIL)
        to[2 * r] = m;
        to[2 * r + 1] = t;
    }
}
