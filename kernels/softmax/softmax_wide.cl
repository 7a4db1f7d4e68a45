/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* Softmax of rows, or its logarithm, for CPUs with wide vectors: one invocation processes `each` rows. The exponentials
   are stored and then divided by their sum, so that each is computed once. */
GROUP(1, 1)
SPEC(0, LOGARITHM)
PARAMS(uint rows; uint cols; uint each;)

#include "softmax/softmax_wide.clh"

#define STORE_VECTOR(k, e)                                                                         \
    if (!LOGARITHM)                                                                                \
        store16(e, py + (k));
#define KEEP_TAIL(e) tail_e = e;

KERNEL2(softmax_wide, IN(float, from), OUT(float, to))
{
    const uint cols = p.cols, whole = cols / 16 * 16;
    const uint row = GROUP_INDEX() * p.each, end = min(p.rows, row + p.each);
    const size_t end_of_x = (size_t)p.rows * cols, end_of_y = (size_t)end * cols;
    __global const float *x = from;
    for (uint r = row; r < end; r++) {
        const size_t base = (size_t)r * cols;
        __global const float *px = x + base;
        __global float *py = to + base;
        float16 tail_e = (float16)(0.0f);
        ROW_STATS(STORE_VECTOR, KEEP_TAIL)
        if (LOGARITHM) {
            const float shift = m_log1p(t);
            for (uint k = 0; k < whole; k += 16)
                store16((load16(px + k) - m) - shift, py + k);
            if (whole < cols)
                store_tail((tail - m) - shift, to, base + whole, cols - whole, end_of_y);
        } else {
            const float factor = 1.0f / (1.0f + t);
            for (uint k = 0; k < whole; k += 16)
                store16(load16(py + k) * factor, py + k);
            if (whole < cols)
                store_tail(tail_e * factor, to, base + whole, cols - whole, end_of_y);
        }
    }
}
