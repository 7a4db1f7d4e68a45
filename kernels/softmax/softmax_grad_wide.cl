/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* softmax_grad for CPUs with wide vectors: one invocation processes `each` rows. */
GROUP(1, 1)
SPEC(0, LOGARITHM)
PARAMS(uint rows; uint cols; uint each;)

#include "softmax/exp_wide.clh"
#include "row_wide.clh"

#define TERM(y, dy)  (LOGARITHM ? (dy) : (y) * (dy))
#define VALUE(y, dy) (LOGARITHM ? (dy) - exp_wide(y) * s : (y) * ((dy) - s))

KERNEL3(softmax_grad_wide, IN(float, y), IN(float, slope), OUT(float, to))
{
    const uint cols = p.cols, whole = cols / 16 * 16;
    const uint row = GROUP_INDEX() * p.each, end = min(p.rows, row + p.each);
    const size_t end_of_x = (size_t)p.rows * cols, end_of_y = (size_t)end * cols;
    const int16 is_tail = tail_mask(cols - whole);
    for (uint r = row; r < end; r++) {
        const size_t base = (size_t)r * cols;
        __global const float *py = y + base, *pd = slope + base;
        float16 tail_y = (float16)(0.0f), tail_d = (float16)(0.0f);
        SUM_WHOLE(sum, { term = TERM(load16(py + k), load16(pd + k)); })
        if (whole < cols) {
            tail_y = load_tail(y, base + whole, end_of_x);
            tail_d = load_tail(slope, base + whole, end_of_x);
            sum += is_tail ? TERM(tail_y, tail_d) : (float16)(0.0f);
        }
        const float s = add_up(sum);
        for (uint k = 0; k < whole; k += 16)
            store16(VALUE(load16(py + k), load16(pd + k)), to + base + k);
        if (whole < cols)
            store_tail(VALUE(tail_y, tail_d), to, base + whole, cols - whole, end_of_y);
    }
}
