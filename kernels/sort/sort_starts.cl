/* SPDX-License-Identifier: MIT */
/* starts[r] = the number of sorted positions whose row index is below r, for r from 0 to `rows`. */
GROUP(64, 1)
PARAMS(uint n; uint rows;)

KERNEL3(sort_starts, IN(int, indices), IN(uint, order), OUT(uint, starts))
{
    const uint row = INDEX();
    if (row <= p.rows) {
        uint low = 0u, high = p.n;
        while (low < high) {
            const uint middle = (low + high) / 2u;
            const bool is_below = MIN(TO_U32(indices[order[middle]]), p.rows) < row;
            low = SELECT(is_below, middle + 1u, low);
            high = SELECT(is_below, high, middle);
        }
        starts[row] = low;
    }
}
