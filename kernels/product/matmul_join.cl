/* SPDX-License-Identifier: MIT */
/* C = f(the sum of the parts of matmul_tile + bias): parts are added one by one, in their order. f, z and another
   meaning of `bias`: ends.clh. */
GROUP(256, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
PARAMS(uint count; uint n; uint parts;)

#include "product/ends.clh"
#include "by_four.clh"

KERNEL4(matmul_join, IN(real, from), IN(real, bias), OUT(real, z), OUT(real, c))
{
    const uint i = INDEX();
    if (i < p.count) {
        EXACT float sum = LOAD(from, i);
        BY_FOUR(q, 1u, p.parts, 1u, sum += LOAD(from, q * p.count + i);)
        float value = sum;
        if (HAS_BIAS != 0)
            value = value + LOAD(bias, i % p.n);
        STORE_END(i, value)
    }
}
