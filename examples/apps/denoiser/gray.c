/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/apps/common/app_files.h"
#include "gray.h"

enum { LARGEST_SIDE = 16384, LARGEST_BLOCK = 65535 };

bool gray_make(size_t width, size_t height, struct gray *out)
{
    *out = (struct gray){ width, height, calloc(width * height, sizeof(float)) };
    if (!out->pixels)
        files_no_memory();
    return out->pixels != NULL;
}

void gray_free(struct gray *g)
{
    free(g->pixels);
    g->pixels = NULL;
}

/* ---- reading ---- */

/* A number of the header, after white space and comments; 0: none, or it is above `most`. */
static unsigned header_number(FILE *f, unsigned most)
{
    int c = fgetc(f);
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#') {
        while (c == '#' && (c = fgetc(f)) != '\n' && c != EOF)
            c = '#';
        c = c == EOF ? EOF : fgetc(f);
    }
    unsigned n = 0;
    for (; c >= '0' && c <= '9' && n <= most; c = fgetc(f))
        n = 10 * n + (unsigned)(c - '0');
    return n <= most && (c == ' ' || c == '\t' || c == '\r' || c == '\n') ? n : 0;
}

static bool read_pixels(FILE *f, unsigned most, struct gray *g)
{
    const size_t bytes = most > 255 ? 2 : 1;
    for (size_t i = 0; i < g->width * g->height; i++) {
        unsigned char b[2];
        if (fread(b, 1, bytes, f) != bytes)
            return false;
        const unsigned value = bytes == 2 ? 256u * b[0] + b[1] : b[0];
        if (value > most)
            return false;
        g->pixels[i] = (float)value / (float)most;
    }
    return fgetc(f) == EOF;
}

bool gray_read(const char *path, struct gray *out)
{
    *out = (struct gray){ 0 };
    FILE *f = fopen(path, "rb");
    if (!f)
        return files_refuse(path, "cannot be read");
    const bool is_pgm = fgetc(f) == 'P' && fgetc(f) == '5';
    const unsigned width = is_pgm ? header_number(f, LARGEST_SIDE) : 0;
    const unsigned height = width ? header_number(f, LARGEST_SIDE) : 0;
    const unsigned most = height ? header_number(f, 65535) : 0;
    bool is_good = most > 0;
    if (!is_good)
        files_refuse(path, "is no binary PGM file with sides from 1 to 16384");
    is_good = is_good && gray_make(width, height, out);
    if (is_good && !read_pixels(f, most, out)) {
        is_good = files_refuse(path, "does not have the pixels that it announces");
        gray_free(out);
    }
    fclose(f);
    return is_good;
}

/* ---- writing ---- */

static unsigned rounded_pixel(float x, unsigned most)
{
    const float y = x > 0 ? x : 0;
    return (unsigned)((y < 1 ? y : 1) * (float)most + 0.5f);
}

static void write_pgm(FILE *f, const struct gray *g)
{
    fprintf(f, "P5\n%zu %zu\n65535\n", g->width, g->height);
    for (size_t i = 0; i < g->width * g->height; i++) {
        const unsigned value = rounded_pixel(g->pixels[i], 65535);
        fputc((int)(value >> 8), f);
        fputc((int)(value & 255), f);
    }
}

static void put_word(unsigned char *to, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(x >> (24 - 8 * i));
}

/* A chunk of PNG: length, name, data, and the CRC of name and data. */
static void write_chunk(FILE *f, const char *name, const unsigned char *data, size_t size)
{
    unsigned char word[4];
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size + 4; i++) {
        crc ^= i < 4 ? (unsigned char)name[i] : data[i - 4];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
    }
    put_word(word, (uint32_t)size);
    fwrite(word, 1, 4, f);
    fwrite(name, 1, 4, f);
    fwrite(data, 1, size, f);
    put_word(word, ~crc);
    fwrite(word, 1, 4, f);
}

/* zlib's format with stored blocks: rows, each after a byte 0 for "no filter". */
static size_t store_rows(const struct gray *g, unsigned char *to)
{
    const size_t line = g->width + 1, size = line * g->height;
    uint32_t a = 1, b = 0;
    size_t at = 0;
    to[at++] = 0x78;
    to[at++] = 0x01;
    for (size_t i = 0; i < size; i++) {
        if (i % LARGEST_BLOCK == 0) {
            const size_t left = size - i, n = left < LARGEST_BLOCK ? left : LARGEST_BLOCK;
            const unsigned char head[] = { left <= LARGEST_BLOCK, n & 255, n >> 8 & 255, ~n & 255,
                                           ~n >> 8 & 255 };
            memcpy(to + at, head, sizeof head);
            at += sizeof head;
        }
        const size_t x = i % line, y = i / line;
        to[at] = (unsigned char)(x ? rounded_pixel(g->pixels[y * g->width + x - 1], 255) : 0);
        a = (a + to[at++]) % 65521;
        b = (b + a) % 65521;
    }
    put_word(to + at, b << 16 | a);
    return at + 4;
}

static bool write_png(FILE *f, const struct gray *g)
{
    const size_t size = (g->width + 1) * g->height;
    unsigned char *data = malloc(size + 5 * (size / LARGEST_BLOCK + 1) + 6);
    unsigned char header[13] = { [8] = 8 }; /* 8 bits, grey */
    if (!data)
        return false;
    put_word(header, (uint32_t)g->width);
    put_word(header + 4, (uint32_t)g->height);
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, f);
    write_chunk(f, "IHDR", header, sizeof header);
    write_chunk(f, "IDAT", data, store_rows(g, data));
    write_chunk(f, "IEND", data, 0);
    free(data);
    return true;
}

bool gray_write(const char *path, const struct gray *g)
{
    for (size_t i = 0; i < g->width * g->height; i++)
        if (!isfinite(g->pixels[i]))
            return files_refuse(path, "is not written: the result has pixels that are not finite");
    char *part;
    FILE *f = files_make_part(path, &part);
    if (!f)
        return false;
    bool is_good = true;
    if (files_has_ending(path, ".png"))
        is_good = write_png(f, g);
    else
        write_pgm(f, g);
    is_good = is_good && !ferror(f);
    is_good = fclose(f) == 0 && is_good;
    if (!is_good)
        remove(part);
    is_good = is_good && files_replace(part, path);
    free(part);
    return is_good || files_refuse(path, "cannot be written");
}
