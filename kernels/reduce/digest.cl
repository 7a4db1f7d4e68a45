/* SPDX-License-Identifier: MIT */
/* Digests of blocks of 128 words: the 32-bit FNV-1a hash with words in the place of bytes
   (http://www.isthe.com/chongo/tech/comp/fnv/). Words that differ in one bit have different digests. */
GROUP(64, 1)
PARAMS(uint n;)

KERNEL2(digest, IN(uint, words), OUT(uint, parts))
{
    const uint first = INDEX() * 128u;
    if (first < p.n) {
        const uint end = MIN(first + 128u, p.n);
        uint sum = 2166136261u;
        for (uint i = first; i < end; i++)
            sum = (sum ^ words[i]) * 16777619u;
        parts[INDEX()] = sum;
    }
}
