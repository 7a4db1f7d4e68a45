/* SPDX-License-Identifier: MIT */
/* dlogits = (softmax - one-hot) * dy / divisor, where dy is a scalar. At the label, e - (1 + t) is computed as (e -
   1) - t, which is exact for the largest logit. */
GROUP(256, 1)
PARAMS(uint n; uint cols; uint m; uint h; float divisor;)

#include "divide.clh"
#include "math.clh"

KERNEL5(cross_entropy_grad, IN(real, logits), IN(int, labels), IN(real, stats), IN(real, slope),
        OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), col = i - row * p.cols;
        const uint label = TO_U32(labels[row]);
        const float m = LOAD(stats, 2u * row), t = LOAD(stats, 2u * row + 1u);
        const float e = m_exp(LOAD(logits, i) - m);
        EXACT float at_label = (e - 1.0f) - t;
        const float d = SELECT(col == label, at_label, e) / (1.0f + t);
        const float y = d * (LOAD(slope, 0) / p.divisor);
        STORE(to, i, SELECT(label < p.cols, y, NAN_));
    }
}
