/* SPDX-License-Identifier: MIT */
/* The logit of each row's label, where the columns from `first` on have it; else the one that earlier columns gave, NaN in
   front of them. */
GROUP(64, 1)
PARAMS(uint rows; uint cols; uint first;)

KERNEL4(label_logit, IN(real, logits), IN(int, labels), IN(real, before), OUT(real, to))
{
    const uint row = INDEX();
    if (row < p.rows) {
        const uint col = TO_U32(labels[row]) - p.first; /* of a smaller label: a large number */
        float y = NAN_;
        if (col < p.cols)
            y = LOAD(logits, row * p.cols + col);
        else if (p.first > 0u)
            y = LOAD(before, row);
        STORE(to, row, y);
    }
}
