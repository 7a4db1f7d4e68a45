/* only: opencl */
/* SPDX-License-Identifier: MIT */
/* channel_sums for CPUs with wide vectors and 16 or more channels: an invocation computes 64 channels of a chunk of places,
   16 at a time. Each channel has the additions of channel_sums in the same order, so that the sums have the same bits. The
   last vector of channels overlaps the one before. */
GROUP(1, 1)
SPEC(0, OP)
PARAMS(uint n; uint places; uint channels; uint chunks; uint rows; uint second;)

#include "vector_wide.clh"

#define MEAN 0
#define SPREAD 1
#define CHAIN 64u
#define STRIP 64u

/* s and t = the sum of 16 channels of the chunk and its rounding errors (two_sum.clh). */
#define SUM()                                                                                      \
    for (uint k = first; k < end; k++, px += step) {                                               \
        const float16 value = load16(px);                                                          \
        const float16 sum = s + value, part_of = sum - s;                                          \
        t += (s - (sum - part_of)) + (value - part_of);                                            \
        s = sum;                                                                                   \
    }                                                                                              \
    const float16 whole = s + t;                                                                   \
    t = (s - whole) + t;                                                                           \
    s = whole;

KERNEL5(channel_sums_wide, IN(float, x), IN(float, slope), IN(float, mean), IN(float, inverse), OUT(float, sums))
{
    const uint strips = (p.channels + STRIP - 1) / STRIP;
    const uint line = GROUP_INDEX() / strips, from = (GROUP_INDEX() - line * strips) * STRIP;
    if (line >= p.n / p.channels)
        return;
    const uint b = line / p.chunks, first = (line - b * p.chunks) * p.rows, end = min(first + p.rows, p.places);
    const size_t step = p.channels, line_at = ((size_t)b * p.places + first) * step;
    for (uint strip = from; strip < min(from + STRIP, p.channels); strip += 16) {
        const uint c = min(strip, p.channels - 16), at = b * p.channels + c;
        __global const float *px = x + line_at + c, *pd = slope + line_at + c;
        float16 s = (float16)(0.0f), t = (float16)(0.0f);
        if (OP == MEAN) {
            SUM()
        } else {
            const float16 centre = load16(mean + at), factor = load16(inverse + at);
            const float16 rest = OP > SPREAD ? load16(mean + p.second + at) : (float16)(0.0f);
            for (uint k2 = first; k2 < end; k2 += CHAIN * CHAIN) {
                const uint end2 = min(end, k2 + CHAIN * CHAIN);
                float16 s1 = (float16)(0.0f), t1 = (float16)(0.0f);
                for (uint k1 = k2; k1 < end2; k1 += CHAIN) {
                    const uint end1 = min(end2, k1 + CHAIN);
                    float16 s0 = (float16)(0.0f), t0 = (float16)(0.0f);
                    for (uint k = k1; k < end1; k++, px += step, pd += step) {
                        const float16 d = load16(px) - centre;
                        if (OP == SPREAD) {
                            s0 += d * d;
                            t0 += d;
                        } else {
                            const float16 dy = load16(pd);
                            s0 += dy;
                            t0 += dy * ((d - rest) * factor);
                        }
                    }
                    s1 += s0;
                    t1 += t0;
                }
                s += s1;
                t += t1;
            }
        }
        const size_t to = (size_t)line * p.channels + c;
        store16(s, sums + to);
        store16(t, sums + p.n + to);
    }
}
