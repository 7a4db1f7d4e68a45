/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* dropout for CPUs with wide vectors: an invocation computes `each` elements, 16 at a time, with the random words of
   dropout. The counters are in lanes of 64 bits, because CPUs multiply the lower halves of these into whole products; the
   upper halves of what is not a product are not used. */
GROUP(1, 1)
PARAMS(uint n; uint row_elements; uint stream; uint threshold; float scale; uint each;)

#include "part_wide.clh"

#define LOW (ulong8)(0xffffffffu)
/* A round of two counters of 8 lanes each; the key of round k is loop-invariant. */
#define ROUND(k)                                                                                   \
    {                                                                                              \
        const ulong8 key0 = (ulong8)((ulong)(uint)(words[1] + (k) * 0x9e3779b9u));                 \
        const ulong8 key1 = (ulong8)((ulong)(uint)(words[2] + (k) * 0xbb67ae85u));                 \
        HALF(a, key0, key1)                                                                        \
        HALF(b, key0, key1)                                                                        \
    }
#define HALF(c, key0, key1)                                                                        \
    {                                                                                              \
        const ulong8 product0 = (c##0 & LOW) * 0xd2511f53u, product1 = (c##2 & LOW) * 0xcd9e8d57u; \
        c##0 = (product1 >> 32) ^ c##1 ^ key0;                                                     \
        c##1 = product1;                                                                           \
        c##2 = (product0 >> 32) ^ c##3 ^ key1;                                                     \
        c##3 = product0;                                                                           \
    }

/* The random words at 16 positions in the data, with the key and the step of `words` (philox.clh). */
FN uint16 random_words(ulong8 a0, ulong8 b0, __global const uint *words, uint stream)
{
    ulong8 a1 = a0 >> 32, a2 = (ulong8)(words[0]), a3 = (ulong8)(stream);
    ulong8 b1 = b0 >> 32, b2 = a2, b3 = a3;
    ROUND(0u)
    ROUND(1u)
    ROUND(2u)
    ROUND(3u)
    ROUND(4u)
    ROUND(5u)
    ROUND(6u)
    ROUND(7u)
    ROUND(8u)
    ROUND(9u)
    return (uint16)(convert_uint8(a0 & LOW), convert_uint8(b0 & LOW));
}

KERNEL3(dropout_wide, IN(float, from), IN(uint, words), OUT(float, to))
{
    const uint first = GROUP_INDEX() * p.each;
    if (first >= p.n)
        return;
    const uint end = min(p.n - first, p.each) + first;
    /* Examples are counted modulo 2^32: from element `wrap` on they begin at 0. */
    const ulong start = (ulong)words[3] * p.row_elements, wrap = (((ulong)1 << 32) - words[3]) * p.row_elements;
    const ulong8 behind = (ulong8)((ulong)p.row_elements << 32);
    for (uint i = first; i < end; i += 16) {
        const ulong8 a = (ulong8)((ulong)i) + (ulong8)(0, 1, 2, 3, 4, 5, 6, 7), b = a + 8;
        const ulong8 low = start + a - select((ulong8)(0), behind, a >= wrap);
        const ulong8 high = start + b - select((ulong8)(0), behind, b >= wrap);
        const uint16 random = random_words(low, high, words, p.stream);
        const float16 y = select(load_part(from, i, end) * p.scale, (float16)(0.0f), random < p.threshold);
        if (i + 16 <= end)
            store16(y, to + i);
        else
            store_part(y, to, i, end);
    }
}
