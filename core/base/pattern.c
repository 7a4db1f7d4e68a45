/* SPDX-License-Identifier: MIT */
/* Names that fit a pattern, and bytes in others. */
#include "core/base/base.h"

bool copse__pattern_fits(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL; /* the newest star, and the name where its text ends */
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

const void *copse__find_bytes(const void *in, size_t size, const void *what, size_t count)
{
    const unsigned char *at = in;
    for (size_t i = 0; count <= size && i <= size - count; i++)
        if (memcmp(at + i, what, count) == 0)
            return at + i;
    return NULL;
}
