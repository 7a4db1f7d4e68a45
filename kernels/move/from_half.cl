/* SPDX-License-Identifier: MIT */
/* 16-bit floating point to f32, exactly: bfloat16, else IEEE binary16. A word has two elements, the first in its low
   half. Small binary16 numbers are whole multiples of 2^-24. */
GROUP(256, 1)
SPEC(0, IS_BFLOAT)
PARAMS(uint n;)

KERNEL2(from_half, IN(int, from), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint h = (TO_U32(from[i >> 1]) >> (16u * (i & 1u))) & 65535u;
        const uint sign = (h >> 15) << 31, exponent = (h >> 10) & 31u, fraction = h & 1023u;
        const float small = TO_F32(fraction) * 5.9604644775390625e-8f;
        const uint large = sign | (SELECT(exponent == 31u, 255u, exponent + 112u) << 23) | (fraction << 13);
        const uint value = SELECT(exponent == 0u, AS_UINT(small) | sign, large);
        STORE(to, i, AS_FLOAT(SELECT(IS_BFLOAT != 0, h << 16, value)));
    }
}
