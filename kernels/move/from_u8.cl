/* SPDX-License-Identifier: MIT */
/* Bytes to integers. A word has four bytes, the lowest first. */
GROUP(256, 1)
PARAMS(uint n;)

KERNEL2(from_u8, IN(int, from), OUT(int, to))
{
    const uint i = INDEX();
    if (i < p.n)
        to[i] = (from[i >> 2] >> (8 * TO_I32(i & 3u))) & 255;
}
