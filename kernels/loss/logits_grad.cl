/* SPDX-License-Identifier: MIT */
/* dlogits = (softmax - one-hot) * slope[row] for the columns from `first` on of `classes`, from the (m, t) of whole rows
   (row_stats). At the label, e - (1 + t) is computed as (e - 1) - t, which is exact for the largest logit. Rows with the
   ignored label are 0, whatever their logits are; those with another label out of range are NaN. */
GROUP(256, 1)
SPEC(0, HAS_IGNORED)
PARAMS(uint n; uint cols; uint m; uint h; uint first; uint classes; uint ignored;)

#include "divide.clh"
#include "math.clh"

KERNEL5(logits_grad, IN(real, logits), IN(int, labels), IN(real, stats), IN(real, slope), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), col = i - row * p.cols + p.first;
        const uint label = TO_U32(labels[row]);
        const float m = LOAD(stats, 2u * row), t = LOAD(stats, 2u * row + 1u);
        const float e = m_exp(LOAD(logits, i) - m);
        EXACT float at_label = (e - 1.0f) - t;
        const float d = SELECT(col == label, at_label, e) / (1.0f + t);
        const float y = SELECT(label < p.classes, d * LOAD(slope, row), NAN_);
        STORE(to, i, SELECT(HAS_IGNORED != 0 && label == p.ignored, 0.0f, y));
    }
}
