/* SPDX-License-Identifier: MIT */
/* Files that are installed with the command. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/tool.h"

const char *installed_place(char *room, size_t size, const char *beside, const char *source,
                            const char *installed)
{
    const ssize_t n = readlink("/proc/self/exe", room, size);
    room[n > 0 && (size_t)n < size ? n : 0] = '\0';
    char *slash = strrchr(room, '/');
    for (; slash && slash > room && strncmp(beside, "../", 3) == 0; slash = strrchr(room, '/')) {
        *slash = '\0';
        beside += 3;
    }
    if (slash && strlen(beside) < size - (size_t)(slash + 1 - room))
        strcpy(slash + 1, beside);
    return access(room, R_OK) == 0 ? room : access(source, R_OK) == 0 ? source : installed;
}
