/* SPDX-License-Identifier: MIT */
/* The formats of pictures, recognised by the first bytes of a file. */
#include "core/base/files.h"
#include "core/pictures/picture.h"

#if defined(COPSE_HAVE_PICTURES)
#    define READ(function) function
#else
#    define READ(function) NULL
#endif

static const struct copse_picture_format formats[] = {
    { "PNG", "\x89PNG\r\n\x1a\n", 8, READ(copse__png_read) },
    { "JPEG", "\xff\xd8\xff", 3, READ(copse__jpeg_read) },
};

const struct copse_picture_format *copse__picture_format(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < COPSE_COUNT(formats); i++)
        if (size >= formats[i].magic_size &&
            memcmp(bytes, formats[i].magic, formats[i].magic_size) == 0)
            return &formats[i];
    return NULL;
}

/* Open a file; *format is NULL if it is not a picture. */
static copse_status open_input(struct copse_picture_input *in,
                               const struct copse_picture_format **format)
{
    unsigned char magic[COPSE_PICTURE_MAGIC_MAX];

    COPSE_TRY(copse__file_open(in->path, &in->stream, &in->bytes));
    const size_t got = fread(magic, 1, sizeof magic, in->stream);
    *format = copse__picture_format(magic, got);
    if (!ferror(in->stream) && fseek(in->stream, 0, SEEK_SET) == 0)
        return COPSE_OK;
    fclose(in->stream);
    return copse_fail(COPSE_ERR_IO, "picture: cannot read %s", in->path);
}

copse_status copse__picture_is(const char *path, bool *out)
{
    struct copse_picture_input in = { .path = path };
    const struct copse_picture_format *format;

    *out = false;
    COPSE_TRY(open_input(&in, &format));
    fclose(in.stream);
    *out = format != NULL;
    return COPSE_OK;
}

copse_status copse__picture_load(struct copse_mem *mem, const char *path, bool has_pixels,
                                 struct copse_picture *out)
{
    struct copse_picture_input in = { .mem = mem, .path = path };
    const struct copse_picture_format *format;
    copse_status s;

    *out = (struct copse_picture){ .orientation = 1 };
    COPSE_TRY(open_input(&in, &format));
    if (format == NULL)
        s = copse_fail(COPSE_ERR_FORMAT, "picture: %s is not a picture (PNG or JPEG)", path);
    else if (format->read == NULL)
        s = copse_fail(COPSE_ERR_UNSUPPORTED,
                       "picture: %s: this library was built without pictures; build it where "
                       "libpng and libjpeg-turbo "
                       "(libpng-dev, libjpeg62-turbo-dev) are installed",
                       path);
    else
        s = format->read(&in, has_pixels, out);
    fclose(in.stream);
    if (s != COPSE_OK) {
        copse__free(mem, out->pixels);
        out->pixels = NULL;
    }
    return s;
}
