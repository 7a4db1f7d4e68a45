/* SPDX-License-Identifier: MIT */
/* C = f(the sum of the parts of matmul_tile + bias): parts are added one by one, in their order. */
GROUP(256, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
PARAMS(uint count; uint n; uint parts;)

#include "elementwise/activation.clh"
#include "by_four.clh"

KERNEL3(matmul_join, IN(real, from), IN(real, bias), OUT(real, c))
{
    const uint i = INDEX();
    if (i < p.count) {
        EXACT float sum = LOAD(from, i);
        BY_FOUR(q, 1u, p.parts, 1u, sum += LOAD(from, q * p.count + i);)
        float value = sum;
        if (HAS_BIAS != 0)
            value = value + LOAD(bias, i % p.n);
        STORE(c, i, activate(value));
    }
}
