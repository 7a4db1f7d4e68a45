/* SPDX-License-Identifier: MIT */
/* Losses of x and a target y, element by element. KIND 0: binary cross-entropy of the logit x, where targets of 1 have
   the weight w, which repeats after d elements: (1 - y) softplus(x) + w y softplus(-x). KIND 1: y (log y - x). A term with
   a factor 0 is 0, whatever x is. */
GROUP(256, 1)
SPEC(0, KIND)
PARAMS(uint n; uint d; uint m; uint h;)

#include "divide.clh"
#include "math.clh"

KERNEL4(pair_loss, IN(real, from), IN(real, target), IN(real, weight), OUT(real, loss))
{
    const uint i = INDEX();
    if (i < p.n) {
        const float x = LOAD(from, i), y = LOAD(target, i);
        float z = 0.0f;
        if (KIND == 0) {
            const float w = LOAD(weight, i - QUOTIENT(i, p.m, p.h) * p.d);
            const float off = 1.0f - y, on = w * y, a = fabs(x);
            const float side = SELECT(x > 0.0f, off, on);
            const float tail = (off + on) * m_log1p(m_exp(-a));
            z = tail + SELECT((AS_UINT(side) & 0x7fffffffu) == 0u, 0.0f, side * a);
        }
        if (KIND == 1)
            z = SELECT((AS_UINT(y) & 0x7fffffffu) == 0u, 0.0f, y * (m_log(y) - x));
        STORE(loss, i, z);
    }
}
