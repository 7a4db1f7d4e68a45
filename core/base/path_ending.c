/* SPDX-License-Identifier: MIT */
/* Endings of paths. */
#include <string.h>

#include "core/base/base.h"
#include "core/base/files.h"

bool copse__path_ends(const char *path, const char *ending)
{
    const size_t size = strlen(path), n = strlen(ending);
    size_t same = 0;
    for (; size >= n && same < n; same++) {
        const char c = path[size - n + same];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != ending[same])
            break;
    }
    return size >= n && same == n;
}
