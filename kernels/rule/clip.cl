/* SPDX-License-Identifier: MIT */
/* Limits the magnitude of every element after scaling; the sign is kept. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
PARAMS(uint n; float limit;)
#include "stream.clh"

KERNEL2(clip, IN(uint, step), OUT(real, grad))
{
    const float most = p.limit / AS_FLOAT(step[9]);
    STREAM(i, p.n)
    {
        const float g = LOAD(grad, i);
        STORE(grad, i, SELECT(g > most, most, SELECT(g < -most, -most, g)));
    }
}
