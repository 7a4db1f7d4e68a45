/* SPDX-License-Identifier: MIT */
/* Grey pictures: rows of numbers from 0 to 1. */
#ifndef DENOISER_GRAY_H
#define DENOISER_GRAY_H

#include <stdbool.h>
#include <stddef.h>

struct gray {
    size_t width, height;
    float *pixels; /* of malloc; NULL: none */
};

/* Zeros; false: a line on stderr. */
bool gray_make(size_t width, size_t height, struct gray *out);
void gray_free(struct gray *g);
/* A binary PGM file of 8 or 16 bits, each side from 1 to 16,384; false: a line on stderr. */
bool gray_read(const char *path, struct gray *out);
/* PGM of 16 bits, or PNG of 8 bits without compression where `path` ends in ".png". Pixels that are
   not finite are refused. After an error `path` is as it was, and there is a line on stderr. */
bool gray_write(const char *path, const struct gray *g);

#endif
