/* SPDX-License-Identifier: MIT */
/* The kernel cache as files in a folder: private to the user, replaced atomically, ignored if
   another user could have written them. The readers of entries check the content; this file checks
   ownership and serializes changes of lists between processes. */
#include "core/base/cache_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/platform.h"

#define MAX_ENTRY ((off_t)256 << 20)

struct folder {
    struct copse_mem *mem;
    char path[900];
};

static bool is_ours(const struct stat *s)
{
    return s->st_uid == geteuid() && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* `given`, or the user's folder: $XDG_CACHE_HOME/copse or ~/.cache/copse. */
static bool name_folder(struct folder *f, const char *given)
{
    const char *base = copse__env("XDG_CACHE_HOME"), *home = copse__env("HOME");
    int n = -1;
    if (given[0])
        n = snprintf(f->path, sizeof f->path, "%s", given);
    else if (base && base[0] == '/')
        n = snprintf(f->path, sizeof f->path, "%s/copse", base);
    else if (home && home[0] == '/')
        n = snprintf(f->path, sizeof f->path, "%s/.cache/copse", home);
    return n > 0 && (size_t)n < sizeof f->path;
}

/* The folder and the one above it; NULL, or why it is not used. A link may be the user's own, to a
   larger disk. */
static const char *make_folder(struct folder *f)
{
    char *last = strrchr(f->path, '/');
    struct stat s;
    if (lstat(f->path, &s) == 0 && S_ISLNK(s.st_mode) && s.st_uid != geteuid() && s.st_uid != 0)
        return "is a link of another user";
    if (last && last > f->path) {
        *last = '\0';
        (void)mkdir(f->path, 0700);
        *last = '/';
    }
    if (mkdir(f->path, 0700) != 0 && errno != EEXIST)
        return "cannot be made";
    if (stat(f->path, &s) != 0)
        return "is a link that leads nowhere";
    return !S_ISDIR(s.st_mode)     ? "is no folder"
           : s.st_uid != geteuid() ? "belongs to another user"
           : !is_ours(&s)          ? "can be written by other users"
                                   : NULL;
}

static bool path_of(const struct folder *f, const char *key, char *path, size_t room)
{
    const size_t length =
        strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    const int n = snprintf(path, room, "%s/%s", f->path, key);
    return length > 0 && key[length] == '\0' && n > 0 && (size_t)n < room;
}

static void cache_folder_posix_get(void *user, const char *key,
                                   void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    const struct folder *f = user;
    char path[1024];
    struct stat s;
    if (!path_of(f, key, path, sizeof path))
        return;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    void *bytes = NULL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && is_ours(&s) && s.st_size > 0 &&
        s.st_size <= MAX_ENTRY && (bytes = copse__alloc(f->mem, (size_t)s.st_size, 1)) != NULL) {
        size_t at = 0;
        ssize_t n;
        while (at < (size_t)s.st_size &&
               (n = read(fd, (char *)bytes + at, (size_t)s.st_size - at)) > 0)
            at += (size_t)n;
        if (at == (size_t)s.st_size)
            take(to, bytes, at);
    }
    copse__free(f->mem, bytes);
    close(fd);
}

static void cache_folder_posix_put(void *user, const char *key, const void *bytes, size_t size)
{
    const struct folder *f = user;
    char path[1024], temp[1100];
    if (!path_of(f, key, path, sizeof path))
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

/* One lock for all lists. The system releases it when its holder exits. It belongs to an open file
   description and so also excludes other threads of the process. If the lock stays taken for a
   short time, the caller continues without it, because a stopped process must not block others. On
   file systems without locks the caller does not wait. */
static void *cache_folder_posix_lock(void *user, const char *key)
{
    enum { TRIES = 400 };
    const struct timespec pause = { .tv_nsec = 5000000 };
    const struct folder *f = user;
    char path[1024];
    (void)key;
    snprintf(path, sizeof path, "%s/.lock", f->path);
    int *fd = copse__alloc(f->mem, 1, sizeof *fd);
    if (!fd || (*fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0) {
        copse__free(f->mem, fd);
        return NULL;
    }
    for (int i = 0; i < TRIES && flock(*fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        nanosleep(&pause, NULL);
    }
    return fd;
}

static void cache_folder_posix_unlock(void *user, void *locked)
{
    const struct folder *f = user;
    int *fd = locked;
    if (fd)
        close(*fd);
    copse__free(f->mem, fd);
}

void copse__cache_folder_name(const char *path, char *out, size_t room)
{
    struct folder f;
    snprintf(out, room, "%s", name_folder(&f, path) ? f.path : path[0] ? path : "of the user");
}

const char *copse__cache_folder_open(struct copse_mem *mem, const char *path,
                                     struct copse_cache_params *out)
{
    struct folder *f = copse__alloc(mem, 1, sizeof *f);
    if (!f)
        return "cannot be used without memory";
    f->mem = mem;
    const char *why = !name_folder(f, path) ? "has no name: HOME is not set, or a name is too long"
                                            : make_folder(f);
    if (why) {
        copse__free(mem, f);
        return why;
    }
    *out = (struct copse_cache_params){ .get = cache_folder_posix_get,
                                        .put = cache_folder_posix_put,
                                        .user = f,
                                        .lock = cache_folder_posix_lock,
                                        .unlock = cache_folder_posix_unlock };
    return NULL;
}

const char *copse__cache_folder_path(const struct copse_cache_params *cache)
{
    return cache->get == cache_folder_posix_get ? ((const struct folder *)cache->user)->path : NULL;
}

bool copse__cache_folder_is(const struct copse_cache_params *cache, const char *path)
{
    const char *own = copse__cache_folder_path(cache);
    struct folder other;
    return own && name_folder(&other, path) && strcmp(other.path, own) == 0;
}

void copse__cache_folder_close(struct copse_mem *mem, struct copse_cache_params *cache)
{
    if (cache->get == cache_folder_posix_get)
        copse__free(mem, cache->user);
}
