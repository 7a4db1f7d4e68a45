/* SPDX-License-Identifier: MIT */
/* f32 to 16-bit floating point, rounded to nearest, ties to even: bfloat16, else IEEE binary16. An invocation writes one
   word; the second half of the last word is 0 if n is odd. */
GROUP(256, 1)
SPEC(0, IS_BFLOAT)
PARAMS(uint n;)

#include "half.clh"

KERNEL2(to_half, IN(real, from), OUT(int, to))
{
    const uint i = INDEX(), low = 2u * i, high = low + 1u;
    if (low < p.n) {
        const uint second = SELECT(high < p.n, to_16(LOAD(from, MIN(high, p.n - 1u))), 0u);
        to[i] = TO_I32(to_16(LOAD(from, low)) | (second << 16));
    }
}
