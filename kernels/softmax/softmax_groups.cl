/* SPDX-License-Identifier: MIT */
/* Softmax of scale x over rows: m is the largest element of a row, y = exp(scale (x - m)) / sum of these. A group processes a
   row; its lanes interleave the elements. No chain of additions is longer than 64. */
GROUP(64, 1)
PARAMS(uint rows; uint cols; float scale;)
GROUP_ARRAY(float, part, GROUP_SIZE)

#include "math.clh"
#include "by_four.clh"

#define CHAIN 64u

/* The larger one, or NaN. */
FN float larger(float a, float b)
{
    return SELECT(IS_NAN(a) || b <= a, a, b);
}

FN float weight(float x, float m, float scale)
{
    EXACT float d = x - m;
    return m_exp(scale * d);
}

KERNEL2(softmax_groups, IN(real, x), OUT(real, to))
{
    GROUP_ARRAY_HERE(float, part, GROUP_SIZE)
    const uint lane = LOCAL_INDEX(), row = GROUP_INDEX();
    const uint cols = SELECT(row < p.rows, p.cols, 0u); /* surplus groups have no elements */
    const uint base = row * p.cols;
    float m = -INF;
    BY_FOUR(k, lane, cols, GROUP_SIZE, m = larger(m, LOAD(x, base + k));)
    part[lane] = m;
    BARRIER();
    for (uint width = GROUP_SIZE / 2u; width > 0u; width /= 2u) {
        if (lane < width)
            part[lane] = larger(part[lane], part[lane + width]);
        BARRIER();
    }
    m = part[0];
    BARRIER(); /* all have read it */
    float s = 0.0f;
    for (uint k2 = lane; k2 < cols; k2 += CHAIN * CHAIN * GROUP_SIZE) {
        const uint end2 = MIN(cols, k2 - lane + CHAIN * CHAIN * GROUP_SIZE);
        EXACT float s1 = 0.0f;
        for (uint k1 = k2; k1 < end2; k1 += CHAIN * GROUP_SIZE) {
            const uint end1 = MIN(end2, k1 - lane + CHAIN * GROUP_SIZE);
            EXACT float s0 = 0.0f;
            BY_FOUR(k, k1, end1, GROUP_SIZE, s0 += weight(LOAD(x, base + k), m, p.scale);)
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
    /* A whole row of -Inf, or one with +Inf, has no softmax. */
    s = SELECT(m == INF || m == -INF, NAN_, part[0]);
    BY_FOUR(k, lane, cols, GROUP_SIZE, STORE(to, base + k, weight(LOAD(x, base + k), m, p.scale) / s);)
}
