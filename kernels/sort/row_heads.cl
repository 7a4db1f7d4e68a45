/* SPDX-License-Identifier: MIT */
/* rows[k] = the row at place k of a sort of n positions; an index out of range is p.rows. starts[k] = the first place from k
   on at which another row begins, for k from 0 to n; from the first index out of range on, its place. So the places
   starts[k] to starts[k + 1] - 1 are those of rows[k] where k is the first of them, and none elsewhere. */
GROUP(64, 1)
PARAMS(uint n; uint rows;)

KERNEL4(row_heads, IN(int, indices), IN(uint, order), OUT(int, rows), OUT(uint, starts))
{
    const uint k = INDEX();
    if (k <= p.n) {
        uint row = p.rows, before = p.rows;
        if (k < p.n)
            row = MIN(TO_U32(indices[order[k]]), p.rows);
        if (k > 0u)
            before = TO_U32(indices[order[k - 1u]]);
        const bool is_head = row < p.rows && (k == 0u || before != row);
        const uint above = MIN(row + 1u, p.rows); /* search for this row, or one above it */
        uint low = k, high = p.n;
        if (row == p.rows)
            low = 0u;
        while (low < high && !is_head) {
            const uint middle = (low + high) / 2u;
            const bool is_below = TO_U32(indices[order[middle]]) < above;
            low = SELECT(is_below, middle + 1u, low);
            high = SELECT(is_below, high, middle);
        }
        starts[k] = low;
        if (k < p.n)
            rows[k] = TO_I32(row);
    }
}
