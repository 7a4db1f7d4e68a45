/* SPDX-License-Identifier: MIT */
/* Random changes of pictures while a network is trained. */
#ifndef COPSE_PICTURES_AUGMENT_H
#define COPSE_PICTURES_AUGMENT_H

#include "core/base/base.h"

/* Steps that are 0 change nothing. */
struct copse_augment {
    uint32_t flip;
    uint32_t shift;      /* [pixels] */
    uint32_t brightness; /* [percent] */
};

/* include/copse/data/pictures.h describes the text. */
copse_status copse__augment_parse(const char *text, struct copse_augment *out);

struct copse_augment_picture {
    uint32_t width, height, channels;
    uint8_t *pixels;  /* changed in place */
    uint8_t *scratch; /* of the same size */
};
/* The change depends on seed, epoch and row alone. */
void copse__augment_apply(const struct copse_augment *a, uint64_t seed, uint32_t epoch,
                          uint32_t row, const struct copse_augment_picture *p);

#endif
