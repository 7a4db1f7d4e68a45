/* SPDX-License-Identifier: MIT */
/* Writes PNG and JPEG files for tests. */
#include "tests/rig/data/picture_files.h"

#if defined(COPSE_HAVE_PICTURES)

#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

#    include <png.h>

#    include <jpeglib.h>

/* A TIFF header and one tag, little-endian; the orientation is at 18. */
static const unsigned char tiff[] = { 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3,
                                      0,   1,   0,  0, 0, 0, 0, 0, 0, 0, 0,    0,    0 };
#    define AT_ORIENTATION 18

static FILE *create(const char *path)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        perror(path);
        exit(1);
    }
    return f;
}

static void set_chunks(png_structp png, png_infop info, const struct png_file *p)
{
    if (p->colours > 0) {
        png_color colours[256];
        for (int i = 0; i < p->colours; i++)
            colours[i] =
                (png_color){ p->palette[3 * i], p->palette[3 * i + 1], p->palette[3 * i + 2] };
        png_set_PLTE(png, info, colours, p->colours);
    }
    if (p->alphas > 0)
        png_set_tRNS(png, info, p->alpha, p->alphas, NULL);
    if (p->key > 0)
        png_set_tRNS(png, info, NULL, 0, &(png_color_16){ .gray = (png_uint_16)p->key });
    if (p->orientation > 0) {
        unsigned char exif[sizeof tiff];
        memcpy(exif, tiff, sizeof exif);
        exif[AT_ORIENTATION] = (unsigned char)p->orientation;
        png_set_eXIf_1(png, info, sizeof exif, exif);
    }
}

void png_write(const char *path, const struct png_file *p)
{
    FILE *f = create(path);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);

    png_init_io(png, f);
    png_set_IHDR(png, info, p->width, p->height, p->depth > 0 ? p->depth : 8, p->colour_type,
                 p->is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    set_chunks(png, info, p);
    png_write_info(png, info);
    for (int passes = png_set_interlace_handling(png); passes > 0; passes--)
        for (uint32_t y = 0; y < p->height; y++)
            png_write_row(png, p->rows + y * p->row_bytes);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    fclose(f);
}

void png_write_grey(const char *path, uint32_t width, uint32_t height, const uint8_t *pixels)
{
    png_write(path, &(struct png_file){
                        .width = width, .height = height, .rows = pixels, .row_bytes = width });
}

void png_write_colour(const char *path, uint32_t width, uint32_t height, const uint8_t *pixels)
{
    png_write(path, &(struct png_file){ .width = width,
                                        .height = height,
                                        .colour_type = PNG_COLOR_TYPE_RGB,
                                        .rows = pixels,
                                        .row_bytes = (size_t)3 * width });
}

void jpeg_write(const char *path, const struct jpeg_file *p)
{
    static const J_COLOR_SPACE spaces[] = { JCS_UNKNOWN, JCS_GRAYSCALE, JCS_UNKNOWN, JCS_RGB,
                                            JCS_CMYK };
    FILE *f = create(path);
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr errors;

    j.err = jpeg_std_error(&errors); /* ends the process */
    jpeg_create_compress(&j);
    jpeg_stdio_dest(&j, f);
    j.image_width = p->width;
    j.image_height = p->height;
    j.input_components = p->channels;
    j.in_color_space = spaces[p->channels];
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, 100, TRUE);
    for (int i = 0; i < j.num_components; i++)
        j.comp_info[i].h_samp_factor = j.comp_info[i].v_samp_factor = 1;
    if (p->is_progressive)
        jpeg_simple_progression(&j);
    jpeg_start_compress(&j, TRUE);
    if (p->orientation > 0) {
        unsigned char exif[6 + sizeof tiff] = "Exif\0";
        memcpy(exif + 6, tiff, sizeof tiff);
        exif[6 + AT_ORIENTATION] = (unsigned char)p->orientation;
        jpeg_write_marker(&j, JPEG_APP0 + 1, exif, sizeof exif);
    }
    while (j.next_scanline < j.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(p->pixels + (size_t)j.next_scanline * p->width *
                                                             (size_t)p->channels);
        jpeg_write_scanlines(&j, &row, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    fclose(f);
}

#endif
