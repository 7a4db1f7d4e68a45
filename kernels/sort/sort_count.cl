/* SPDX-License-Identifier: MIT */
/* One pass of a stable sort of positions by row index, first step: an invocation counts the digits of the indices of
   a block of `each` positions. counts is [digits, blocks]. An index out of range sorts as `rows`, after all others. */
GROUP(64, 1)
SPEC(0, FIRST)
PARAMS(uint n; uint rows; uint blocks; uint each; uint shift; uint digits;)

KERNEL3(sort_count, IN(int, indices), IN(uint, order), OUT(uint, counts))
{
    const uint block = INDEX();
    if (block < p.blocks) {
        const uint end = MIN((block + 1u) * p.each, p.n);
        for (uint d = 0u; d < p.digits; d++)
            counts[d * p.blocks + block] = 0u;
        for (uint k = block * p.each; k < end; k++) {
            uint place = k;
            if (FIRST == 0)
                place = order[k];
            const uint row = MIN(TO_U32(indices[place]), p.rows);
            const uint at = ((row >> p.shift) & (p.digits - 1u)) * p.blocks + block;
            counts[at] = counts[at] + 1u;
        }
    }
}
