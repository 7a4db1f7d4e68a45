/* SPDX-License-Identifier: MIT */
/* Compiled kernels as files in $XDG_CACHE_HOME/copse or ~/.cache/copse: private to the user, replaced atomically,
   ignored if another user could have written them. The library checks the content; this file checks ownership and
   serializes changes of lists between processes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/tool.h"

#define MAX_ENTRY ((off_t)256 << 20)

static char folder[900];

static bool is_ours(const struct stat *s)
{
    return s->st_uid == geteuid() && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool make_folder(void)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct stat s;
    int n;
    if (base && base[0] == '/')
        n = snprintf(folder, sizeof folder, "%s", base);
    else if (home && home[0] == '/')
        n = snprintf(folder, sizeof folder, "%s/.cache", home);
    else
        return false;
    if (n < 0 || (size_t)n + 16 > sizeof folder)
        return false;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return false;
    strcat(folder, "/copse");
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return false;
    return stat(folder, &s) == 0 && S_ISDIR(s.st_mode) && is_ours(&s);
}

static bool path_of(const char *key, char *path, size_t room)
{
    const size_t length = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    const int n = snprintf(path, room, "%s/%s", folder, key);
    return length > 0 && key[length] == '\0' && n > 0 && (size_t)n < room;
}

static void get(void *user, const char *key, void (*take)(void *to, const void *bytes, size_t size),
                void *to)
{
    (void)user;
    char path[1024];
    struct stat s;
    if (!path_of(key, path, sizeof path))
        return;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    void *bytes = NULL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && is_ours(&s) && s.st_size > 0 &&
        s.st_size <= MAX_ENTRY && (bytes = malloc((size_t)s.st_size)) != NULL) {
        size_t at = 0;
        ssize_t n;
        while (at < (size_t)s.st_size && (n = read(fd, (char *)bytes + at, (size_t)s.st_size - at)) > 0)
            at += (size_t)n;
        if (at == (size_t)s.st_size)
            take(to, bytes, at);
    }
    free(bytes);
    close(fd);
}

static void put(void *user, const char *key, const void *bytes, size_t size)
{
    (void)user;
    char path[1024], temp[1100];
    if (!path_of(key, path, sizeof path))
        return;
    snprintf(temp, sizeof temp, "%s.%ld", path, (long)getpid());
    const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    size_t at = 0;
    ssize_t n;
    while (at < size && (n = write(fd, (const char *)bytes + at, size - at)) > 0)
        at += (size_t)n;
    if (close(fd) != 0 || at != size || rename(temp, path) != 0)
        unlink(temp);
}

/* One lock for all lists. The system releases it when its holder exits. It belongs to an open file description and so
   also excludes other threads of the process. If the lock stays taken for a short time, the caller continues without
   it, because a stopped process must not block others. On file systems without locks the caller does not wait. */
static void *lock(void *user, const char *key)
{
    enum { TRIES = 400 };
    const struct timespec pause = { .tv_nsec = 5000000 };
    char path[1024];
    (void)user, (void)key;
    snprintf(path, sizeof path, "%s/.lock", folder);
    int *fd = malloc(sizeof *fd);
    if (!fd || (*fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0) {
        free(fd);
        return NULL;
    }
    for (int i = 0; i < TRIES && flock(*fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        nanosleep(&pause, NULL);
    }
    return fd;
}

static void unlock(void *user, void *locked)
{
    int *fd = locked;
    (void)user;
    if (fd)
        close(*fd);
    free(fd);
}

bool cache_open(struct copse_cache_params *out)
{
    if (!make_folder())
        return false;
    *out = (struct copse_cache_params){ .get = get, .put = put, .lock = lock, .unlock = unlock };
    return true;
}
