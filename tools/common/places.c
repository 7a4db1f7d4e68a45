/* SPDX-License-Identifier: MIT */
/* Files that are installed with the command. */
#include <stdio.h>
#include <string.h>

#include "tools/tool.h"

const char *installed_place(char *room, size_t size, const char *beside, const char *source,
                            const char *installed)
{
    system_program(room, size);
    char *slash = strrchr(room, '/');
    for (; slash && slash > room && strncmp(beside, "../", 3) == 0; slash = strrchr(room, '/')) {
        *slash = '\0';
        beside += 3;
    }
    if (slash && strlen(beside) < size - (size_t)(slash + 1 - room))
        strcpy(slash + 1, beside);
    return system_can_read(room) ? room : system_can_read(source) ? source : installed;
}
