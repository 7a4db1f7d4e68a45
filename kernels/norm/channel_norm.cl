/* SPDX-License-Identifier: MIT */
/* x [batches, places, channels] normalised by the mean and 1 / sigma of its batch and channel, 
   u = ((x - mean) - rest) inverse, where `rest`, the mean of the differences x - mean, follows the means:
   OP 0 y = u scale + offset (b), 1 dx = (scale dy - share[0] - u share[1]) inverse, where b is dy and the shares are what
   the statistics contribute. */
GROUP(256, 1)
SPEC(0, OP)
PARAMS(uint n; uint channels; uint m; uint h; uint size; uint size_m; uint size_h; uint second;)

#include "divide.clh"

KERNEL7(channel_norm, IN(real, x), IN(real, mean), IN(real, inverse), IN(real, scale), IN(real, b), IN(real, shares),
        OUT(real, y))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint c = i - QUOTIENT(i, p.m, p.h) * p.channels;
        const uint at = QUOTIENT(i, p.size_m, p.size_h) * p.channels + c;
        const float factor = LOAD(inverse, at), d = LOAD(x, i) - LOAD(mean, at);
        const float u = (d - LOAD(mean, p.second + at)) * factor;
        if (OP == 0)
            STORE(y, i, u * LOAD(scale, c) + LOAD(b, c));
        if (OP != 0) {
            EXACT float slope = LOAD(scale, c) * LOAD(b, i);
            STORE(y, i, ((slope - LOAD(shares, at)) - u * LOAD(shares, p.second + at)) * factor);
        }
    }
}
