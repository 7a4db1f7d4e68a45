/* SPDX-License-Identifier: MIT */
/* Sum of the contributions of RANKS <= 64 ranks, element by element, by the canonical tree: the full trees of aligned
   blocks of 8 ranks, then the tree over the blocks. A missing rank adds nothing, because even adding 0 would change
   -0. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
SPEC(2, RANKS)
PARAMS(uint n; uint base; uint stride;)
#include "stream.clh"

#define BLOCKS  ((RANKS + 7) / 8)
#define PART(r) LOAD(parts, at + (r)*p.stride)

KERNEL2(tree_sum, IN(real, parts), OUT(real, sums))
{
    STREAM(i, p.n)
    {
        EXACT float one = 0.0f; /* trees of 1, 2 and 4 blocks that wait for their other half */
        EXACT float two = 0.0f;
        EXACT float four = 0.0f;
        EXACT float sum = 0.0f;
        for (int b = 0; b < BLOCKS; b++) {
            const uint at = p.base + i + TO_U32(8 * b) * p.stride;
            const int ranks = RANKS - 8 * b;
            sum = PART(0u);
            if (ranks > 1)
                sum = sum + PART(1u);
            if (ranks > 2) {
                EXACT float pair = PART(2u);
                if (ranks > 3)
                    pair = pair + PART(3u);
                sum = sum + pair;
            }
            if (ranks > 4) {
                EXACT float half_ = PART(4u);
                if (ranks > 5)
                    half_ = half_ + PART(5u);
                if (ranks > 6) {
                    EXACT float pair = PART(6u);
                    if (ranks > 7)
                        pair = pair + PART(7u);
                    half_ = half_ + pair;
                }
                sum = sum + half_;
            }
            if (b == BLOCKS - 1)
                break;
            if ((b & 1) == 0) {
                one = sum;
            } else if ((b & 2) == 0) {
                two = one + sum;
            } else if ((b & 4) == 0) {
                four = two + (one + sum);
            }
        }
        /* Add the waiting trees, starting with the last block. */
        if (((BLOCKS - 1) & 1) != 0)
            sum = one + sum;
        if (((BLOCKS - 1) & 2) != 0)
            sum = two + sum;
        if (((BLOCKS - 1) & 4) != 0)
            sum = four + sum;
        STORE(sums, i, sum);
    }
}
