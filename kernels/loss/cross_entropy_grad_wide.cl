/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* cross_entropy_grad for CPUs with wide vectors: one invocation processes `each` rows. */
GROUP(1, 1)
PARAMS(uint rows; uint cols; float divisor; uint each;)

#include "softmax/exp_wide.clh"
#include "row_wide.clh"

/* The derivative at 16 logits from column k on. */
#define DERIVATIVE(x, k)                                                                           \
    const float16 e = exp_wide((x) - m);                                                           \
    const int16 is_label = lane == (int16)((int)(label - (k)));                                    \
    const float16 y = ((is_label ? (e - 1.0f) - t : e) * factor) * share;

KERNEL5(cross_entropy_grad_wide, IN(float, x), IN(int, labels), IN(float, stats), IN(float, slope), OUT(float, to))
{
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const uint cols = p.cols, whole = cols / 16 * 16;
    const uint row = GROUP_INDEX() * p.each, end = min(p.rows, row + p.each);
    const size_t end_of_x = (size_t)p.rows * cols, end_of_y = (size_t)end * cols;
    const float share = slope[0] / p.divisor;
    for (uint r = row; r < end; r++) {
        const size_t base = (size_t)r * cols;
        const uint label = (uint)labels[r];
        const float m = stats[2 * r], t = stats[2 * r + 1];
        const float factor = label < cols ? 1.0f / (1.0f + t) : NAN_;
        for (uint k = 0; k < whole; k += 16) {
            DERIVATIVE(load16(x + base + k), k)
            store16(y, to + base + k);
        }
        if (whole < cols) {
            DERIVATIVE(load_tail(x, base + whole, end_of_x), whole)
            store_tail(y, to, base + whole, cols - whole, end_of_y);
        }
    }
}
