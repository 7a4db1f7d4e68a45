/* SPDX-License-Identifier: MIT */
/* Names that fit a pattern: `*` is any text, `?` one character. */
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
