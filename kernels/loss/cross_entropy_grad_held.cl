/* SPDX-License-Identifier: MIT */
/* cross_entropy_grad for GPUs, with rows in registers. */
GROUP(256, 1)
SPEC(0, LOG_LANES)
SPEC(1, MORE)
SPEC(2, IN_QUADS)
PARAMS(uint rows; uint cols; float divisor;)
QUAD_VIEW(0, logits)

#include "math.clh"
#include "row_held.clh"

#define DERIVATIVE(x, c) derivative(x, m, t, COL(i, c) == label) * share

FN float derivative(float x, float m, float t, bool is_label)
{
    const float e = m_exp(x - m);
    EXACT float at_label = (e - 1.0f) - t;
    return SELECT(is_label, at_label, e) / (1.0f + t);
}

KERNEL5(cross_entropy_grad_held, IN(real, logits), IN(int, labels), IN(real, stats), IN(real, slope), OUT(real, to))
{
    HELD_ROW()
    const uint safe = MIN(row, p.rows - 1u), label = TO_U32(labels[safe]);
    const float m = LOAD(stats, 2u * safe), t = LOAD(stats, 2u * safe + 1u);
    const float share = SELECT(label < p.cols, LOAD(slope, 0) / p.divisor, NAN_);
    QUAD held[MOST_QUADS];
    HOLD(held, logits, base, last, 0.0f)
    UNROLL for (uint i = 0u; i < QUADS; i++) {
        const QUAD x = held[i];
        STORE_HELD(to, i, MAKE_QUAD(DERIVATIVE(x.x, 0u), DERIVATIVE(x.y, 1u), DERIVATIVE(x.z, 2u), DERIVATIVE(x.w, 3u)))
    }
}
