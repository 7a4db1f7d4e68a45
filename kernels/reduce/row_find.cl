/* SPDX-License-Identifier: MIT */
/* Lists of rows, sorted; entries of p.rows and above are none. places[k n + i] = the first place of entry i's row in list
   k, or 0xffffffff. leads[i] = the row where entry i is the first of its row in all lists, else p.rows. */
GROUP(64, 1)
PARAMS(uint n; uint lists; uint each; uint rows;)

KERNEL3(row_find, IN(int, rows), OUT(int, leads), OUT(uint, places))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint row = TO_U32(rows[i]);
        bool is_first = true;
        for (uint k = 0u; k < p.lists; k++) {
            const uint end = (k + 1u) * p.each;
            uint low = k * p.each, high = end, place = 0xffffffffu;
            while (low < high) {
                const uint middle = (low + high) / 2u;
                const bool is_below = TO_U32(rows[middle]) < row;
                low = SELECT(is_below, middle + 1u, low);
                high = SELECT(is_below, high, middle);
            }
            if (low < end)
                if (TO_U32(rows[low]) == row)
                    place = low;
            if (place < i)
                is_first = false;
            places[k * p.n + i] = place;
        }
        leads[i] = TO_I32(SELECT(is_first, row, p.rows));
    }
}
