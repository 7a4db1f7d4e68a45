/* SPDX-License-Identifier: MIT */
/* Sum of the integers of RANKS <= 64 ranks, element by element, modulo 2^32. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, RANKS)
PARAMS(uint n; uint stride;)
#include "stream.clh"

KERNEL2(sum_i32, IN(uint, parts), OUT(uint, sums))
{
    STREAM(i, p.n)
    {
        uint sum = 0u;
        for (int r = 0; r < RANKS; r++)
            sum += parts[i + TO_U32(r) * p.stride];
        sums[i] = sum;
    }
}
