/* SPDX-License-Identifier: MIT */
/* y = exp(x - m) / (1 + t), or its logarithm, from the (m, t) of each row (row_stats). */
GROUP(256, 1)
SPEC(0, LOGARITHM)
PARAMS(uint n; uint cols; uint m; uint h;)

#include "divide.clh"
#include "math.clh"

KERNEL3(softmax, IN(real, from), IN(real, stats), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h);
        const float m = LOAD(stats, 2u * row), t = LOAD(stats, 2u * row + 1u);
        const float x = LOAD(from, i) - m;
        float y = 0.0f;
        if (LOGARITHM != 0)
            y = x - m_log1p(t);
        if (LOGARITHM == 0)
            y = m_exp(x) / (1.0f + t);
        STORE(to, i, y);
    }
}
