/* SPDX-License-Identifier: MIT */
/* A picture file as the pixels of a dataset: decoded, in grey or colour, upright, in one size. */
#include "core/pictures/picture.h"

/* Orientations from 5 on exchange rows and columns. */
static bool is_turned(const struct copse_picture *p)
{
    return p->orientation >= 5;
}

static uint32_t upright_width(const struct copse_picture *p)
{
    return is_turned(p) ? p->height : p->width;
}

static uint32_t upright_height(const struct copse_picture *p)
{
    return is_turned(p) ? p->width : p->height;
}

copse_status copse__picture_header(struct copse_mem *mem, const char *path,
                                   struct copse_picture *out)
{
    struct copse_picture p;

    COPSE_TRY(copse__picture_load(mem, path, false, &p));
    *out = p;
    out->width = upright_width(&p);
    out->height = upright_height(&p);
    return COPSE_OK;
}

/* ITU-R BT.601, in place. */
static void make_grey(struct copse_picture *p)
{
    const size_t count = (size_t)p->width * p->height;

    for (size_t i = 0; i < count; i++) {
        const uint8_t *from = p->pixels + 3 * i;
        p->pixels[i] =
            (uint8_t)((from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 32768u) >> 16);
    }
    p->channels = 1;
}

/* Where a pixel of the upright picture is in the file. */
static size_t place_of(const struct copse_picture *p, uint32_t x, uint32_t y)
{
    uint32_t from_x = is_turned(p) ? y : x, from_y = is_turned(p) ? x : y;

    /* bits: mirrored left to right, mirrored top to bottom, for orientations 1 to 8 */
    static const uint8_t mirrors[] = { 0, 1, 3, 2, 0, 2, 3, 1 };
    const uint8_t mirror = mirrors[p->orientation - 1];
    if (mirror & 1)
        from_x = p->width - 1 - from_x;
    if (mirror & 2)
        from_y = p->height - 1 - from_y;
    return ((size_t)from_y * p->width + from_x) * p->channels;
}

static copse_status make_upright(struct copse_mem *mem, struct copse_picture *p)
{
    const uint32_t width = upright_width(p), height = upright_height(p);

    if (p->orientation == 1)
        return COPSE_OK;
    uint8_t *to = copse__alloc(mem, (size_t)width * height, p->channels), *at = to;
    if (to == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "picture: no memory");
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++, at += p->channels)
            memcpy(at, p->pixels + place_of(p, x, y), p->channels);
    copse__free(mem, p->pixels);
    *p = (struct copse_picture){ width, height, p->channels, 1, p->is_grey, to };
    return COPSE_OK;
}

/* Red, green and blue of grey, in place; `to` has room. */
static void spread_grey(uint8_t *to, size_t count)
{
    for (size_t i = count; i-- > 0;)
        to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = to[i];
}

static copse_status picture_convert(struct copse_mem *mem, const char *path,
                                    struct copse_picture *p,
                                    const struct copse_picture_shape *shape, uint8_t *out)
{
    if (p->channels > shape->channels)
        make_grey(p);
    COPSE_TRY(make_upright(mem, p));
    if (!shape->is_resized && (p->width != shape->width || p->height != shape->height))
        return copse_fail(COPSE_ERR_SHAPE, "picture: %s has %u x %u pixels now, not %u x %u", path,
                          p->width, p->height, shape->width, shape->height);
    COPSE_TRY(copse__picture_resize(mem, p->pixels, p->width, p->height, p->channels, shape->width,
                                    shape->height, out));
    if (p->channels < shape->channels)
        spread_grey(out, (size_t)shape->width * shape->height);
    return COPSE_OK;
}

copse_status copse__picture_read(struct copse_mem *mem, const char *path,
                                 const struct copse_picture_shape *shape, uint8_t *out)
{
    struct copse_picture p;

    COPSE_TRY(copse__picture_load(mem, path, true, &p));
    const copse_status s = picture_convert(mem, path, &p, shape, out);
    copse__free(mem, p.pixels);
    return s;
}
