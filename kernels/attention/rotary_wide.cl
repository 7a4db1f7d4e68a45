/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* rotary for CPUs with wide vectors: an invocation processes `each` rows, 16 pairs at a time. A multiple of 16 pairs turns. */
GROUP(1, 1)
SPEC(0, INTERLEAVED)
PARAMS(uint n; uint width; uint heads; uint rows; uint turned; uint pairs; float factor; uint each;)

#include "vector_wide.clh"

KERNEL3(rotary_wide, IN(float, from), IN(float, turns), OUT(float, to))
{
    const uint line = p.heads * p.width, count = p.n / line, first = GROUP_INDEX() * p.each;
    if (first >= count)
        return;
    const uint end = min(count - first, p.each) + first;
    for (uint row = first; row < end; row++) {
        __global const float *c = turns + row % p.rows * 2 * p.pairs, *s = c + p.pairs;
        for (uint head = 0; head < p.turned; head++) {
            __global const float *x = from + row * line + head * p.width;
            __global float *y = to + row * line + head * p.width;
            for (uint k = 0; k < p.pairs; k += 16) {
                const float16 vc = load16(c + k), vs = p.factor * load16(s + k);
                if (INTERLEAVED) {
                    const float16 low = load16(x + 2 * k), high = load16(x + 2 * k + 16);
                    const float16 a = (float16)(low.even, high.even), b = (float16)(low.odd, high.odd);
                    const float16 ya = a * vc - b * vs, yb = b * vc + a * vs;
                    float16 to_low, to_high;
                    to_low.even = ya.lo;
                    to_low.odd = yb.lo;
                    to_high.even = ya.hi;
                    to_high.odd = yb.hi;
                    store16(to_low, y + 2 * k);
                    store16(to_high, y + 2 * k + 16);
                } else {
                    const float16 a = load16(x + k), b = load16(x + p.pairs + k);
                    store16(a * vc - b * vs, y + k);
                    store16(b * vc + a * vs, y + p.pairs + k);
                }
            }
            for (uint k = 2 * p.pairs; k < p.width; k++)
                y[k] = x[k];
        }
        for (uint k = row * line + p.turned * p.width; k < (row + 1) * line; k++)
            to[k] = from[k];
    }
}
