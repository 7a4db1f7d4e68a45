/* SPDX-License-Identifier: MIT */
/* The orientation in Exif data: a TIFF header, and a directory of tags. */
#include "core/pictures/picture.h"

#define TAG_ORIENTATION 0x0112u
#define TYPE_SHORT      3u
#define ENTRY_BYTES     12u

struct tiff {
    const unsigned char *bytes;
    size_t size;
    bool is_big; /* endian */
};

/* `count` bytes at `at`, which are there. */
static uint32_t exif_number(const struct tiff *t, size_t at, size_t count)
{
    uint32_t v = 0;

    for (size_t i = 0; i < count; i++)
        v = v << 8 | t->bytes[at + (t->is_big ? i : count - 1 - i)];
    return v;
}

uint8_t copse__exif_orientation(const unsigned char *bytes, size_t size)
{
    const struct tiff t = { bytes, size, size > 0 && bytes[0] == 'M' };

    if (size < 8 || bytes[0] != bytes[1] || (bytes[0] != 'M' && bytes[0] != 'I') ||
        exif_number(&t, 2, 2) != 42)
        return 1;
    const size_t at = exif_number(&t, 4, 4);
    if (at > size || size - at < 2)
        return 1;
    const uint32_t count = exif_number(&t, at, 2);
    for (size_t i = 0, entry = at + 2; i < count && size - entry >= ENTRY_BYTES;
         i++, entry += ENTRY_BYTES) {
        if (exif_number(&t, entry, 2) != TAG_ORIENTATION ||
            exif_number(&t, entry + 2, 2) != TYPE_SHORT)
            continue;
        const uint32_t v = exif_number(&t, entry + 8, 2);
        return v >= 1 && v <= 8 ? (uint8_t)v : 1;
    }
    return 1;
}
