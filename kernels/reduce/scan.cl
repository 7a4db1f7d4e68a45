/* SPDX-License-Identifier: MIT */
/* Last step of a cumulative sum: an invocation adds the elements of a chunk one after the other to the sum `before` of the
   chunks before it, [outer, chunks, inner]. An EXCLUSIVE sum leaves out the element itself. */
GROUP(64, 1)
SPEC(0, REVERSE)
SPEC(1, EXCLUSIVE)
SPEC(2, LATER) /* several chunks in a line; otherwise `before` is not read */
PARAMS(uint n; uint count; uint chunks; uint inner;)

#include "reduce/scan.clh"

KERNEL3(scan, IN(real, x), IN(real, before), OUT(real, y))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint line = i / p.inner, outer = line / p.chunks, first = (line - outer * p.chunks) * CHUNK;
        const uint base = outer * p.count * p.inner + i - line * p.inner, end = MIN(first + CHUNK, p.count);
        float start = 0.0f;
        if (LATER != 0)
            start = LOAD(before, i);
        EXACT float total = 0.0f;
        EXACT float run = 0.0f;
        EXACT float part = 0.0f;
        for (uint k = first; k < end; k++) {
            EXACT float next = part + LOAD(x, PLACE(k));
            EXACT float sum = start + (total + (run + SELECT(EXCLUSIVE != 0, part, next)));
            STORE(y, PLACE(k), sum);
            part = next;
            CARRY(k)
        }
    }
}
