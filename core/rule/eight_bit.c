/* SPDX-License-Identifier: MIT */
#include "core/rule/eight_bit.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/base.h"

#define EXPONENT 0x7f800000u

static uint32_t bits_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static float float_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

float copse__code_value(uint32_t code, uint32_t bits)
{
    static const float tens[] = { 1.0f, 1e-1f, 1e-2f, 1e-3f, 1e-4f, 1e-5f, 1e-6f, 1e-7f };
    uint32_t f = 0;
    if (code == 0)
        return 0.0f;
    while (code >> (f + 1))
        f++;
    const float part = (float)(code + 1 - (1u << f)) / (float)(1u << f);
    const float high = 0.9f * part, sum = 0.1f + high;
    return sum * tens[bits - 1 - f];
}

float copse__code_mean(uint32_t code, float scale)
{
    const float m = copse__code_value(code & 127u, COPSE_CODE_MEAN_BITS) * scale;
    return code == COPSE_CODE_NOT_FINITE ? NAN : code > 127u ? -m : m;
}

float copse__code_square(uint32_t code, float scale)
{
    return copse__code_value(code, COPSE_CODE_SQUARE_BITS) * scale;
}

/* ---- the nearest code ---- */

static uint32_t code_of(float y, uint32_t bits)
{
    uint32_t e = 0;
    float z = y;
    for (; e + 1 < bits && z <= 0.1f; e++)
        z = z * 10.0f;
    const uint32_t n = 1u << (bits - 1 - e);
    const float above = z - 0.1f, steps = above * ((float)n * 1.1111112f), rounded = steps + 0.5f;
    return n - 1 + COPSE_MIN((uint32_t)(rounded > 0.0f ? rounded : 0.0f), n);
}

/* 1 / a for a from 1 to 4, by Newton's method. */
static float inverse_of(float a)
{
    float r = float_of(0x7ef311c7u - bits_of(a));
    for (int k = 0; k < 4; k++) {
        const float product = a * r, rest = 2.0f - product;
        r = r * rest;
    }
    return r;
}

/* Factors that bring numbers up to `most` to 0 .. 1, without overflow. */
struct unit {
    float down, inverse;
};

static struct unit unit_of(uint32_t most)
{
    const float down = float_of(0x7f000000u - COPSE_MIN(most & EXPONENT, 0x7e800000u));
    return (struct unit){ down, inverse_of(float_of(COPSE_MAX(most, 0x00800000u)) * down) };
}

static float eight_bit_within(const struct unit *u, float x)
{
    const float down = x * u->down;
    return down * u->inverse;
}

static bool is_finite(float x)
{
    return (bits_of(x) & EXPONENT) != EXPONENT;
}

float copse__code_means(const float *x, size_t count, uint32_t *words)
{
    uint32_t most = 0;
    memset(words, 0, (count + 3) / 4 * sizeof *words);
    for (size_t i = 0; i < count; i++)
        if (is_finite(x[i]))
            most = COPSE_MAX(most, bits_of(x[i]) & 0x7fffffffu);
    const struct unit u = unit_of(most);
    for (size_t i = 0; i < count; i++) {
        uint32_t code = COPSE_CODE_NOT_FINITE;
        if (is_finite(x[i])) {
            code = code_of(eight_bit_within(&u, fabsf(x[i])), COPSE_CODE_MEAN_BITS);
            code |= x[i] < 0.0f && code > 0 ? 128u : 0u;
        }
        words[i / 4] |= code << i % 4 * 8;
    }
    return float_of(most);
}

float copse__code_squares(const float *x, size_t count, uint32_t *words)
{
    uint32_t most = 0;
    memset(words, 0, (count + 3) / 4 * sizeof *words);
    for (size_t i = 0; i < count; i++)
        most = COPSE_MAX(most, bits_of(x[i]));
    const struct unit u = unit_of(most);
    for (size_t i = 0; i < count; i++) {
        const uint32_t code = code_of(eight_bit_within(&u, x[i]), COPSE_CODE_SQUARE_BITS);
        words[i / 4] |= (x[i] > 0.0f ? COPSE_MAX(code, 1u) : 0u) << i % 4 * 8;
    }
    return float_of(most);
}
