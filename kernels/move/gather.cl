/* SPDX-License-Identifier: MIT */
/* Rows of a table by index. An index out of range gives NaN and reads nothing. */
GROUP(256, 1)
PARAMS(uint n; uint width; uint m; uint h; uint rows;)

#include "divide.clh"

KERNEL3(gather, IN(real, table), IN(int, indices), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint place = QUOTIENT(i, p.m, p.h), col = i - place * p.width;
        const uint row = TO_U32(indices[place]);
        float y = NAN_;
        if (row < p.rows)
            y = LOAD(table, row * p.width + col);
        STORE(to, i, y);
    }
}
