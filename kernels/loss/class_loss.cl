/* SPDX-License-Identifier: MIT */
/* Terms q (log(1 + t) - (x - m)) of the cross-entropy with class weights, label smoothing and an ignored label, from the
   (m, t) of the row (row_stats): q = weight of the class, times at_label at the label and `share` elsewhere. WIDE 0: one
   term for each row, at its label. WIDE 1: a term for each class. A term with q = 0 is 0, whatever its logit. A row with
   the ignored label is 0; another label out of range gives NaN and reads nothing. */
GROUP(256, 1)
SPEC(0, WIDE)
SPEC(1, HAS_IGNORED)
PARAMS(uint n; uint cols; uint m; uint h; uint ignored; float at_label; float share;)

#include "divide.clh"
#include "math.clh"

KERNEL5(class_loss, IN(real, logits), IN(int, labels), IN(real, stats), IN(real, weights), OUT(real, loss))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = SELECT(WIDE != 0, QUOTIENT(i, p.m, p.h), i);
        const uint label = TO_U32(labels[row]);
        const uint col = SELECT(WIDE != 0, i - row * p.cols, label);
        const bool is_ignored = HAS_IGNORED != 0 && label == p.ignored;
        float y = SELECT(is_ignored, 0.0f, NAN_);
        if (label < p.cols && !is_ignored) {
            const float q = LOAD(weights, col) * SELECT(col == label, p.at_label, p.share);
            const float x = LOAD(logits, row * p.cols + col) - LOAD(stats, 2u * row);
            const float term = q * (m_log1p(LOAD(stats, 2u * row + 1u)) - x);
            y = SELECT((AS_UINT(q) & 0x7fffffffu) == 0u, 0.0f, term);
        }
        STORE(loss, i, y);
    }
}
