/* SPDX-License-Identifier: MIT */
/* First step of a cumulative sum: the sum of each chunk of a line, as [outer, chunks, inner]. */
GROUP(64, 1)
SPEC(0, REVERSE)
PARAMS(uint n; uint count; uint chunks; uint inner;)

#include "reduce/scan.clh"

KERNEL2(scan_sums, IN(real, x), OUT(real, sums))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint line = i / p.inner, outer = line / p.chunks, first = (line - outer * p.chunks) * CHUNK;
        const uint base = outer * p.count * p.inner + i - line * p.inner, end = MIN(first + CHUNK, p.count);
        EXACT float total = 0.0f;
        EXACT float run = 0.0f;
        EXACT float part = 0.0f;
        for (uint k = first; k < end; k++) {
            part = part + LOAD(x, PLACE(k));
            CARRY(k)
        }
        EXACT float sum = total + (run + part);
        STORE(sums, i, sum);
    }
}
