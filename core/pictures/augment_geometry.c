/* SPDX-License-Identifier: MIT */
/* Rotation, zoom and crop of pictures in one interpolation, in fixed-point numbers: all machines
   compute the same pixels. */
#include "core/pictures/augment.h"

/* Fractions of 2^16; places of half pixels have one bit more. */
enum { UNIT_BITS = 16, PLACE_BITS = UNIT_BITS + 1, WEIGHT_BITS = 8 };
#define UNIT  ((int64_t)1 << UNIT_BITS)
#define PLACE ((int64_t)1 << PLACE_BITS)
#define BIAS  ((int64_t)1 << 40) /* pixels: places are positive with it */

/* sin of whole degrees from 0 to 90, times 2^16. */
static const int32_t sines[91] = {
    0,     1144,  2287,  3430,  4572,  5712,  6850,  7987,  9121,  10252, 11380, 12505, 13626,
    14742, 15855, 16962, 18064, 19161, 20252, 21336, 22415, 23486, 24550, 25607, 26656, 27697,
    28729, 29753, 30767, 31772, 32768, 33754, 34729, 35693, 36647, 37590, 38521, 39441, 40348,
    41243, 42126, 42995, 43852, 44695, 45525, 46341, 47143, 47930, 48703, 49461, 50203, 50931,
    51643, 52339, 53020, 53684, 54332, 54963, 55578, 56175, 56756, 57319, 57865, 58393, 58903,
    59396, 59870, 60326, 60764, 61183, 61584, 61966, 62328, 62672, 62997, 63303, 63589, 63856,
    64104, 64332, 64540, 64729, 64898, 65048, 65177, 65287, 65376, 65446, 65496, 65526, 65536,
};

static int64_t sine_of(int32_t degrees)
{
    const int32_t d = (degrees % 360 + 360) % 360, half = d % 180;
    const int64_t s = sines[half <= 90 ? half : 180 - half];
    return d < 180 ? s : -s;
}

/* The pixel before a place, and the weight of the pixel after it. */
static int64_t geometry_floor(int64_t place, uint32_t *weight)
{
    const uint64_t biased = (uint64_t)(place + BIAS * PLACE);
    *weight = (uint32_t)(biased & (uint64_t)(PLACE - 1)) >> (PLACE_BITS - WEIGHT_BITS);
    return (int64_t)(biased >> PLACE_BITS) - BIAS;
}

static uint32_t pixel_at(const struct copse_augment_picture *p, int64_t x, int64_t y, uint32_t c)
{
    return x < 0 || y < 0 || x >= p->width || y >= p->height
               ? 0
               : p->pixels[((size_t)y * p->width + (size_t)x) * p->channels + c];
}

/* The bilinear mean at a place, for all channels. */
static void sample_pixel(const struct copse_augment_picture *p, int64_t place_x, int64_t place_y,
                         uint8_t *to)
{
    uint32_t right, down;
    const uint32_t one = 1u << WEIGHT_BITS;
    const int64_t x = geometry_floor(place_x, &right), y = geometry_floor(place_y, &down);
    for (uint32_t c = 0; c < p->channels; c++) {
        const uint32_t upper =
                           pixel_at(p, x, y, c) * (one - right) + pixel_at(p, x + 1, y, c) * right,
                       lower = pixel_at(p, x, y + 1, c) * (one - right) +
                               pixel_at(p, x + 1, y + 1, c) * right;
        to[c] =
            (uint8_t)((upper * (one - down) + lower * down + (one * one) / 2) >> (2 * WEIGHT_BITS));
    }
}

void copse__augment_geometry(const struct copse_augment_picture *p, const struct copse_geometry *g)
{
    const int64_t width = p->width, height = p->height, crop = g->crop, zoom = g->zoom,
                  cosine = sine_of(g->degrees + 90), sine = sine_of(g->degrees);
    /* per half pixel of the target */
    const int64_t a = cosine * crop / zoom, b = sine * crop / zoom;
    /* where the centre of the target is, from the centre of the source */
    const int64_t x = g->right * (width - 1) * (100 - crop) / zoom,
                  y = g->down * (height - 1) * (100 - crop) / zoom;
    const int64_t centre_x = (width - 1) * UNIT + (cosine * x - sine * y) / UNIT,
                  centre_y = (height - 1) * UNIT + (sine * x + cosine * y) / UNIT;
    uint8_t *to = p->scratch;
    for (int64_t i = 0; i < height; i++)
        for (int64_t k = 0; k < width; k++, to += p->channels) {
            const int64_t u = 2 * k - (width - 1), v = 2 * i - (height - 1);
            sample_pixel(p, centre_x + a * u - b * v, centre_y + b * u + a * v, to);
        }
    memcpy(p->pixels, p->scratch, (size_t)(width * height) * p->channels);
}
