/* SPDX-License-Identifier: MIT */
/* The derivative of class_loss: dlogits = (Q softmax - q) dy[row], where Q = keep weight[label] + smoothing mean is the
   sum of q over the row, and `mean` the mean of the weights. At a label with a softmax above 1/2, Q (softmax - 1) + (Q - q)
   keeps the digits, where e - (1 + t) is computed as (e - 1) - t, which is exact for the largest logit. Terms with
   Q = 0 and q = 0, and rows with the ignored label, give 0, whatever dy is. */
GROUP(256, 1)
SPEC(0, HAS_IGNORED)
PARAMS(uint n; uint cols; uint m; uint h; uint ignored; float at_label; float share; float keep; float smoothing;)

#include "divide.clh"
#include "math.clh"

KERNEL7(class_loss_grad, IN(real, logits), IN(int, labels), IN(real, stats), IN(real, weights), IN(real, mean),
        IN(real, slope), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = QUOTIENT(i, p.m, p.h), col = i - row * p.cols;
        const uint label = TO_U32(labels[row]);
        const bool is_ignored = HAS_IGNORED != 0 && label == p.ignored;
        float y = SELECT(is_ignored, 0.0f, NAN_);
        if (label < p.cols && !is_ignored) {
            const float t = LOAD(stats, 2u * row + 1u), e = m_exp(LOAD(logits, i) - LOAD(stats, 2u * row));
            const float all = LOAD(weights, label) * p.keep + LOAD(mean, 0) * p.smoothing;
            const float q = LOAD(weights, col) * SELECT(col == label, p.at_label, p.share);
            EXACT float at_label = (e - 1.0f) - t;
            const float here = all * (at_label / (1.0f + t)) + (all - q);
            const float d = SELECT(col == label && 2.0f * e > 1.0f + t, here, all * (e / (1.0f + t)) - q);
            y = SELECT(((AS_UINT(all) | AS_UINT(q)) & 0x7fffffffu) == 0u, 0.0f, d * LOAD(slope, row));
        }
        STORE(to, i, y);
    }
}
