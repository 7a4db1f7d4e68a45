/* SPDX-License-Identifier: MIT */
/* The file of --trace that each worker of a job writes. */
#include <stdio.h>
#include <string.h>

#include "tools/common/trace_files.h"

void trace_file_name(const char *path, uint32_t rank, char *text, size_t room)
{
    const char *name = strrchr(path, '/');
    const char *dot = strrchr(name ? name : path, '.');
    const size_t stem = dot ? (size_t)(dot - path) : strlen(path);
    if (rank == 0)
        snprintf(text, room, "%s", path);
    else
        snprintf(text, room, "%.*s.%u%s", (int)stem, path, (unsigned)rank, dot ? dot : "");
}
