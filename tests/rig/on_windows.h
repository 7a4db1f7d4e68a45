/* SPDX-License-Identifier: MIT */
/* Included before all else in tests that are built for Windows: what they use of POSIX and mingw-w64
   lacks. */
#ifndef COPSE_ON_WINDOWS_H
#define COPSE_ON_WINDOWS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Declared here, since their headers also declare names that tests have */
__declspec(dllimport) int __cdecl _mkdir(const char *path);
__declspec(dllimport) int __cdecl _getpid(void);
#define mkdir(path, mode) _mkdir(path)

static inline char *mkdtemp(char *path)
{
    char *mark = path + strlen(path) - 6;
    for (unsigned i = 0; i < 1000000; i++) {
        snprintf(mark, 7, "%06u", ((unsigned)_getpid() * 7919u + i) % 1000000u);
        if (_mkdir(path) == 0)
            return path;
        if (errno != EEXIST)
            return NULL;
    }
    return NULL;
}

static inline int setenv(const char *name, const char *value, int replaces)
{
    return !replaces && getenv(name) ? 0 : _putenv_s(name, value);
}

static inline int unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

#endif
