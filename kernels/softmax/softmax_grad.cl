/* SPDX-License-Identifier: MIT */
/* The derivative of a softmax y of rows, y (dy - sum of y dy), or that of its logarithm y, dy - exp(y) sum of dy. A group
   processes a row; its lanes interleave the elements. No chain of additions is longer than 64. */
GROUP(64, 1)
SPEC(0, LOGARITHM)
SPEC(1, SHORT) /* rows have at most three elements for each lane */
PARAMS(uint rows; uint cols;)
GROUP_ARRAY(float, part, GROUP_SIZE)

#include "math.clh"
#define HAS_FOURS SHORT == 0
#include "by_four.clh"

#define CHAIN 64u

KERNEL3(softmax_grad, IN(real, y), IN(real, slope), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, part, GROUP_SIZE)
    const uint lane = LOCAL_INDEX(), row = GROUP_INDEX();
    const uint cols = SELECT(row < p.rows, p.cols, 0u); /* surplus groups have no elements */
    const uint base = row * p.cols;
    float s = 0.0f;
    for (uint k2 = lane; k2 < cols; k2 += CHAIN * CHAIN * GROUP_SIZE) {
        const uint end2 = MIN(cols, k2 - lane + CHAIN * CHAIN * GROUP_SIZE);
        EXACT float s1 = 0.0f;
        for (uint k1 = k2; k1 < end2; k1 += CHAIN * GROUP_SIZE) {
            const uint end1 = MIN(end2, k1 - lane + CHAIN * GROUP_SIZE);
            EXACT float s0 = 0.0f;
            BY_FOUR(k, k1, end1, GROUP_SIZE, float factor = 1.0f; if (LOGARITHM == 0) factor = LOAD(y, base + k);
                    EXACT float term = LOAD(slope, base + k) * factor; s0 += term;)
            s1 += s0;
        }
        s += s1;
    }
    part[lane] = s;
    BARRIER();
    for (uint width = GROUP_SIZE / 2u; width > 0u; width /= 2u) {
        if (lane < width) {
            EXACT float pair = part[lane] + part[lane + width];
            part[lane] = pair;
        }
        BARRIER();
    }
    s = part[0];
    BY_FOUR(k, lane, cols, GROUP_SIZE, const float dy = LOAD(slope, base + k); const float at = LOAD(y, base + k);
            float value = at * (dy - s); if (LOGARITHM != 0) value = dy - m_exp(at) * s; STORE(to, base + k, value);)
}
