/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* recurrent_grad for CPUs with wide vectors: as recurrent_wide. */
GROUP(1, 1)
SPEC(0, KIND)
SPEC(1, PACKED)
SPEC(2, ON)
PARAMS(uint n; uint width; uint step; uint is_first; uint from_first; uint before; uint slope_first; uint passed; uint to_first;
       uint each;)

#include "part_wide.clh"

#pragma OPENCL FP_CONTRACT ON
#include "wide.clh"
#include "math.clh"
#include "narrow.clh"

#define GATE(k) (load_part(x + (k) * p.width, i, p.width) + load_part(y + (k) * p.width, i, p.width))
/* Store the derivatives of gate k: v with respect to the product of the input, w to the product of the hidden state. */
#define GIVE(k, v, w)                                                 \
    {                                                                 \
        store_part((v), dx + (k) * p.width, i, p.width);              \
        store_part((w), dy + (k) * p.width, i, p.width);              \
    }

KERNEL8(recurrent_grad_wide, IN(float, from), IN(float, product), IN(int, lengths), IN(float, state), IN(float, slope),
        OUT(float, carry), OUT(float, to), OUT(float, now))
{
    const uint count = KIND == 0 ? 1 : KIND == 1 ? 4 : 3, wide = KIND == 2 ? 4 : count;
    const uint rows = p.n / p.width, first = GROUP_INDEX() * p.each;
    if (first >= rows)
        return;
    const uint end = min(rows - first, p.each) + first;
    for (uint row = first; row < end; row++) {
        const uint at = row * p.width;
        __global const float *x = from + p.from_first + at * count, *y = product + p.from_first + at * count;
        __global const float *old = state + p.before + at, *above = slope + p.slope_first + at;
        __global float *back = carry + at, *kept = carry + p.passed + at, *dy = now + at * count;
        __global float *dx = to + p.to_first + (ON != 0 ? at * wide : at);
        const bool is_on = ON != 0 && (PACKED == 0 || (int)p.step < lengths[row]);
        for (uint i = 0; i < p.width; i += 16) {
            float16 dh = load_part(above, i, p.width), dc = 0.0f;
            if (KIND == 1)
                dc = load_part(above + p.n, i, p.width);
            if (p.is_first == 0) {
                dh += load_part(back, i, p.width) + load_part(kept, i, p.width);
                if (KIND == 1)
                    dc += load_part(kept + p.n, i, p.width);
            }
            if (ON == 0) {
                store_part(dh, dx, i, p.width);
                if (KIND == 1)
                    store_part(dc, dx + p.n, i, p.width);
            } else if (!is_on) {
                for (uint k = 0; k < count; k++)
                    GIVE(k, (float16)(0.0f), (float16)(0.0f))
                if (KIND == 2)
                    store_part((float16)(0.0f), dx + 3 * p.width, i, p.width);
            } else if (KIND == 0) {
                const float16 d = m_tanh_grad(GATE(0), dh);
                GIVE(0, d, d)
                dh = 0.0f;
            } else if (KIND == 1) {
                const float16 x_i = GATE(0), x_f = GATE(1), x_g = GATE(2), x_o = GATE(3);
                const float16 c = load_part(old + p.n, i, p.width);
                const float16 gate_i = m_sigmoid(x_i), gate_f = m_sigmoid(x_f), gate_g = m_tanh(x_g);
                const float16 cell = gate_f * c + gate_i * gate_g;
                const float16 d = dc + m_tanh_grad(cell, dh * m_sigmoid(x_o));
                const float16 d_i = m_sigmoid_grad(x_i, d * gate_g), d_f = m_sigmoid_grad(x_f, d * c);
                const float16 d_g = m_tanh_grad(x_g, d * gate_i), d_o = m_sigmoid_grad(x_o, dh * m_tanh(cell));
                GIVE(0, d_i, d_i)
                GIVE(1, d_f, d_f)
                GIVE(2, d_g, d_g)
                GIVE(3, d_o, d_o)
                dh = 0.0f;
                dc = d * gate_f;
            } else {
                const float16 x_r = GATE(0), x_z = GATE(1), gate_r = m_sigmoid(x_r), gate_z = m_sigmoid(x_z);
                const float16 along = load_part(y + 2 * p.width, i, p.width);
                const float16 x_n = load_part(x + 2 * p.width, i, p.width) + gate_r * along;
                const float16 d_n = m_tanh_grad(x_n, dh * m_sigmoid(-x_z));
                const float16 d_z = m_sigmoid_grad(x_z, dh * (load_part(old, i, p.width) - m_tanh(x_n)));
                const float16 d_r = m_sigmoid_grad(x_r, d_n * along);
                GIVE(0, d_r, d_r)
                GIVE(1, d_z, d_z)
                GIVE(2, d_n, d_n * gate_r)
                store_part(d_n * gate_r, dx + 3 * p.width, i, p.width);
                dh = dh * gate_z;
            }
            store_part(dh, kept, i, p.width);
            if (KIND == 1)
                store_part(dc, kept + p.n, i, p.width);
        }
    }
}
