/* SPDX-License-Identifier: MIT */
/* The derivative of pair_loss with respect to x, times dy. KIND 0: (1 - y) sigmoid(x) - w y sigmoid(-x). KIND 1: -y. */
GROUP(256, 1)
SPEC(0, KIND)
PARAMS(uint n; uint d; uint m; uint h;)

#include "divide.clh"
#include "math.clh"

KERNEL5(pair_loss_grad, IN(real, from), IN(real, target), IN(real, weight), IN(real, slope), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const float x = LOAD(from, i), y = LOAD(target, i), dy = LOAD(slope, i);
        float z = 0.0f;
        if (KIND == 0) {
            const float on = LOAD(weight, i - QUOTIENT(i, p.m, p.h) * p.d) * y;
            const float e = m_exp(-fabs(x)), off = 1.0f - y;
            z = SELECT(x > 0.0f, off - on * e, off * e - on) / (1.0f + e) * dy;
        }
        if (KIND == 1)
            z = -y * dy;
        STORE(to, i, z);
    }
}
