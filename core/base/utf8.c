/* SPDX-License-Identifier: MIT */
/* Well-formed UTF-8. */
#include "core/base/base.h"

size_t copse__utf8_valid(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;

    while (i < size) {
        unsigned char c = p[i];
        size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : 3;
        if (c == 0 || (c >= 0x80 && c < 0xc2) || c > 0xf4 || more > size - i - 1)
            return i;
        for (size_t k = 1; k <= more; k++)
            if ((p[i + k] & 0xc0) != 0x80)
                return i;
        /* no overlong forms, no surrogates, nothing above U+10FFFF */
        if ((c == 0xe0 && p[i + 1] < 0xa0) || (c == 0xed && p[i + 1] > 0x9f) ||
            (c == 0xf0 && p[i + 1] < 0x90) || (c == 0xf4 && p[i + 1] > 0x8f))
            return i;
        i += more + 1;
    }
    return i;
}
