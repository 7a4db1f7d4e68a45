/* SPDX-License-Identifier: MIT */
/* Each block of 128 elements is multiplied by its factor. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
PARAMS(uint n;)
#include "stream.clh"

KERNEL2(block_scale, IN(real, factors), OUT(real, grad))
{
    STREAM(i, p.n)
    {
        EXACT float scaled = LOAD(grad, i) * LOAD(factors, i >> 7);
        STORE(grad, i, scaled);
    }
}
