/* SPDX-License-Identifier: MIT */
/* p -= rate (g + decay p); g is scaled first. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, DECAYS)
PARAMS(uint n; float decay;)
#include "stream.clh"

KERNEL3(sgd, IN(real, grad), OUT(real, value), IN(uint, step))
{
    const float rate = AS_FLOAT(step[6]), scale = AS_FLOAT(step[9]);
    STREAM(i, p.n)
    {
        EXACT float x = LOAD(value, i);
        EXACT float g = scale * LOAD(grad, i);
        if (DECAYS != 0)
            g = g + p.decay * x;
        x = x - rate * g;
        STORE(value, i, x);
    }
}
