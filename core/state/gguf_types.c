/* SPDX-License-Identifier: MIT */
/* Blocks of quantised numbers as f32. The format's definition gives the operations and their order, so
   that results are equal in each bit. */
#include "core/state/gguf_types.h"

#include "core/base/base.h"
#include "core/base/half.h"

static uint32_t little_16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t little_32(const unsigned char *p)
{
    return little_16(p) | little_16(p + 2) << 16;
}

static float half_at(const unsigned char *p)
{
    return copse__f16_to_f32((uint16_t)little_16(p));
}

static int signed_byte(unsigned char b)
{
    return b < 128 ? b : (int)b - 256;
}

/* ---- one number ---- */

static void read_f32(const unsigned char *p, float *y)
{
    *y = copse__of_bits(little_32(p));
}

static void read_f16(const unsigned char *p, float *y)
{
    *y = half_at(p);
}

static void read_bf16(const unsigned char *p, float *y)
{
    *y = copse__bf16_to_f32((uint16_t)little_16(p));
}

/* ---- 32 numbers: a scale, perhaps an offset, and the numbers ---- */

static void read_q8_0(const unsigned char *p, float *y)
{
    const float scale = half_at(p);
    for (int i = 0; i < 32; i++)
        y[i] = (float)signed_byte(p[2 + i]) * scale;
}

/* The low halves of 16 bytes are the first 16 numbers. */
static int nibble_at(const unsigned char *p, int i)
{
    return i < 16 ? p[i] & 15 : p[i - 16] >> 4;
}

static void read_q4_0(const unsigned char *p, float *y)
{
    const float scale = half_at(p);
    for (int i = 0; i < 32; i++)
        y[i] = (float)(nibble_at(p + 2, i) - 8) * scale;
}

static void read_q4_1(const unsigned char *p, float *y)
{
    const float scale = half_at(p), offset = half_at(p + 2);
    for (int i = 0; i < 32; i++) {
        const float product = (float)nibble_at(p + 4, i) * scale;
        y[i] = product + offset;
    }
}

/* A fifth bit of each number is in a word of its own. */
static void read_q5_0(const unsigned char *p, float *y)
{
    const float scale = half_at(p);
    const uint32_t high = little_32(p + 2);
    for (int i = 0; i < 32; i++)
        y[i] = (float)((nibble_at(p + 6, i) | (int)(high >> i & 1) << 4) - 16) * scale;
}

static void read_q5_1(const unsigned char *p, float *y)
{
    const float scale = half_at(p), offset = half_at(p + 2);
    const uint32_t high = little_32(p + 4);
    for (int i = 0; i < 32; i++) {
        const float product = (float)(nibble_at(p + 8, i) | (int)(high >> i & 1) << 4) * scale;
        y[i] = product + offset;
    }
}

/* ---- 256 numbers: scales of groups are quantised, too ---- */

/* Scale and offset of group `i` of 8, 6 bits each, in 12 bytes. */
static void group_scale(const unsigned char *p, int i, int *scale, int *offset)
{
    *scale = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | p[i - 4] >> 6 << 4;
    *offset = i < 4 ? p[i + 4] & 63 : p[i + 4] >> 4 | p[i] >> 6 << 4;
}

/* 8 groups of 32. Two groups share 32 bytes: the low and the high halves. `high`: 32 bytes with a
   fifth bit for each group, or NULL. */
static void read_groups(const unsigned char *p, const unsigned char *high, const unsigned char *low,
                        float *y)
{
    const float all_scale = half_at(p), all_offset = half_at(p + 2);
    for (int g = 0; g < 8; g++) {
        int scale, offset;
        group_scale(p + 4, g, &scale, &offset);
        const float d = all_scale * (float)scale, m = all_offset * (float)offset;
        for (int i = 0; i < 32; i++) {
            const int byte = low[g / 2 * 32 + i];
            int q = g % 2 ? byte >> 4 : byte & 15;
            if (high)
                q |= (high[i] >> g & 1) << 4;
            const float product = d * (float)q;
            y[g * 32 + i] = product - m;
        }
    }
}

static void read_q4_k(const unsigned char *p, float *y)
{
    read_groups(p, NULL, p + 16, y);
}

static void read_q5_k(const unsigned char *p, float *y)
{
    read_groups(p, p + 16, p + 48, y);
}

/* 128 bytes with the low halves, 64 bytes with two bits each, 16 scales of 16 numbers, a scale of
   all. Each half of 128 numbers is in four parts of 32. */
static void read_q6_k(const unsigned char *p, float *y)
{
    const unsigned char *low = p, *high = p + 128, *scales = p + 192;
    const float all = half_at(p + 208);
    for (int half = 0; half < 2; half++)
        for (int part = 0; part < 4; part++)
            for (int i = 0; i < 32; i++) {
                const int byte = low[half * 64 + part % 2 * 32 + i];
                const int nibble = part < 2 ? byte & 15 : byte >> 4;
                const int q = (nibble | (high[half * 32 + i] >> 2 * part & 3) << 4) - 32;
                const int at = half * 128 + part * 32 + i;
                y[at] = all * (float)signed_byte(scales[at / 16]) * (float)q;
            }
}

/* ---- the types by their numbers ---- */

static const struct copse_gguf_type types[] = {
    [0] = { "F32", 1, 4, read_f32 },
    [1] = { "F16", 1, 2, read_f16 },
    [2] = { "Q4_0", 32, 18, read_q4_0 },
    [3] = { "Q4_1", 32, 20, read_q4_1 },
    [6] = { "Q5_0", 32, 22, read_q5_0 },
    [7] = { "Q5_1", 32, 24, read_q5_1 },
    [8] = { "Q8_0", 32, 34, read_q8_0 },
    [9] = { "Q8_1", 32, 36, NULL },
    [10] = { "Q2_K", 256, 84, NULL },
    [11] = { "Q3_K", 256, 110, NULL },
    [12] = { "Q4_K", 256, 144, read_q4_k },
    [13] = { "Q5_K", 256, 176, read_q5_k },
    [14] = { "Q6_K", 256, 210, read_q6_k },
    [15] = { "Q8_K", 256, 292, NULL },
    [16] = { "IQ2_XXS", 256, 66, NULL },
    [17] = { "IQ2_XS", 256, 74, NULL },
    [18] = { "IQ3_XXS", 256, 98, NULL },
    [19] = { "IQ1_S", 256, 50, NULL },
    [20] = { "IQ4_NL", 32, 18, NULL },
    [21] = { "IQ3_S", 256, 110, NULL },
    [22] = { "IQ2_S", 256, 82, NULL },
    [23] = { "IQ4_XS", 256, 136, NULL },
    [24] = { "I8", 1, 1, NULL },
    [25] = { "I16", 1, 2, NULL },
    [26] = { "I32", 1, 4, NULL },
    [27] = { "I64", 1, 8, NULL },
    [28] = { "F64", 1, 8, NULL },
    [29] = { "IQ1_M", 256, 56, NULL },
    [30] = { "BF16", 1, 2, read_bf16 },
    [34] = { "TQ1_0", 256, 54, NULL },
    [35] = { "TQ2_0", 256, 66, NULL },
    [39] = { "MXFP4", 32, 17, NULL },
    [40] = { "NVFP4", 64, 36, NULL },
    [41] = { "Q1_0", 128, 18, NULL },
};

const struct copse_gguf_type *copse__gguf_type(uint32_t number)
{
    return number < COPSE_COUNT(types) && types[number].name ? &types[number] : NULL;
}
