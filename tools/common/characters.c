/* SPDX-License-Identifier: MIT */
/* Characters in bytes that need not be valid UTF-8. */
#include "tools/common/characters.h"

#include <stdio.h>

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

size_t characters_count(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void characters_put(const char *text, size_t width, bool is_right)
{
    const size_t n = characters_count(text), blanks = n < width ? width - n : 0;
    printf("%*s%s%*s", is_right ? (int)blanks : 0, "", text, is_right ? 0 : (int)blanks, "");
}
