/* SPDX-License-Identifier: MIT */
/* Softmax of rows, or its logarithm, for GPUs, with rows in registers. */
GROUP(256, 1)
SPEC(0, LOGARITHM)
SPEC(1, LOG_LANES)
SPEC(2, MORE)
SPEC(3, IN_QUADS)
PARAMS(uint rows; uint cols;)
QUAD_VIEW(0, x)
GROUP_ARRAY(float, part, 2u * GROUP_SIZE)

#include "math.clh"
#include "softmax/stats_held.clh"

KERNEL2(softmax_held, IN(real, x), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, part, 2u * GROUP_SIZE)
    HELD_ROW()
    QUAD held[MOST_QUADS];
    HOLD(held, x, base, last, -INF)
    STATS_HELD(held)
    if (LOGARITHM != 0)
        t = m_log1p(t);
    if (LOGARITHM == 0)
        t = 1.0f + t;
    UNROLL for (uint i = 0u; i < QUADS; i++) {
        QUAD y = held[i] - TO_QUAD(m);
        if (LOGARITHM != 0)
            y = y - TO_QUAD(t);
        if (LOGARITHM == 0)
            y = MAKE_QUAD(m_exp(y.x) / t, m_exp(y.y) / t, m_exp(y.z) / t, m_exp(y.w) / t);
        STORE_HELD(to, i, y)
    }
}
