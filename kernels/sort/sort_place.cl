/* SPDX-License-Identifier: MIT */
/* Last step of a pass of a sort: an invocation writes the positions of its block to their places, in order. */
GROUP(64, 1)
SPEC(0, FIRST)
PARAMS(uint n; uint rows; uint blocks; uint each; uint shift; uint digits;)

KERNEL5(sort_place, IN(int, indices), IN(uint, order), IN(uint, totals), OUT(uint, counts), OUT(uint, to))
{
    const uint block = INDEX();
    if (block < p.blocks) {
        const uint end = MIN((block + 1u) * p.each, p.n);
        uint before = 0u;
        for (uint d = 0u; d < p.digits; d++) {
            counts[d * p.blocks + block] = counts[d * p.blocks + block] + before;
            before += totals[d];
        }
        for (uint k = block * p.each; k < end; k++) {
            uint place = k;
            if (FIRST == 0)
                place = order[k];
            const uint row = MIN(TO_U32(indices[place]), p.rows);
            const uint at = ((row >> p.shift) & (p.digits - 1u)) * p.blocks + block;
            to[counts[at]] = place;
            counts[at] = counts[at] + 1u;
        }
    }
}
