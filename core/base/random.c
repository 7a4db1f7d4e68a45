/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 and number streams from it. The same seed gives the same numbers on every
   machine. */
#include "core/base/random.h"

#include <math.h>
#include <string.h>

#define TAU 6.283185307179586476925286766559

static uint32_t mul_high_low(uint32_t a, uint32_t b, uint32_t *low)
{
    const uint64_t product = (uint64_t)a * b;
    *low = (uint32_t)product;
    return (uint32_t)(product >> 32);
}

void copse__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint32_t low0, low1;
        const uint32_t high0 = mul_high_low(0xD2511F53u, c0, &low0);
        const uint32_t high1 = mul_high_low(0xCD9E8D57u, c2, &low1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void copse__stream_init(struct copse_stream *s, uint64_t seed, uint32_t stream)
{
    memset(s, 0, sizeof *s);
    s->key[0] = (uint32_t)seed;
    s->key[1] = (uint32_t)(seed >> 32);
    s->counter[3] = stream;
}

uint32_t copse__stream_u32(struct copse_stream *s)
{
    if (s->left == 0) {
        copse__philox(s->counter, s->key, s->block);
        s->left = 4;
        for (int i = 0; i < 3 && ++s->counter[i] == 0; i++)
            ;
    }
    return s->block[4 - s->left--];
}

/* The high half of a 32x32 product is uniform except for a short remainder, which is rejected. */
uint32_t copse__stream_below(struct copse_stream *s, uint32_t bound)
{
    const uint32_t rejected = (0u - bound) % bound;
    for (;;) {
        uint32_t low;
        const uint32_t high = mul_high_low(copse__stream_u32(s), bound, &low);
        if (low >= rejected)
            return high;
    }
}

float copse__stream_unit(struct copse_stream *s)
{
    return (float)(copse__stream_u32(s) >> 8) * 0x1p-24f;
}

float copse__stream_normal(struct copse_stream *s)
{
    const double u = ((double)copse__stream_u32(s) + 1.0) * 0x1p-32; /* (0, 1]: log is finite */
    const double v = (double)copse__stream_u32(s) * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(TAU * v));
}
