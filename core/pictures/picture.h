/* SPDX-License-Identifier: MIT */
/* Pictures: files become 8-bit pixels. Decoders, turning and resizing; knows no dataset. */
#ifndef COPSE_PICTURES_PICTURE_H
#define COPSE_PICTURES_PICTURE_H

#include <stdio.h>

#include "core/base/base.h"

/* Larger pictures are refused before memory is allocated. include/copse/data/pictures.h documents
   them. */
#define COPSE_PICTURE_SIDE_MAX   32768u
#define COPSE_PICTURE_PIXELS_MAX ((uint64_t)1 << 26)

/* A picture as it is in its file: rows from top to bottom, channels of a pixel adjacent. */
struct copse_picture {
    uint32_t width, height;
    uint32_t channels;   /* of `pixels`: 1 (grey) or 3 (red, green, blue) */
    uint8_t orientation; /* of Exif, 1 (upright) to 8 */
    bool is_grey;
    uint8_t *pixels; /* of copse__alloc */
};

/* What a file is read with. */
struct copse_picture_input {
    struct copse_mem *mem;
    const char *path;
    FILE *stream;   /* at its start */
    uint64_t bytes; /* of the file */
};

/* A row of the table of formats (format.c). */
struct copse_picture_format {
    const char *name, *magic;
    size_t magic_size;
    /* Fill in everything; without `has_pixels` no `pixels`. NULL: the library was built without
       this format. On failure `pixels` may be set. */
    copse_status (*read)(struct copse_picture_input *in, bool has_pixels,
                         struct copse_picture *out);
};
#define COPSE_PICTURE_MAGIC_MAX 8u

copse_status copse__png_read(struct copse_picture_input *in, bool has_pixels,
                             struct copse_picture *out);
copse_status copse__jpeg_read(struct copse_picture_input *in, bool has_pixels,
                              struct copse_picture *out);

/* The format of a file that begins with these bytes; NULL: none of them. */
const struct copse_picture_format *copse__picture_format(const unsigned char *bytes, size_t size);
/* Whether a file is a picture, by content. */
copse_status copse__picture_is(const char *path, bool *out);

/* Read a file as it is; without `has_pixels` its header. `pixels` belong to the caller; NULL on
   failure. (format.c) */
copse_status copse__picture_load(struct copse_mem *mem, const char *path, bool has_pixels,
                                 struct copse_picture *out);

/* COPSE_ERR_FORMAT if a picture is empty or too large. For decoders. */
copse_status copse__picture_check_size(const char *path, uint64_t width, uint64_t height);
/* COPSE_ERR_FORMAT if the file is shorter than its format can pack the pixels. For decoders, before
   they allocate. */
copse_status copse__picture_check_bytes(const struct copse_picture_input *in,
                                        const struct copse_picture *p, uint64_t least);
/* The orientation of Exif data, which begins with a TIFF header; 1 if it has none. */
uint8_t copse__exif_orientation(const unsigned char *bytes, size_t size);

/* Pixels as a dataset has them. */
struct copse_picture_shape {
    uint32_t width, height;
    uint32_t channels; /* 1: grey; 3 */
    bool is_resized;   /* pictures of other sizes are resized; otherwise refused */
};

/* Read the header: width and height of the upright picture, and is_grey. */
copse_status copse__picture_header(struct copse_mem *mem, const char *path,
                                   struct copse_picture *out);
/* Read a file, turn it upright, and write its pixels [height, width, channels]. Error texts name
   the file. */
copse_status copse__picture_read(struct copse_mem *mem, const char *path,
                                 const struct copse_picture_shape *shape, uint8_t *out);

/* Resize pixels [from_height, from_width, channels] to [to_height, to_width, channels]: a triangle
   filter, which is as wide as a pixel of the smaller picture, first along rows, then along columns,
   with weights of 22 bits. */
copse_status copse__picture_resize(struct copse_mem *mem, const uint8_t *from, uint32_t from_width,
                                   uint32_t from_height, uint32_t channels, uint32_t to_width,
                                   uint32_t to_height, uint8_t *out);

/* Pixels [height, width, channels] as a PNG file in memory, of copse__alloc. COPSE_ERR_UNSUPPORTED
   without libpng. (encode_png.c) */
copse_status copse__png_encode(struct copse_mem *mem, const uint8_t *pixels, uint32_t height,
                               uint32_t width, uint32_t channels, uint8_t **out, size_t *size);

#endif
