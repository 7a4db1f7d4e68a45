/* SPDX-License-Identifier: MIT */
/* x [batches, places, channels] normalised by the mean and 1 / sigma of its batch and channel, 
   u = ((x - mean) - rest) inverse, where `rest`, the mean of the differences x - mean, follows the means:
   OP 0 y = u scale + offset (b), 1 dx = (scale dy - share[0] - u share[1]) inverse, where b is dy and the shares are what
   the statistics contribute, 2 relu(y), 3 y + r, 4 relu(y + r), where `shares` is r. */
GROUP(256, 1)
SPEC(0, OP)
PARAMS(uint n; uint channels; uint m; uint h; uint size; uint size_m; uint size_h; uint second;)

#include "divide.clh"

#define GRADIENT 1
#define HAS_RELU (OP == 2 || OP == 4)
#define HAS_R    (OP > 2)

KERNEL7(channel_norm, IN(real, x), IN(real, mean), IN(real, inverse), IN(real, scale), IN(real, b), IN(real, shares),
        OUT(real, y))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint c = i - QUOTIENT(i, p.m, p.h) * p.channels;
        const uint at = QUOTIENT(i, p.size_m, p.size_h) * p.channels + c;
        const float factor = LOAD(inverse, at), d = LOAD(x, i) - LOAD(mean, at);
        const float u = (d - LOAD(mean, p.second + at)) * factor;
        if (OP != GRADIENT) {
            EXACT float result = u * LOAD(scale, c) + LOAD(b, c);
            if (HAS_R)
                result = result + LOAD(shares, i);
            if (HAS_RELU)
                result = SELECT(result <= 0.0f, 0.0f, result);
            STORE(y, i, result);
        }
        if (OP == GRADIENT) {
            EXACT float slope = LOAD(scale, c) * LOAD(b, i);
            STORE(y, i, ((slope - LOAD(shares, at)) - u * LOAD(shares, p.second + at)) * factor);
        }
    }
}
