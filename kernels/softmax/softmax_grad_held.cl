/* SPDX-License-Identifier: MIT */
/* softmax_grad for GPUs, with rows in registers. */
GROUP(256, 1)
SPEC(0, LOGARITHM)
SPEC(1, LOG_LANES)
SPEC(2, MORE)
SPEC(3, IN_QUADS)
PARAMS(uint rows; uint cols;)
QUAD_VIEW(0, y)
QUAD_VIEW(1, slope)
GROUP_ARRAY(float, part, GROUP_SIZE)

#include "math.clh"
#include "row_held.clh"

#define ADD(term) s += term;

KERNEL3(softmax_grad_held, IN(real, y), IN(real, slope), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, part, GROUP_SIZE)
    HELD_ROW()
    QUAD held[MOST_QUADS], slopes[MOST_QUADS];
    HOLD(held, y, base, last, 0.0f)
    HOLD(slopes, slope, base, last, 0.0f)
    EXACT float s = 0.0f;
    UNROLL for (uint i = 0u; i < QUADS; i++) {
        EXACT QUAD terms = slopes[i];
        if (LOGARITHM == 0)
            terms = slopes[i] * held[i];
        EACH(terms, ADD)
    }
    SUM_LANES(s)
    UNROLL for (uint i = 0u; i < QUADS; i++) {
        QUAD value = held[i];
        if (LOGARITHM == 0)
            value = held[i] * (slopes[i] - TO_QUAD(s));
        if (LOGARITHM != 0) {
            value = MAKE_QUAD(m_exp(held[i].x), m_exp(held[i].y), m_exp(held[i].z), m_exp(held[i].w));
            value = slopes[i] - value * TO_QUAD(s);
        }
        STORE_HELD(to, i, value)
    }
}
