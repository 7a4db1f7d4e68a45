/* SPDX-License-Identifier: MIT */
/* Sizes of launches of mode launch, and contents of the buffers. Each word depends only on the
   seed, the buffer and its place. */
#include <math.h>

#include "core/base/half.h"
#include "prover/conformance/launch/launch.h"

uint64_t copse__launch_extent(const struct copse_launch *l, uint64_t each)
{
    const uint64_t last = l->regime == COPSE_REGIME_ONE     ? (each + 1) / 2
                          : l->regime == COPSE_REGIME_FEW   ? each
                          : l->regime == COPSE_REGIME_TAIL  ? 1
                          : l->regime == COPSE_REGIME_SHORT ? COPSE_MAX(each, 2) - 1
                                                            : each - each / 3;
    return (l->want - 1) * each + last;
}

#define LIST(...)                                         \
    {                                                     \
        sizeof((float[]){ __VA_ARGS__ }) / sizeof(float), \
        {                                                 \
            __VA_ARGS__                                   \
        }                                                 \
    }

/* Numbers of each class; each has both signs. */
static const struct {
    size_t count;
    float at[12];
} specials[COPSE_VALUES_COUNT] = {
    [COPSE_VALUES_ZEROS] = LIST(0.0f),
    [COPSE_VALUES_NANS] = LIST(NAN),
    [COPSE_VALUES_INFINITIES] = LIST(INFINITY),
    [COPSE_VALUES_SUBNORMALS] =
        LIST(0x1p-149f, 0x1.8p-148f, 0x1p-127f, 0x1.fffffcp-127f, 0x1p-126f),
    [COPSE_VALUES_EXTREMES] = LIST(0x1.fffffep127f, 0x1p127f, 0x1p64f, 0x1.000002p32f, 0x1p31f,
                                   0x1p-64f, 0x1p-126f, 0x1.000002p-126f),
    [COPSE_VALUES_EDGES] = LIST(0.0f, 0.5f, 1.0f, 0x1.fffffep-1f, 0x1.000002p0f, 2.0f, 1e-30f),
};

static const int32_t extreme_words[] = { INT32_MAX, -INT32_MAX, INT32_MIN, 16777216,
                                         16777217,  -16777217,  -1 };

static uint32_t launch_values_mix(uint64_t seed, uint32_t arg, size_t i)
{
    uint64_t x = seed + 0x9e3779b97f4a7c15u * (i + 1) + ((uint64_t)arg << 56);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

/* Whether mixed launches have the class. */
static bool launch_values_takes(const struct copse_launch_form *f, unsigned values)
{
    return !((f->no_values | f->apart) & COPSE_BIT(values));
}

/* The class of word i. */
static unsigned class_of(const struct copse_launch *l, uint32_t bits, size_t i)
{
    unsigned v = l->values;
    if (bits % (l->form->is_rare ? 32u : 4u) != 0 && (i > 0 || v == COPSE_VALUES_MIXED))
        return COPSE_VALUES_USUAL;
    if (v != COPSE_VALUES_MIXED)
        return v;
    v = bits / 32u % COPSE_VALUES_COUNT;
    while (!launch_values_takes(l->form, v))
        v = (v + 1) % COPSE_VALUES_COUNT;
    return v;
}

static float launch_values_usual(uint32_t bits)
{
    const float x = (float)(bits >> 8) * 0x1p-21f - 4.0f;
    return x == 0.0f ? 1.0f : x;
}

static float launch_values_number(const struct copse_launch *l, unsigned v, uint32_t bits)
{
    if (specials[v].count == 0)
        return launch_values_usual(bits * 2654435761u + 12345u);
    float x = specials[v].at[bits / 256u % specials[v].count];
    if (l->form->cap > 0.0f && isfinite(x) && x > l->form->cap)
        x = l->form->cap;
    return bits & 0x80000000u ? -x : x;
}

static int32_t launch_values_whole(unsigned v, uint32_t bits)
{
    switch (v) {
    case COPSE_VALUES_ZEROS:
        return 0;
    case COPSE_VALUES_EXTREMES:
        return extreme_words[bits / 256u % COPSE_COUNT(extreme_words)];
    case COPSE_VALUES_EDGES:
        return (int32_t)(bits / 256u % 3u);
    default:
        return (int32_t)(bits / 256u % 201u) - 100;
    }
}

static uint32_t index_below(const struct copse_launch *l, unsigned v, uint32_t bits)
{
    const uint32_t range = COPSE_MAX(l->range, 1u),
                   outside[] = { range, UINT32_MAX, range - 1, INT32_MAX };
    return v == COPSE_VALUES_ZEROS      ? 0
           : v == COPSE_VALUES_EXTREMES ? range - 1
           : v == COPSE_VALUES_EDGES    ? outside[bits / 256u % COPSE_COUNT(outside)]
                                        : bits / 32u % range;
}

static uint32_t word_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

float copse__launch_number(const struct copse_launch *l)
{
    const unsigned v = l->values == COPSE_VALUES_MIXED ? COPSE_VALUES_USUAL : l->values;
    return launch_values_number(l, v, launch_values_mix(l->seed, 0, 0) | 0x80000000u);
}

static uint16_t launch_values_half(const struct copse_launch *l, unsigned v, uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000u;
    switch (v) {
    case COPSE_VALUES_SUBNORMALS:
        return (uint16_t)(sign | (bits & 0x3ffu) | 1u);
    case COPSE_VALUES_EXTREMES: /* the largest and the smallest normal number */
        return (uint16_t)(sign | (bits & 256u ? 0x7bffu : 0x0400u));
    default:
        return copse__f32_to_f16(launch_values_number(l, v, bits));
    }
}

static uint16_t launch_values_bfloat(const struct copse_launch *l, unsigned v, uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000u;
    return v == COPSE_VALUES_SUBNORMALS ? (uint16_t)(sign | (bits & 0x7fu) | 1u)
                                        : copse__f32_to_bf16(launch_values_number(l, v, bits));
}

void copse__launch_halves(const struct copse_launch *l, uint32_t arg, bool is_bfloat,
                          uint32_t *words)
{
    for (size_t i = 0; i < l->counts[arg]; i++) {
        words[i] = 0;
        for (size_t h = 0; h < 2; h++) {
            const uint32_t bits = launch_values_mix(l->seed, arg, 2 * i + h);
            const unsigned v = class_of(l, bits, 2 * i + h);
            words[i] |= (uint32_t)(is_bfloat ? launch_values_bfloat(l, v, bits)
                                             : launch_values_half(l, v, bits))
                        << (16 * h);
        }
    }
}

/* From 1 to 2, with bits at random. */
static float one_to_two(const struct copse_launch *l, uint32_t arg, size_t i)
{
    return 1.0f + (float)(launch_values_mix(l->seed, arg, i) >> 9) * 0x1p-23f;
}

void copse__launch_any(const struct copse_launch *l, uint32_t *const *words, size_t row,
                       size_t columns)
{
    for (size_t i = 0; i < l->counts[0]; i++)
        words[0][i] = word_of(i / row % 2 == 0 || i % row == 0 ? 1.0f : 0x1.fffffep-25f);
    for (size_t i = 0; i < l->counts[1]; i++)
        words[1][i] = word_of(one_to_two(l, 1, i % columns));
}

void copse__launch_any_halves(const struct copse_launch *l, bool is_bfloat, uint32_t *const *words,
                              size_t row, size_t columns)
{
    for (uint32_t arg = 0; arg < 2; arg++)
        for (size_t i = 0; i < l->counts[arg]; i++)
            for (size_t h = 0; h < 2; h++) {
                const size_t at = 2 * i + h;
                const float x = one_to_two(l, arg, arg == 0 ? at / row : at % columns);
                words[arg][i] = (h ? words[arg][i] : 0) |
                                (uint32_t)(is_bfloat ? copse__f32_to_bf16(x) : copse__f32_to_f16(x))
                                    << (16 * h);
            }
}

int32_t copse__launch_whole(const struct copse_launch *l)
{
    return launch_values_whole(l->values == COPSE_VALUES_MIXED ? COPSE_VALUES_USUAL : l->values,
                               launch_values_mix(l->seed, 0, 0));
}

bool copse__content_is_real(uint8_t content)
{
    return content == COPSE_CONTENT_RESULT || content == COPSE_CONTENT_VALUES ||
           content == COPSE_CONTENT_USUAL;
}

/* The step of a launch: the first one, one of the first ones, or one after a thousand steps. */
static const struct step {
    uint32_t number;
    float rate, bias1, bias2, average;
} steps[COPSE_REGIME_COUNT] = {
    [COPSE_REGIME_ONE] = { 1, 0.125f, 0.125f, 0x1p-10f, 1.0f },
    [COPSE_REGIME_FEW] = { 2, 0.125f, 0.5f, 0.25f, 0.25f },
    [COPSE_REGIME_TAIL] = { 9, 0.125f, 0.5f, 0.25f, 0.25f },
    [COPSE_REGIME_SHORT] = { 1001, 0x1p-10f, 1.0f, 0.5625f, 0.125f },
    [COPSE_REGIME_MANY] = { 16777217, 0.125f, 1.0f, 1.0f, 0.125f },
    [COPSE_REGIME_AXIS] = { 4000000001u, 0.125f, 1.0f, 1.0f, 0.125f },
};

/* Powers of two and other numbers of few bits, so that products with them are exact. */
void copse__launch_step(const struct copse_launch *l, uint32_t *words, size_t count)
{
    const struct step *s = &steps[l->regime];
    memset(words, 0, count * sizeof *words);
    words[COPSE_STEP_NUMBER] = s->number;
    words[COPSE_STEP_SEED_LO] = 0x01234567u;
    words[COPSE_STEP_SEED_HI] = 0x89abcdefu;
    words[COPSE_STEP_FIRST_EXAMPLE] = 3;
    words[COPSE_STEP_RATE] = word_of(s->rate);
    words[COPSE_STEP_BIAS1] = word_of(s->bias1);
    words[COPSE_STEP_BIAS2] = word_of(s->bias2);
    words[COPSE_STEP_SCALE] = word_of(0.5f);
    words[COPSE_STEP_AVERAGE] = word_of(s->average);
    words[COPSE_STEP_NESTEROV_GRADIENT] = word_of(0.5f);
    words[COPSE_STEP_NESTEROV_MEAN] = word_of(2.0f);
    words[COPSE_STEP_SHRINK] = word_of(0.5f);
    words[COPSE_STEP_RATE + COPSE_STEP_GROUP] = word_of(2.0f * s->rate);
    words[COPSE_STEP_SHRINK + COPSE_STEP_GROUP] = word_of(0.25f);
}

void copse__launch_fill(const struct copse_launch *l, uint32_t arg, uint32_t *words)
{
    const uint8_t content = l->form->contents[arg];
    if (content == COPSE_CONTENT_STEP) {
        copse__launch_step(l, words, l->counts[arg]);
        return;
    }
    for (size_t i = 0; i < l->counts[arg]; i++) {
        const uint32_t bits = launch_values_mix(l->seed, arg, i);
        const unsigned v = class_of(l, bits, i);
        words[i] = content == COPSE_CONTENT_VALUES     ? word_of(launch_values_number(l, v, bits))
                   : content == COPSE_CONTENT_USUAL    ? word_of(launch_values_usual(bits))
                   : content == COPSE_CONTENT_WHOLE    ? (uint32_t)launch_values_whole(v, bits)
                   : content == COPSE_CONTENT_INDEX    ? index_below(l, v, bits)
                   : content == COPSE_CONTENT_ARRANGED ? 0
                                                       : COPSE_LAUNCH_POISON;
    }
}
