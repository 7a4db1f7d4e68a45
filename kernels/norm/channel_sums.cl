/* SPDX-License-Identifier: MIT */
/* Sums over the places of x [batches, places, channels], for each batch, chunk of `rows` places and channel: OP 0 the sum
   of x and its rounding errors (Knuth's two-sum), 1 the sums of (x - mean)^2 and of x - mean, 2 the sums of dy (slope)
   and of dy u with u = ((x - mean) - rest) inverse, where `rest` follows the means. The second sums follow the first ones. An invocation processes a chunk of a channel. No chain
   of additions is longer than 64, except a chain of two-sums. */
GROUP(64, 1)
SPEC(0, OP)
PARAMS(uint n; uint places; uint channels; uint chunks; uint rows; uint second;)

#include "norm/two_sum.clh"
#include "by_four.clh"

#define MEAN 0
#define SPREAD 1
#define CHAIN 64u

/* Adds place k. */
#define PLACE                                                                                      \
    const uint place = base + k * p.channels;                                                      \
    const float d = LOAD(x, place) - centre;                                                       \
    if (OP == SPREAD) {                                                                            \
        s0 += d * d;                                                                               \
        t0 += d;                                                                                   \
    }                                                                                              \
    if (OP > SPREAD) {                                                                             \
        const float dy = LOAD(slope, place);                                                       \
        s0 += dy;                                                                                  \
        t0 += dy * ((d - rest) * factor);                                                          \
    }

KERNEL5(channel_sums, IN(real, x), IN(real, slope), IN(real, mean), IN(real, inverse), OUT(real, sums))
{
    const uint i = INDEX();
    if (i < p.n) {
        const uint line = i / p.channels, c = i - line * p.channels;
        const uint b = line / p.chunks, first = (line - b * p.chunks) * p.rows;
        const uint end = MIN(first + p.rows, p.places);
        const uint base = b * p.places * p.channels + c, at = b * p.channels + c;
        EXACT float s = 0.0f;
        EXACT float t = 0.0f;
        if (OP == MEAN) {
            BY_FOUR(k, first, end, 1u, TWO_SUM(s, t, LOAD(x, base + k * p.channels)))
            EXACT float whole = s + t;
            EXACT float rest = (s - whole) + t;
            s = whole;
            t = rest;
        }
        if (OP != MEAN) {
            const float centre = LOAD(mean, at), factor = LOAD(inverse, at);
            float rest = 0.0f;
            if (OP > SPREAD)
                rest = LOAD(mean, p.second + at);
            for (uint k2 = first; k2 < end; k2 += CHAIN * CHAIN) {
                const uint end2 = MIN(end, k2 + CHAIN * CHAIN);
                EXACT float s1 = 0.0f;
                EXACT float t1 = 0.0f;
                for (uint k1 = k2; k1 < end2; k1 += CHAIN) {
                    const uint end1 = MIN(end2, k1 + CHAIN);
                    EXACT float s0 = 0.0f;
                    EXACT float t0 = 0.0f;
                    BY_FOUR(k, k1, end1, 1u, PLACE)
                    s1 += s0;
                    t1 += t0;
                }
                s += s1;
                t += t1;
            }
        }
        STORE(sums, i, s);
        STORE(sums, p.n + i, t);
    }
}
