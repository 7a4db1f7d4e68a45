/* SPDX-License-Identifier: MIT */
/* C = A B^T for few rows of A and a matrix B of blocks: LANES invocations of a group compute one number of C; adjacent ones
   load adjacent words. The four numbers of a quad have a chain each. */
GROUP(64, 1)
SPEC(0, LOG_LANES)
SPEC(1, BITS)
SPEC(2, LOG_GROUP)
SPEC(3, HAS_OFFSETS)
PARAMS(uint m; uint n; uint k;)
QUAD_VIEW(0, a)

#include "product/blocks.clh"

#define LANES (1u << TO_U32(LOG_LANES))
#define CHUNK 64u /* words of a chain: up to 128 terms in each of the four chains of a quad */

/* Four terms of the quad at element `at` of the row, whose numbers begin at bit `bit` of the word. */
#define FOUR(at, bit)                                                                              \
    sum = FMA(LOAD_QUAD(a, base_a + (at) / 4u),                                                    \
              MAKE_QUAD(block_value(word >> (bit), scale, offset),                                 \
                        block_value(word >> ((bit) + NUMBER_BITS), scale, offset),                \
                        block_value(word >> ((bit) + 2u * NUMBER_BITS), scale, offset),           \
                        block_value(word >> ((bit) + 3u * NUMBER_BITS), scale, offset)),          \
              sum);

GROUP_ARRAY(float, part, GROUP_SIZE)

KERNEL5(blocks_one, IN(real, a), IN(int, words), IN(real, scales), IN(real, offsets), OUT(real, c))
{
    GROUP_ARRAY_HERE(float, part, GROUP_SIZE)
    const uint index = INDEX(), place = index / LANES, lane = index % LANES;
    const bool is_there = place < p.m * p.n;
    const uint i = MIN(place, p.m * p.n - 1u) / p.n, j = MIN(place, p.m * p.n - 1u) - i * p.n;
    const uint row_words = p.k / PER_WORD, base_a = i * (p.k / 4u), base = j * row_words;
    QUAD total = TO_QUAD(0.0f);
    for (uint w0 = 0u; w0 < row_words; w0 += CHUNK * LANES) {
        const uint w1 = MIN(w0 + CHUNK * LANES, row_words);
        QUAD sum = TO_QUAD(0.0f);
        for (uint w = w0 + lane; w < w1; w += LANES) {
            const uint word = TO_U32(words[base + w]), at = (base + w) * PER_WORD;
            const float scale = BLOCK_SCALE(scales, at), offset = BLOCK_OFFSET(offsets, at);
            FOUR(w * PER_WORD, 0u)
            if (BITS == 4)
                FOUR(w * PER_WORD + 4u, 16u)
        }
        total = total + sum;
    }
    float result = (total.x + total.y) + (total.z + total.w);
    if (LOG_LANES > 0) {
        part[LOCAL_INDEX()] = result;
        for (uint apart = LANES / 2u; apart > 0u; apart = apart / 2u) {
            BARRIER();
            if (lane < apart)
                part[LOCAL_INDEX()] = part[LOCAL_INDEX()] + part[LOCAL_INDEX() + apart];
        }
        result = part[LOCAL_INDEX()];
    }
    if (is_there && lane == 0u)
        STORE(c, place, result);
}
