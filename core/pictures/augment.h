/* SPDX-License-Identifier: MIT */
/* Random changes of pictures while a network is trained. */
#ifndef COPSE_PICTURES_AUGMENT_H
#define COPSE_PICTURES_AUGMENT_H

#include "core/base/base.h"

/* Steps that are 0 change nothing. */
struct copse_augment {
    uint32_t flip;
    uint32_t crop, zoom; /* [percent] */
    uint32_t rotate;     /* [degrees] */
    uint32_t shift;      /* [pixels] */
    uint32_t brightness; /* [percent] */
    uint32_t erase;      /* [percent] */
    uint32_t mixup;      /* [1/100] */
};

/* include/copse/data/pictures.h describes the text. */
copse_status copse__augment_parse(const char *text, struct copse_augment *out);

struct copse_augment_picture {
    uint32_t width, height, channels;
    uint8_t *pixels;  /* changed in place */
    uint8_t *scratch; /* of the same size */
};
/* Target pixel p has the colour of the source at
   c + R (crop / 100 (p - c) + o) 100 / zoom, where c is the centre, R turns by `degrees`, and o is
   `right`, `down` / 2^16 of what the cut-out may move. Outside of the picture all is 0.
   (augment_geometry.c) */
struct copse_geometry {
    int32_t degrees;     /* -180 to 180 */
    int32_t crop, zoom;  /* [percent]; crop 1 to 100, zoom 1 to 199 */
    int32_t right, down; /* -2^16 to 2^16 */
};
void copse__augment_geometry(const struct copse_augment_picture *p, const struct copse_geometry *g);

/* The change depends on seed, epoch and row alone. */
void copse__augment_apply(const struct copse_augment *a, uint64_t seed, uint32_t epoch,
                          uint32_t row, const struct copse_augment_picture *p);

/* Mixup of the pictures of a batch: positions 2k and 2k + 1 are mixed with each other. */
enum { COPSE_MIX_ALL = 256 };
/* What a picture keeps of itself, COPSE_MIX_ALL / 2 to COPSE_MIX_ALL; the rest is of the other one.
   It depends on seed, epoch and row, of the first picture of the pair, alone. */
uint32_t copse__augment_draw_part(const struct copse_augment *a, uint64_t seed, uint32_t epoch,
                                  uint32_t row);
void copse__augment_mix(uint8_t *first, uint8_t *second, size_t count, uint32_t part);

#endif
