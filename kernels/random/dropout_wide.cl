/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* dropout for CPUs with wide vectors: an invocation computes `each` elements, 16 at a time, with the random words of
   dropout. The counters are in lanes of 64 bits, because CPUs multiply the lower halves of these into whole products; the
   upper halves of what is not a product are not used. */
GROUP(1, 1)
PARAMS(uint n; uint row_elements; uint stream; uint threshold; float scale; uint each;)

#include "part_wide.clh"

#define LOW (ulong8)(0xffffffffu)
#define ROUND(k)                                                                                   \
    {                                                                                              \
        const ulong8 product0 = (c0 & LOW) * 0xd2511f53u, product1 = (c2 & LOW) * 0xcd9e8d57u;     \
        c0 = (product1 >> 32) ^ c1 ^ (ulong)(uint)(words[1] + (k) * 0x9e3779b9u);                  \
        c1 = product1;                                                                             \
        c2 = (product0 >> 32) ^ c3 ^ (ulong)(uint)(words[2] + (k) * 0xbb67ae85u);                  \
        c3 = product0;                                                                             \
    }

/* The random words at 8 positions in the data, with the key and the step of `words` (philox.clh). */
FN uint8 random_words(ulong8 position, __global const uint *words, uint stream)
{
    ulong8 c0 = position, c1 = position >> 32, c2 = (ulong8)(words[0]), c3 = (ulong8)(stream);
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
    return convert_uint8(c0 & LOW);
}

/* The results for elements first + 0 .. 15. Examples are counted modulo 2^32: from element `wrap` on they begin at 0. */
FN float16 results(float16 x, uint first, ulong wrap, __global const uint *words, const struct params p)
{
    const ulong8 lanes = (ulong8)(0, 1, 2, 3, 4, 5, 6, 7), i = (ulong8)((ulong)first) + lanes;
    const ulong8 start = (ulong8)((ulong)words[3] * p.row_elements), behind = (ulong8)((ulong)p.row_elements << 32);
    const ulong8 j = i + 8;
    const ulong8 low = start + i - select((ulong8)(0), behind, i >= wrap);
    const ulong8 high = start + j - select((ulong8)(0), behind, j >= wrap);
    const uint16 random = (uint16)(random_words(low, words, p.stream), random_words(high, words, p.stream));
    return select(x * p.scale, (float16)(0.0f), random < p.threshold);
}

KERNEL3(dropout_wide, IN(float, from), IN(uint, words), OUT(float, to))
{
    const uint first = GROUP_INDEX() * p.each;
    if (first >= p.n)
        return;
    const uint end = min(p.n - first, p.each) + first;
    const ulong wrap = (((ulong)1 << 32) - words[3]) * p.row_elements;
    uint i = first;
    for (; i + 16 <= end; i += 16)
        vstore16(results(vload16(0, from + i), i, wrap, words, p), 0, to + i);
    if (i < end)
        store_part(results(load_part(from, i, end), i, wrap, words, p), to, i, end);
}
