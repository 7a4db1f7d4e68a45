/* SPDX-License-Identifier: MIT */
/* The derivatives of one time step of a recurrent layer (recurrent.cl), from the last step to the first. `slope` has the derivatives
   of the state after the step; `carry` has what the later step passes back: the product of its gates' derivatives, and at `passed`
   what it passes directly, which is replaced by this step's. The first launch does not read it. `to` and `now` get the derivatives
   of the gates: those of the products of the input, for a GRU also that of the product of n; `now` has those of `product` in rows.
   Steps from lengths[row] on pass the derivatives of the state back as they are. A launch that is not ON does so for all, and
   writes them to `to`. */
GROUP(64, 1)
SPEC(0, KIND)
SPEC(1, PACKED)
SPEC(2, ON)
PARAMS(uint n; uint width; uint step; uint is_first; uint from_first; uint before; uint slope_first; uint passed; uint to_first;
       uint m; uint h;)

#include "divide.clh"
#include "math.clh"

KERNEL8(recurrent_grad, IN(real, from), IN(real, product), IN(int, lengths), IN(real, state), IN(real, slope), OUT(real, carry),
        OUT(real, to), OUT(real, now))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), width = p.width;
        EXACT float dh = LOAD(slope, p.slope_first + i);
        EXACT float dc = 0.0f;
        float on = 1.0f;
        if (KIND == 1)
            dc = LOAD(slope, p.slope_first + p.n + i);
        if (p.is_first == 0u) {
            dh = dh + (LOAD(carry, i) + LOAD(carry, p.passed + i));
            if (KIND == 1)
                dc = dc + LOAD(carry, p.passed + p.n + i);
        }
        float kept = dh, kept_cell = dc;
        if (PACKED != 0)
            on = SELECT(TO_I32(p.step) < lengths[row], 1.0f, 0.0f);
        if (ON != 0) {
            if (KIND == 0) {
                const float d = m_tanh_grad(LOAD(from, p.from_first + i) + LOAD(product, p.from_first + i), dh);
                STORE(to, p.to_first + i, SELECT(on > 0.0f, d, 0.0f));
                STORE(now, i, SELECT(on > 0.0f, d, 0.0f));
                kept = 0.0f;
            }
            if (KIND == 1) {
                const uint place = i + 3u * row * width, at = p.from_first + place;
                const float x_i = LOAD(from, at) + LOAD(product, at);
                const float x_f = LOAD(from, at + width) + LOAD(product, at + width);
                const float x_g = LOAD(from, at + 2u * width) + LOAD(product, at + 2u * width);
                const float x_o = LOAD(from, at + 3u * width) + LOAD(product, at + 3u * width);
                const float c = LOAD(state, p.before + p.n + i);
                const float gate_i = m_sigmoid(x_i), gate_f = m_sigmoid(x_f), gate_g = m_tanh(x_g), gate_o = m_sigmoid(x_o);
                const float cell = gate_f * c + gate_i * gate_g;
                const float d = dc + m_tanh_grad(cell, dh * gate_o);
                const float d_i = m_sigmoid_grad(x_i, d * gate_g), d_f = m_sigmoid_grad(x_f, d * c);
                const float d_g = m_tanh_grad(x_g, d * gate_i), d_o = m_sigmoid_grad(x_o, dh * m_tanh(cell));
                STORE(to, p.to_first + place, SELECT(on > 0.0f, d_i, 0.0f));
                STORE(to, p.to_first + place + width, SELECT(on > 0.0f, d_f, 0.0f));
                STORE(to, p.to_first + place + 2u * width, SELECT(on > 0.0f, d_g, 0.0f));
                STORE(to, p.to_first + place + 3u * width, SELECT(on > 0.0f, d_o, 0.0f));
                STORE(now, place, SELECT(on > 0.0f, d_i, 0.0f));
                STORE(now, place + width, SELECT(on > 0.0f, d_f, 0.0f));
                STORE(now, place + 2u * width, SELECT(on > 0.0f, d_g, 0.0f));
                STORE(now, place + 3u * width, SELECT(on > 0.0f, d_o, 0.0f));
                kept = 0.0f;
                kept_cell = d * gate_f;
            }
            if (KIND == 2) {
                const uint place = i + 2u * row * width, at = p.from_first + place, gate = p.to_first + place + row * width;
                const float x_r = LOAD(from, at) + LOAD(product, at);
                const float x_z = LOAD(from, at + width) + LOAD(product, at + width);
                const float gate_r = m_sigmoid(x_r), gate_z = m_sigmoid(x_z), along = LOAD(product, at + 2u * width);
                const float x_n = LOAD(from, at + 2u * width) + gate_r * along;
                const float d_n = m_tanh_grad(x_n, dh * m_sigmoid(-x_z));
                const float d_z = m_sigmoid_grad(x_z, dh * (LOAD(state, p.before + i) - m_tanh(x_n)));
                const float d_r = m_sigmoid_grad(x_r, d_n * along);
                STORE(to, gate, SELECT(on > 0.0f, d_r, 0.0f));
                STORE(to, gate + width, SELECT(on > 0.0f, d_z, 0.0f));
                STORE(to, gate + 2u * width, SELECT(on > 0.0f, d_n, 0.0f));
                STORE(to, gate + 3u * width, SELECT(on > 0.0f, d_n * gate_r, 0.0f));
                STORE(now, place, SELECT(on > 0.0f, d_r, 0.0f));
                STORE(now, place + width, SELECT(on > 0.0f, d_z, 0.0f));
                STORE(now, place + 2u * width, SELECT(on > 0.0f, d_n * gate_r, 0.0f));
                kept = dh * gate_z;
            }
        }
        if (ON == 0) {
            STORE(to, p.to_first + i, dh);
            if (KIND == 1)
                STORE(to, p.to_first + p.n + i, dc);
        }
        STORE(carry, p.passed + i, SELECT(on > 0.0f, kept, dh));
        if (KIND == 1)
            STORE(carry, p.passed + p.n + i, SELECT(on > 0.0f, kept_cell, dc));
    }
}
