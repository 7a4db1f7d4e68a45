/* SPDX-License-Identifier: MIT */
/* The sums of channel_sums [batches, chunks, channels] over the chunks and over each group of `group` channels: OP 0 the
   mean, from sums and their rounding errors, 1 the means of both sums, 2 both sums, without division. Every channel of a
   group gets its results. No chain of additions is longer than 64, except a chain of two-sums. */
GROUP(64, 1)
SPEC(0, OP)
PARAMS(uint n; uint chunks; uint channels; uint group; float count;)

#include "norm/two_sum.clh"
#include "by_four.clh"

#define MEAN 0
#define SPREAD 1
#define CHAIN 64u

/* Adds item q. */
#define ITEM                                                                                       \
    const uint k = q / p.group;                                                                    \
    const uint at = base + k * p.channels + (q - k * p.group);                                     \
    if (OP == MEAN)                                                                                \
        TWO_SUM(s, t0, LOAD(sums, at))                                                             \
    if (OP != MEAN)                                                                                \
        s0 += LOAD(sums, at);                                                                      \
    t0 += LOAD(sums, second + at);

KERNEL2(channel_merge, IN(real, sums), OUT(real, to))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint groups = p.channels / p.group, b = i / groups, g = i - b * groups;
        const uint base = b * p.chunks * p.channels + g * p.group, items = p.chunks * p.group;
        const uint second = p.n * items; /* where the second sums begin */
        EXACT float s = 0.0f;
        EXACT float t = 0.0f;
        for (uint q2 = 0u; q2 < items; q2 += CHAIN * CHAIN) {
            const uint end2 = MIN(items, q2 + CHAIN * CHAIN);
            EXACT float s1 = 0.0f;
            EXACT float t1 = 0.0f;
            for (uint q1 = q2; q1 < end2; q1 += CHAIN) {
                const uint end1 = MIN(end2, q1 + CHAIN);
                EXACT float s0 = 0.0f;
                EXACT float t0 = 0.0f;
                BY_FOUR(q, q1, end1, 1u, ITEM)
                s1 += s0;
                t1 += t0;
            }
            s += s1;
            t += t1;
        }
        if (OP == MEAN)
            s = (s + t) / p.count;
        if (OP == SPREAD) {
            s = s / p.count;
            t = t / p.count;
        }
        for (uint c = 0u; c < p.group; c++) {
            STORE(to, i * p.group + c, s);
            if (OP != MEAN)
                STORE(to, p.n * p.group + i * p.group + c, t);
        }
    }
}
