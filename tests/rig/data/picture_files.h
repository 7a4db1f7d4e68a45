/* SPDX-License-Identifier: MIT */
/* Writes PNG and JPEG files for tests. Ends the process on failure. */
#ifndef COPSE_PICTURE_FILES_H
#define COPSE_PICTURE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A PNG file. Zeros: 8-bit grey, not interlaced. */
struct png_file {
    uint32_t width, height;
    int depth, colour_type; /* as in the file format; depth 0: 8 */
    bool is_interlaced;
    const uint8_t *rows; /* as they are packed in the file, without filter bytes */
    size_t row_bytes;
    const uint8_t *palette; /* red, green, blue of `colours` */
    int colours;
    const uint8_t *alpha; /* of the first `alphas` colours of the palette */
    int alphas;
    /* of a grey picture without palette: this value is transparent; -1, 0: none */
    int key;
    int orientation; /* 0: no Exif */
};
void png_write(const char *path, const struct png_file *p);
/* 8-bit grey, or 8-bit colour. */
void png_write_grey(const char *path, uint32_t width, uint32_t height, const uint8_t *pixels);
void png_write_colour(const char *path, uint32_t width, uint32_t height, const uint8_t *pixels);

struct jpeg_file {
    uint32_t width, height;
    int channels; /* 1: grey, 3: colour, 4: CMYK */
    bool is_progressive;
    int orientation; /* 0: no Exif */
    const uint8_t *pixels;
};
void jpeg_write(const char *path, const struct jpeg_file *p); /* quality 100, no subsampling */

#endif
