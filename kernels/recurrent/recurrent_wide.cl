/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* recurrent for CPUs with wide vectors: an invocation computes `each` sequences, 16 units at a time. Products and sums may be
   fused. */
GROUP(1, 1)
SPEC(0, KIND)
SPEC(1, PACKED)
PARAMS(uint n; uint width; uint step; uint from_first; uint before; uint after; uint each;)

#include "part_wide.clh"

#pragma OPENCL FP_CONTRACT ON
#include "wide.clh"
#include "math.clh"
#include "narrow.clh"

/* 16 units of a gate: what the input and the hidden state give it. */
#define GATE(k) (load_part(x + (k) * p.width, i, p.width) + load_part(y + (k) * p.width, i, p.width))

KERNEL5(recurrent_wide, IN(float, from), IN(float, product), IN(int, lengths), OUT(float, state), OUT(float, now))
{
    const uint count = KIND == 0 ? 1 : KIND == 1 ? 4 : 3;
    const uint rows = p.n / p.width, first = GROUP_INDEX() * p.each;
    if (first >= rows)
        return;
    const uint end = min(rows - first, p.each) + first;
    for (uint row = first; row < end; row++) {
        __global const float *x = from + p.from_first + row * p.width * count, *y = product + row * p.width * count;
        __global const float *old = state + p.before + row * p.width;
        __global float *next = state + p.after + row * p.width, *again = now + row * p.width;
        const bool is_on = PACKED == 0 || (int)p.step < lengths[row];
        for (uint i = 0; i < p.width; i += 16) {
            float16 h = load_part(old, i, p.width), c = 0.0f;
            if (KIND == 1)
                c = load_part(old + p.n, i, p.width);
            if (is_on) {
                if (KIND == 0)
                    h = m_tanh(GATE(0));
                if (KIND == 1) {
                    c = m_sigmoid(GATE(1)) * c + m_sigmoid(GATE(0)) * m_tanh(GATE(2));
                    h = m_sigmoid(GATE(3)) * m_tanh(c);
                }
                if (KIND == 2) {
                    const float16 r = m_sigmoid(GATE(0)), z = m_sigmoid(GATE(1));
                    const float16 along = r * load_part(y + 2 * p.width, i, p.width);
                    h = (1.0f - z) * m_tanh(load_part(x + 2 * p.width, i, p.width) + along) + z * h;
                }
            }
            if (KIND == 1)
                store_part(c, next + p.n, i, p.width);
            store_part(h, next, i, p.width);
            store_part(h, again, i, p.width);
        }
    }
}
