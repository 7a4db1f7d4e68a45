/* SPDX-License-Identifier: MIT */
/* Resizing with a triangle filter. Weights are computed in double with +, -, * and / only and
   rounded to 22 bits; sums are integers: every machine computes the same pixels. */
#include <math.h>

#include "core/pictures/picture.h"

#define WEIGHT_BITS 22

/* The source pixels of each target pixel along one axis. */
struct filter {
    uint32_t taps;    /* most source pixels of a target pixel */
    uint32_t *first;  /* [to] */
    uint32_t *count;  /* [to] */
    int32_t *weights; /* [to, taps] */
};

static void set_weights(struct filter *f, uint32_t i, double centre, double wide, double *w)
{
    const uint32_t first = f->first[i], count = f->count[i];
    const double narrow = 1 / wide;
    double sum = 0;

    for (uint32_t k = 0; k < count; k++) {
        const double away = fabs(((double)(first + k) - centre + 0.5) * narrow);
        w[k] = away < 1 ? 1 - away : 0;
        sum += w[k];
    }
    for (uint32_t k = 0; k < count; k++)
        f->weights[(size_t)i * f->taps + k] = (int32_t)floor(w[k] / sum * (1 << WEIGHT_BITS) + 0.5);
}

static copse_status make_filter(struct copse_arena *arena, uint32_t from, uint32_t to,
                                struct filter *f)
{
    const double step = (double)from / (double)to, wide = step > 1 ? step : 1;

    f->taps = 2 * (uint32_t)ceil(wide) + 1;
    f->first = copse__arena_alloc(arena, to, sizeof *f->first);
    f->count = copse__arena_alloc(arena, to, sizeof *f->count);
    f->weights = copse__arena_alloc(arena, to, f->taps * sizeof *f->weights);
    double *w = copse__arena_alloc(arena, f->taps, sizeof *w);
    if (f->first == NULL || f->count == NULL || f->weights == NULL || w == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "picture: no memory");
    for (uint32_t i = 0; i < to; i++) {
        const double centre = ((double)i + 0.5) * step;
        const double low = floor(centre - wide + 0.5), high = floor(centre + wide + 0.5);
        f->first[i] = low > 0 ? (uint32_t)low : 0;
        f->count[i] = (high < (double)from ? (uint32_t)high : from) - f->first[i];
        set_weights(f, i, centre, wide, w);
    }
    return COPSE_OK;
}

/* One target value: `stride` bytes between source values. */
static uint8_t picture_resize_weigh(const struct filter *f, uint32_t i, const uint8_t *from,
                                    size_t stride)
{
    const int32_t *w = f->weights + (size_t)i * f->taps;
    int32_t sum = 1 << (WEIGHT_BITS - 1); /* at most 255 * 2^22 and a little */

    from += f->first[i] * stride;
    for (uint32_t k = 0; k < f->count[i]; k++)
        sum += w[k] * from[k * stride];
    sum >>= WEIGHT_BITS;
    return (uint8_t)COPSE_MIN(sum, 255);
}

static copse_status resize_picture(struct copse_arena *arena, const uint8_t *from,
                                   uint32_t from_width, uint32_t from_height, uint32_t channels,
                                   uint32_t to_width, uint32_t to_height, uint8_t *out)
{
    const size_t from_row = (size_t)from_width * channels, to_row = (size_t)to_width * channels;
    struct filter across, down;
    uint8_t *narrow = copse__arena_alloc(arena, from_height, to_row);

    if (narrow == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "picture: no memory");
    COPSE_TRY(make_filter(arena, from_width, to_width, &across));
    COPSE_TRY(make_filter(arena, from_height, to_height, &down));
    for (uint32_t y = 0; y < from_height; y++)
        for (uint32_t x = 0; x < to_width; x++)
            for (uint32_t c = 0; c < channels; c++)
                narrow[y * to_row + x * channels + c] =
                    picture_resize_weigh(&across, x, from + y * from_row + c, channels);
    for (uint32_t y = 0; y < to_height; y++)
        for (size_t x = 0; x < to_row; x++)
            out[y * to_row + x] = picture_resize_weigh(&down, y, narrow + x, to_row);
    return COPSE_OK;
}

copse_status copse__picture_resize(struct copse_mem *mem, const uint8_t *from, uint32_t from_width,
                                   uint32_t from_height, uint32_t channels, uint32_t to_width,
                                   uint32_t to_height, uint8_t *out)
{
    struct copse_arena arena = { .mem = mem };

    if (from_width == to_width && from_height == to_height) {
        memcpy(out, from, (size_t)from_width * from_height * channels);
        return COPSE_OK;
    }
    const copse_status s =
        resize_picture(&arena, from, from_width, from_height, channels, to_width, to_height, out);
    copse__arena_fini(&arena);
    return s;
}
