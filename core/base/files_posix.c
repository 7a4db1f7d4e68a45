/* SPDX-License-Identifier: MIT */
/* Opens and removes files, lists and creates folders, on POSIX systems. */
#include "core/base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"

static copse_status fail_errno(const char *action, const char *path)
{
    char reason[128];
    int code = errno;

    if (strerror_r(code, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", code);
    return copse_fail(COPSE_ERR_IO, "file: cannot %s %s: %s", action, path, reason);
}

copse_status copse__file_open(const char *path, FILE **out, uint64_t *size)
{
    struct stat info;

    *out = NULL;
    /* O_NONBLOCK: opening a pipe without a writer must not hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_errno("open", path);
    if (fstat(fd, &info) != 0) {
        copse_status s = fail_errno("open", path);
        close(fd);
        return s;
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return copse_fail(COPSE_ERR_IO, "file: %s is not a regular file", path);
    }
    *out = fdopen(fd, "rb");
    if (*out == NULL) {
        copse_status s = fail_errno("open", path);
        close(fd);
        return s;
    }
    *size = (uint64_t)info.st_size;
    return COPSE_OK;
}

bool copse__file_seek(FILE *stream, uint64_t at)
{
    return at <= INT64_MAX && fseeko(stream, (off_t)at, SEEK_SET) == 0;
}

copse_status copse__file_create(const char *path, FILE **out)
{
    *out = NULL;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno == EEXIST ? COPSE_OK : fail_errno("make", path);
    *out = fdopen(fd, "wb");
    if (*out)
        return COPSE_OK;
    copse_status s = fail_errno("make", path);
    close(fd);
    return s;
}

copse_status copse__folder_list(const char *path, bool (*take)(void *user, const char *name),
                                void *user)
{
    struct dirent *entry;
    copse_status s = COPSE_OK;

    DIR *folder = opendir(path);
    if (folder == NULL)
        return fail_errno("list", path);
    for (;;) {
        errno = 0;
        entry = readdir(folder);
        if (entry == NULL) {
            if (errno != 0)
                s = fail_errno("list", path);
            break;
        }
        if (!take(user, entry->d_name))
            break;
    }
    closedir(folder);
    return s;
}

copse_status copse__folder_make(const char *path, bool *is_new)
{
    struct stat info;
    const bool is_made = mkdir(path, 0777) == 0;

    if (is_new)
        *is_new = is_made;
    if (is_made || (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)))
        return COPSE_OK;
    return fail_errno("make the folder", path);
}

copse_status copse__folder_rename(const char *from, const char *to)
{
    return rename(from, to) == 0 ? COPSE_OK : fail_errno("make the folder", to);
}

bool copse__file_is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool copse__path_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

void copse__folder_remove(const char *path)
{
    (void)rmdir(path);
}

const char *copse__path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

copse_status copse__file_remove(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT ? COPSE_OK : fail_errno("remove", path);
}
