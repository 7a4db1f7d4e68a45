/* SPDX-License-Identifier: MIT */
/* Loss of each row: log(1 + t) - (x[label] - m), from the (m, t) of the row (row_stats). A label
   out of range gives NaN and reads nothing. */
GROUP(64, 1)
PARAMS(uint rows; uint cols;)

#include "math.clh"

KERNEL4(cross_entropy, IN(real, logits), IN(int, labels), IN(real, stats), OUT(real, loss))
{
    const uint row = INDEX();
    if (row < p.rows) {
        const uint label = TO_U32(labels[row]);
        const float m = LOAD(stats, 2u * row), t = LOAD(stats, 2u * row + 1u);
        float y = NAN_;
        if (label < p.cols)
            y = m_log1p(t) - (LOAD(logits, row * p.cols + label) - m);
        STORE(loss, row, y);
    }
}
