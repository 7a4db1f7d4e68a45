/* SPDX-License-Identifier: MIT */
/* Characters in bytes that need not be valid UTF-8. */
#include "tools/common/characters.h"

int utf8_character(const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text, c = p[0];
    const int size = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    /* the second byte of the first and the last characters of a length, and of surrogates, has
       fewer values */
    const unsigned char least = c == 0xe0   ? 0xa0
                                : c == 0xf0 ? 0x90
                                            : 0x80,
                        most = c == 0xed   ? 0x9f
                               : c == 0xf4 ? 0x8f
                                           : 0xbf;
    for (int i = 1; i < size; i++) {
        if ((size_t)i == left)
            return UTF8_PART;
        if (p[i] < (i == 1 ? least : 0x80) || p[i] > (i == 1 ? most : 0xbf))
            return UTF8_INVALID;
    }
    return size;
}

size_t utf8_part(const char *text, size_t size)
{
    for (size_t n = 1; n <= 3 && n <= size; n++)
        if (utf8_character(text + size - n, n) == UTF8_PART)
            return n;
    return 0;
}
