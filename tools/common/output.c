/* SPDX-License-Identifier: MIT */
/* Files that a command writes. They are written under a temporary name and renamed, so that they
   are complete or absent. */
#define _XOPEN_SOURCE 700 /* realpath */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool.h"

static copse_status output_fail(struct output *o, const char *path, const char *reason)
{
    const copse_status s = session_set_error(COPSE_ERR_IO, "cannot write '%s': %s", path, reason);
    output_abort(o);
    return s;
}

/* As the library does when it replaces a file. */
static bool keep_mode(int fd, const struct stat *old)
{
    const bool has_group =
        fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    return fchmod(fd, old->st_mode & (has_group ? 0777u : 0707u)) == 0;
}

copse_status output_open(struct output *o, const char *path)
{
    struct stat info;
    const char *target = path;
    int fd = -1;
    *o = (struct output){ 0 };
    signals_hold();
    if (!*path)
        return output_fail(o, path, "the path is empty");
    const bool is_new = lstat(path, &info) != 0;
    if (!is_new) {
        if (S_ISLNK(info.st_mode)) { /* keep the link */
            target = o->path = realpath(path, NULL);
            if (!o->path || stat(o->path, &info) != 0)
                return output_fail(o, path, "it is a symbolic link that leads nowhere");
        }
        if (!S_ISREG(info.st_mode))
            return output_fail(o, path, "it is not a regular file");
    }
    const size_t room = strlen(target) + 48;
    if (!o->path)
        o->path = strdup(target);
    o->temp = malloc(room);
    if (!o->path || !o->temp) {
        output_abort(o);
        return session_set_error(COPSE_ERR_NO_MEMORY, "no memory for the name '%s'", path);
    }
    /* A killed process with the same process id may have left a file with this name. */
    for (int attempt = 0; attempt < 100 && fd < 0; attempt++) {
        snprintf(o->temp, room, "%s.tmp%lx-%x", o->path, (long)getpid(), (unsigned)attempt);
        fd = open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_new ? 0666 : 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    o->is_made = fd >= 0;
    o->stream = fd >= 0 && (is_new || keep_mode(fd, &info)) ? fdopen(fd, "w") : NULL;
    if (o->stream)
        return COPSE_OK;
    const int reason = errno;
    if (fd >= 0)
        close(fd);
    return output_fail(o, path, strerror(reason));
}

copse_status output_commit(struct output *o)
{
    FILE *stream = o->stream;
    o->stream = NULL;
    bool is_good = fflush(stream) == 0 && !ferror(stream) && fsync(fileno(stream)) == 0;
    int reason = errno;
    if (fclose(stream) != 0 && is_good) {
        is_good = false;
        reason = errno;
    }
    if (is_good && rename(o->temp, o->path) != 0) {
        is_good = false;
        reason = errno;
    }
    if (!is_good)
        return output_fail(o, o->path, strerror(reason));
    o->is_made = false;
    output_abort(o);
    return COPSE_OK;
}

copse_status output_end(struct output *o, copse_status status)
{
    if (status == COPSE_OK)
        return output_commit(o);
    output_abort(o);
    return status;
}

void output_abort(struct output *o)
{
    if (o->stream)
        fclose(o->stream);
    if (o->is_made)
        unlink(o->temp);
    free(o->path);
    free(o->temp);
    *o = (struct output){ 0 };
    signals_release();
}

copse_status output_check(const char *path)
{
    struct output o;
    COPSE_TRY(output_open(&o, path));
    output_abort(&o);
    return COPSE_OK;
}

/* The identity of a file: device and inode, or before it exists those of its folder and its
   name. */
struct place {
    dev_t device;
    ino_t number;
    const char *name;
};

static bool find_place(const char *path, struct place *out)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    out->name = "";
    bool is_found = stat(path, &info) == 0;
    if (!is_found) {
        char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
        out->name = slash ? slash + 1 : path;
        is_found = folder && stat(folder, &info) == 0;
        free(folder);
    }
    out->device = is_found ? info.st_dev : 0;
    out->number = is_found ? info.st_ino : 0;
    return is_found;
}

bool output_is_same(const char *path, const char *other)
{
    struct place a, b;
    return strcmp(path, other) == 0 ||
           (find_place(path, &a) && find_place(other, &b) && a.device == b.device &&
            a.number == b.number && strcmp(a.name, b.name) == 0);
}

/* Whether a file holds what is read of a folder of data: a picture, IDX, or one of them compressed.
   Others may lie there, too. */
static bool is_data(const char *path)
{
    static const unsigned char png[] = { 0x89, 'P', 'N', 'G' };
    unsigned char b[4] = { 0 };
    FILE *f = fopen(path, "rb");
    const bool is =
        f && fread(b, 1, sizeof b, f) == sizeof b &&
        (memcmp(b, png, sizeof png) == 0 || (b[0] == 0xff && b[1] == 0xd8) ||
         (b[0] == 0x1f && b[1] == 0x8b) || (b[0] == 0 && b[1] == 0 && b[2] >= 8 && b[2] <= 14));
    if (f)
        fclose(f);
    return is;
}

/* Whether a file of data is below a folder, in it or in one of its folders. */
static bool is_below(const char *path, const char *folder)
{
    struct stat info;
    char *file = realpath(path, NULL), *top = realpath(folder, NULL);
    const size_t n = top ? strlen(top) : 0;
    const bool is = file && top && stat(top, &info) == 0 && S_ISDIR(info.st_mode) &&
                    strncmp(file, top, n) == 0 && (file[n] == '/' || top[n - 1] == '/') &&
                    is_data(file);
    free(file);
    free(top);
    return is;
}

/* Whether the file has the labels that are found beside images: of the same name but for
   "images". */
static bool has_labels_of(const char *path, const char *images)
{
    const char *slash = strrchr(images, '/'), *word = strstr(slash ? slash + 1 : images, "images"),
               *name = strrchr(path, '/');
    const size_t before = word ? (size_t)(word - (slash ? slash + 1 : images)) : 0;
    name = name ? name + 1 : path;
    if (!word || strncmp(name, word - before, before) != 0 ||
        strncmp(name + before, "labels", 6) != 0)
        return false;
    char *beside = malloc(strlen(images) + strlen(path) + 1);
    if (beside)
        sprintf(beside, "%.*s%s", slash ? (int)(slash - images) + 1 : 0, images, name);
    const bool is = beside && access(path, F_OK) == 0 && output_is_same(path, beside);
    free(beside);
    return is;
}

const char *output_overwrites(const char *path, const char *input)
{
    return output_is_same(path, input)  ? "is the file of"
           : is_below(path, input)      ? "is in the folder of"
           : has_labels_of(path, input) ? "has the labels of"
                                        : NULL;
}

void output_escape(FILE *f, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '&'    ? "&amp;"
                         : *text == '<'  ? "&lt;"
                         : *text == '>'  ? "&gt;"
                         : *text == '"'  ? "&quot;"
                         : *text == '\'' ? "&#39;"
                                         : NULL;
        if (as)
            fputs(as, f);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
    }
}
