/* SPDX-License-Identifier: MIT */
/* acc = acc + x: one addition of the reduction tree. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
PARAMS(uint n;)
#include "stream.clh"

KERNEL2(accumulate, IN(real, x), OUT(real, acc))
{
    STREAM(i, p.n)
    {
        EXACT float sum = LOAD(acc, i) + LOAD(x, i);
        STORE(acc, i, sum);
    }
}
