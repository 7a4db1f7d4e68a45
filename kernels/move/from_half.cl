/* SPDX-License-Identifier: MIT */
/* 16-bit floating point to f32, exactly: bfloat16, else IEEE binary16. */
GROUP(256, 1)
SPEC(0, IS_BFLOAT)
PARAMS(uint n;)

#include "half.clh"

KERNEL2(from_half, IN(int, from), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n)
        STORE(to, i, LOAD_16(from, i));
}
