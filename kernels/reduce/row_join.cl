/* SPDX-License-Identifier: MIT */
/* The sums of rows over lists, by the canonical tree over all lists (core/reduce/sum_schedule.h): a list without the row adds 0.
   places [lists, entries] and leads [entries] are those of row_find; an entry that leads no row gets zeros. */
GROUP(64, 1)
PARAMS(uint n; uint entries; uint lists; uint rows; uint width; uint m; uint h;)

#include "divide.clh"

KERNEL4(row_join, IN(int, leads), IN(uint, places), IN(real, terms), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint entry = QUOTIENT(i, p.m, p.h), col = i - entry * p.width;
        EXACT float tree[7]; /* sums of 1, 2, 4, ... lists that wait for as many others */
        EXACT float sum = 0.0f;
        if (TO_U32(leads[entry]) < p.rows) {
            for (uint k = 0u; k < p.lists; k++) {
                const uint place = places[k * p.entries + entry];
                uint level = 0u;
                sum = 0.0f;
                if (place != 0xffffffffu)
                    sum = LOAD(terms, place * p.width + col);
                while (((k >> level) & 1u) != 0u) {
                    sum = tree[level] + sum;
                    level++;
                }
                tree[level] = sum;
            }
            /* Add the waiting trees, starting with the last one: `sum` has the lists of the lowest one. */
            uint waits = p.lists & (p.lists - 1u);
            for (uint level = 0u; level < 7u; level++)
                if (((waits >> level) & 1u) != 0u)
                    sum = tree[level] + sum;
        }
        STORE(to, i, sum);
    }
}
