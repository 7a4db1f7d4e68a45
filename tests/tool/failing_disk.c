/* SPDX-License-Identifier: MIT */
/* To be preloaded: fsync of temporary files (NAME.tmpPID-N) fails. FAIL_FSYNC: "FIRST-LAST" of the
   calls, from 1. FAIL_WITH: the number of the error [EIO]. FAIL_NAME: only files whose path
   contains this. */
#define _GNU_SOURCE 1 /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_wanted(int fd)
{
    char link[64], path[4096];
    const char *name = getenv("FAIL_NAME");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, ".tmp") && (!name || strstr(path, name));
}

int fsync(int fd)
{
    static unsigned calls;
    unsigned first = 0, last = 0;
    int (*next)(int);
    const char *range = getenv("FAIL_FSYNC"), *with = getenv("FAIL_WITH");
    *(void **)&next = dlsym(RTLD_NEXT, "fsync");
    if (!range || sscanf(range, "%u-%u", &first, &last) != 2 || !is_wanted(fd) || ++calls < first ||
        calls > last)
        return next(fd);
    errno = with ? atoi(with) : EIO;
    return -1;
}
