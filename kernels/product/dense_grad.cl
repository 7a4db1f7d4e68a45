/* SPDX-License-Identifier: MIT */
/* dz = dy f'(z) from y = f(z): f is the activation, z itself is not kept. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, ACTIVATION)
PARAMS(uint n;)

#include "stream.clh"

KERNEL3(dense_grad, IN(real, y), IN(real, dy), OUT(real, dz))
{
    STREAM(i, p.n)
    {
        const float v = LOAD(y, i), d = LOAD(dy, i);
        float r = d;
        if (ACTIVATION == 1)
            r = SELECT(v > 0.0f, d, 0.0f);
        if (ACTIVATION == 2)
            r = d * (v * (1.0f - v));
        if (ACTIVATION == 3)
            r = d * ((1.0f - v) * (1.0f + v));
        STORE(dz, i, r);
    }
}
