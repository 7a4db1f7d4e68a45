/* SPDX-License-Identifier: MIT */
/* The machine through Win32. machine_posix.c has the same functions. Loaded libraries are not
   listed yet. */
#include "core/base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

void copse__machine_describe(struct copse_machine *out)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    const char *cpu = getenv("PROCESSOR_IDENTIFIER");
    *out = (struct copse_machine){ .system = "Windows" };
    snprintf(out->cpu, sizeof out->cpu, "%s", cpu ? cpu : "");
    if (GlobalMemoryStatusEx(&memory))
        out->memory_bytes = memory.ullTotalPhys;
}

const char *copse__environment_at(size_t n)
{
    size_t i = 0;
    while (_environ && _environ[i] && i < n)
        i++;
    return _environ ? _environ[i] : NULL;
}

void copse__libraries_with(const char *symbol, void (*seen)(void *user, const char *path),
                           void *user)
{
    (void)symbol, (void)seen, (void)user;
}
