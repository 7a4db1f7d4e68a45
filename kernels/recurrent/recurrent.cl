/* SPDX-License-Identifier: MIT */
/* The pointwise part of one time step of a recurrent layer. `from` has the products of the input, `product` those of the previous
   hidden state, a row of gates for each sequence; biases are in them. The state of `n` numbers is at `before`, the next one is
   written at `after`; the cell of an LSTM follows its hidden state. `now` gets the hidden state once more, for the next product.
   KIND 0: tanh(from + product). KIND 1: LSTM with the gates i, f, g, o. KIND 2: GRU with the gates r, z, n, where r is a factor of
   the product. Steps from lengths[row] on keep the state. */
GROUP(64, 1)
SPEC(0, KIND)
SPEC(1, PACKED)
PARAMS(uint n; uint width; uint step; uint from_first; uint before; uint after; uint m; uint h;)

#include "divide.clh"
#include "math.clh"

KERNEL5(recurrent, IN(real, from), IN(real, product), IN(int, lengths), OUT(real, state), OUT(real, now))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), width = p.width;
        const float old = LOAD(state, p.before + i);
        float y = 0.0f, on = 1.0f;
        if (PACKED != 0)
            on = SELECT(TO_I32(p.step) < lengths[row], 1.0f, 0.0f);
        if (KIND == 0)
            y = m_tanh(LOAD(from, p.from_first + i) + LOAD(product, i));
        if (KIND == 1) {
            const uint to = i + 3u * row * width, at = p.from_first + to;
            const float c = LOAD(state, p.before + p.n + i);
            const float gate_i = m_sigmoid(LOAD(from, at) + LOAD(product, to));
            const float gate_f = m_sigmoid(LOAD(from, at + width) + LOAD(product, to + width));
            const float gate_g = m_tanh(LOAD(from, at + 2u * width) + LOAD(product, to + 2u * width));
            const float gate_o = m_sigmoid(LOAD(from, at + 3u * width) + LOAD(product, to + 3u * width));
            const float cell = gate_f * c + gate_i * gate_g;
            y = gate_o * m_tanh(cell);
            STORE(state, p.after + p.n + i, SELECT(on > 0.0f, cell, c));
        }
        if (KIND == 2) {
            const uint to = i + 2u * row * width, at = p.from_first + to;
            const float gate_r = m_sigmoid(LOAD(from, at) + LOAD(product, to));
            const float gate_z = m_sigmoid(LOAD(from, at + width) + LOAD(product, to + width));
            const float gate_n = m_tanh(LOAD(from, at + 2u * width) + gate_r * LOAD(product, to + 2u * width));
            y = (1.0f - gate_z) * gate_n + gate_z * old;
        }
        y = SELECT(on > 0.0f, y, old);
        STORE(state, p.after + i, y);
        STORE(now, i, y);
    }
}
