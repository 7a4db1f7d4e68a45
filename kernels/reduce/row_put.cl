/* SPDX-License-Identifier: MIT */
/* Rows of `from` to the rows of a table that `rows` names; these differ, and those of p.rows and above are left out. Other
   rows of the table are left as they are. */
GROUP(256, 1)
PARAMS(uint n; uint width; uint m; uint h; uint rows;)

#include "divide.clh"

KERNEL3(row_put, IN(real, from), IN(int, rows), OUT(real, table))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint place = QUOTIENT(i, p.m, p.h), col = i - place * p.width;
        const uint row = TO_U32(rows[place]);
        if (row < p.rows)
            STORE(table, row * p.width + col, LOAD(from, i));
    }
}
