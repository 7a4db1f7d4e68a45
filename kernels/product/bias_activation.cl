/* SPDX-License-Identifier: MIT */
/* y = f(x + bias) for rows of n elements, after a product computed by a vendor's library. */
GROUP(256, 1)
SPEC(0, HAS_BIAS)
SPEC(1, ACTIVATION)
PARAMS(uint count; uint n;)

#include "elementwise/activation.clh"

KERNEL3(bias_activation, IN(real, x), IN(real, bias), OUT(real, y))
{
    const uint i = INDEX();
    if (i < p.count) {
        float value = LOAD(x, i);
        if (HAS_BIAS != 0)
            value = value + LOAD(bias, i % p.n);
        STORE(y, i, activate(value));
    }
}
