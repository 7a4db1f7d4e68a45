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

static float read_f32(const unsigned char *p)
{
    return copse__of_bits(little_32(p));
}

static float read_bf16(const unsigned char *p)
{
    return copse__bf16_to_f32((uint16_t)little_16(p));
}

/* ---- 32 numbers: a scale, perhaps an offset, and the numbers ---- */

static void split_q8_0(const unsigned char *p, struct copse_gguf_parts *to)
{
    to->scales[0] = half_at(p);
    for (int i = 0; i < 32; i++)
        to->numbers[i] = (int16_t)signed_byte(p[2 + i]);
}

/* The low halves of 16 bytes are the first 16 numbers. `high`: a fifth bit of each number. */
static void split_nibbles(const unsigned char *p, uint32_t high, int lowest,
                          struct copse_gguf_parts *to)
{
    for (int i = 0; i < 32; i++) {
        const int nibble = i < 16 ? p[i] & 15 : p[i - 16] >> 4;
        to->numbers[i] = (int16_t)((nibble | (int)(high >> i & 1) << 4) + lowest);
    }
}

static void split_q4_0(const unsigned char *p, struct copse_gguf_parts *to)
{
    to->scales[0] = half_at(p);
    split_nibbles(p + 2, 0, -8, to);
}

static void split_q4_1(const unsigned char *p, struct copse_gguf_parts *to)
{
    to->scales[0] = half_at(p);
    to->offsets[0] = half_at(p + 2);
    split_nibbles(p + 4, 0, 0, to);
}

static void split_q5_0(const unsigned char *p, struct copse_gguf_parts *to)
{
    to->scales[0] = half_at(p);
    split_nibbles(p + 6, little_32(p + 2), -16, to);
}

static void split_q5_1(const unsigned char *p, struct copse_gguf_parts *to)
{
    to->scales[0] = half_at(p);
    to->offsets[0] = half_at(p + 2);
    split_nibbles(p + 8, little_32(p + 4), 0, to);
}

/* ---- 256 numbers: scales of groups are quantised, too ---- */

/* Scale and offset of group `i` of 8, 6 bits each, in 12 bytes. */
static void group_scale(const unsigned char *p, int i, int *scale, int *offset)
{
    *scale = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | p[i - 4] >> 6 << 4;
    *offset = i < 4 ? p[i + 4] & 63 : p[i + 4] >> 4 | p[i] >> 6 << 4;
}

/* 8 groups of 32. Two groups share 32 bytes: the low and the high halves. `high`: 32 bytes with a
   fifth bit for each group, or NULL. Offsets are subtracted. */
static void split_groups(const unsigned char *p, const unsigned char *high,
                         const unsigned char *low, struct copse_gguf_parts *to)
{
    const float all_scale = half_at(p), all_offset = half_at(p + 2);
    for (int g = 0; g < 8; g++) {
        int scale, offset;
        group_scale(p + 4, g, &scale, &offset);
        to->scales[g] = all_scale * (float)scale;
        to->offsets[g] = -(all_offset * (float)offset);
        for (int i = 0; i < 32; i++) {
            const int byte = low[g / 2 * 32 + i];
            const int nibble = g % 2 ? byte >> 4 : byte & 15;
            to->numbers[g * 32 + i] = (int16_t)(nibble | (high ? (high[i] >> g & 1) << 4 : 0));
        }
    }
}

static void split_q4_k(const unsigned char *p, struct copse_gguf_parts *to)
{
    split_groups(p, NULL, p + 16, to);
}

static void split_q5_k(const unsigned char *p, struct copse_gguf_parts *to)
{
    split_groups(p, p + 16, p + 48, to);
}

/* 128 bytes with the low halves, 64 bytes with two bits each, 16 scales of 16 numbers, a scale of
   all. Each half of 128 numbers is in four parts of 32. */
static void split_q6_k(const unsigned char *p, struct copse_gguf_parts *to)
{
    const unsigned char *low = p, *high = p + 128, *scales = p + 192;
    const float all = half_at(p + 208);
    for (int g = 0; g < 16; g++)
        to->scales[g] = all * (float)signed_byte(scales[g]);
    for (int half = 0; half < 2; half++)
        for (int part = 0; part < 4; part++)
            for (int i = 0; i < 32; i++) {
                const int byte = low[half * 64 + part % 2 * 32 + i];
                const int nibble = part < 2 ? byte & 15 : byte >> 4;
                const int q = (nibble | (high[half * 32 + i] >> 2 * part & 3) << 4) - 32;
                to->numbers[half * 128 + part * 32 + i] = (int16_t)q;
            }
}

void copse__gguf_values(const struct copse_gguf_type *type, const unsigned char *block,
                        float *values)
{
    struct copse_gguf_parts parts;
    if (type->read) {
        *values = type->read(block);
        return;
    }
    type->split(block, &parts);
    for (uint32_t i = 0; i < type->elements; i++) {
        const float product = (float)parts.numbers[i] * parts.scales[i / type->group];
        values[i] = type->has_offsets ? product + parts.offsets[i / type->group] : product;
    }
}

/* ---- the types by their numbers ---- */

static const struct copse_gguf_type types[] = {
    [0] = { "F32", 1, 4, .read = read_f32 },
    [1] = { "F16", 1, 2, .read = half_at },
    [2] = { "Q4_0", 32, 18, .split = split_q4_0, 32, 4 },
    [3] = { "Q4_1", 32, 20, .split = split_q4_1, 32, 4, true },
    [6] = { "Q5_0", 32, 22, .split = split_q5_0, 32, 8 },
    [7] = { "Q5_1", 32, 24, .split = split_q5_1, 32, 8, true },
    [8] = { "Q8_0", 32, 34, .split = split_q8_0, 32, 8 },
    [9] = { "Q8_1", 32, 36 },
    [10] = { "Q2_K", 256, 84 },
    [11] = { "Q3_K", 256, 110 },
    [12] = { "Q4_K", 256, 144, .split = split_q4_k, 32, 4, true },
    [13] = { "Q5_K", 256, 176, .split = split_q5_k, 32, 8, true },
    [14] = { "Q6_K", 256, 210, .split = split_q6_k, 16, 8 },
    [15] = { "Q8_K", 256, 292 },
    [16] = { "IQ2_XXS", 256, 66 },
    [17] = { "IQ2_XS", 256, 74 },
    [18] = { "IQ3_XXS", 256, 98 },
    [19] = { "IQ1_S", 256, 50 },
    [20] = { "IQ4_NL", 32, 18 },
    [21] = { "IQ3_S", 256, 110 },
    [22] = { "IQ2_S", 256, 82 },
    [23] = { "IQ4_XS", 256, 136 },
    [24] = { "I8", 1, 1 },
    [25] = { "I16", 1, 2 },
    [26] = { "I32", 1, 4 },
    [27] = { "I64", 1, 8 },
    [28] = { "F64", 1, 8 },
    [29] = { "IQ1_M", 256, 56 },
    [30] = { "BF16", 1, 2, .read = read_bf16 },
    [34] = { "TQ1_0", 256, 54 },
    [35] = { "TQ2_0", 256, 66 },
    [39] = { "MXFP4", 32, 17 },
    [40] = { "NVFP4", 64, 36 },
    [41] = { "Q1_0", 128, 18 },
};

const struct copse_gguf_type *copse__gguf_type(uint32_t number)
{
    return number < COPSE_COUNT(types) && types[number].name ? &types[number] : NULL;
}
