/* SPDX-License-Identifier: MIT */
/* dz from y = f(z) and dy: f is the activation, which none but y is kept of. */
GROUP(64, 1)
SPEC(0, ACTIVATION)
PARAMS(uint n;)

#define PER 8u /* elements of an invocation, a group's width apart */

KERNEL3(dense_grad, IN(real, y), IN(real, dy), OUT(real, dz))
{
    const uint first = GROUP_INDEX() * GROUP_SIZE * PER + LOCAL_INDEX();
    for (uint t = 0u; t < PER; t++) {
        const uint i = first + t * GROUP_SIZE;
        if (i < p.n) {
            const float v = LOAD(y, i);
            float slope = 1.0f;
            if (ACTIVATION == 1)
                slope = SELECT(v > 0.0f, 1.0f, 0.0f);
            if (ACTIVATION == 2)
                slope = v * (1.0f - v);
            if (ACTIVATION == 3)
                slope = (1.0f - v) * (1.0f + v);
            STORE(dz, i, LOAD(dy, i) * slope);
        }
    }
}
