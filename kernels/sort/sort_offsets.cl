/* SPDX-License-Identifier: MIT */
/* Second step of a pass of a sort: an invocation replaces the counts of a digit by the sums of the blocks before, and
   stores their total. */
GROUP(64, 1)
PARAMS(uint blocks; uint digits;)

KERNEL2(sort_offsets, OUT(uint, counts), OUT(uint, totals))
{
    const uint digit = INDEX();
    if (digit < p.digits) {
        uint sum = 0u;
        for (uint b = 0u; b < p.blocks; b++) {
            const uint count = counts[digit * p.blocks + b];
            counts[digit * p.blocks + b] = sum;
            sum += count;
        }
        totals[digit] = sum;
    }
}
