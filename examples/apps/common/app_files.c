/* SPDX-License-Identifier: MIT */
#ifndef _WIN32
#    define _XOPEN_SOURCE 700 /* realpath */
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_files.h"

#ifdef _WIN32
#    include <windows.h>
#else
#    include <dirent.h>
#    include <sys/stat.h>
#endif

enum { DEEPEST = 16 }; /* folders in folders */

bool files_refuse(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_name, path, what);
    return false;
}

bool files_no_memory(void)
{
    fprintf(stderr, "%s: out of memory\n", program_name);
    return false;
}

/* ---- lists ---- */

void files_free(struct files *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->at[i]);
    free(f->at);
    *f = (struct files){ .count = 0 };
}

/* Take a path of malloc. */
static bool add_path(struct files *f, char *path)
{
    if (f->count == f->room) {
        const size_t room = f->room ? 2 * f->room : 64;
        char **more = realloc(f->at, room * sizeof *more);
        if (!more) {
            free(path);
            return files_no_memory();
        }
        f->at = more;
        f->room = room;
    }
    f->at[f->count++] = path;
    return true;
}

static char *join_names(const char *folder, const char *name)
{
    const size_t length = strlen(folder), room = length + strlen(name) + 2;
    const char *separator = length > 0 && folder[length - 1] == '/' ? "" : "/";
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s%s%s", folder, separator, name);
    return path;
}

static bool list_folder(const char *path, int depth, struct files *out);

enum kind { OTHER, FILE_KIND, FOLDER_KIND };

/* Take an entry of a folder, a path of malloc. */
static bool list_entry(char *path, enum kind kind, int depth, struct files *out)
{
    if (kind == FILE_KIND)
        return add_path(out, path);
    const bool is_done = kind != FOLDER_KIND || list_folder(path, depth + 1, out);
    out->left_out += kind == OTHER;
    free(path);
    return is_done;
}

#ifdef _WIN32
static bool list_folder(const char *path, int depth, struct files *out)
{
    char *pattern = join_names(path, "*");
    WIN32_FIND_DATAA e;
    if (!pattern)
        return files_no_memory();
    HANDLE list = FindFirstFileA(pattern, &e);
    free(pattern);
    if (list == INVALID_HANDLE_VALUE)
        return files_refuse(path, "is no folder");
    bool is_done = depth <= DEEPEST || files_refuse(path, "is more than 16 folders deep");
    do {
        const enum kind kind = e.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT ? OTHER
                               : e.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY   ? FOLDER_KIND
                                                                                 : FILE_KIND;
        if (!is_done || e.cFileName[0] == '.')
            continue;
        char *name = join_names(path, e.cFileName);
        is_done = name ? list_entry(name, kind, depth, out) : files_no_memory();
    } while (is_done && FindNextFileA(list, &e));
    FindClose(list);
    return is_done;
}
#else
static enum kind kind_of(const char *path)
{
    struct stat is;
    if (lstat(path, &is) != 0)
        return OTHER;
    return S_ISREG(is.st_mode) ? FILE_KIND : S_ISDIR(is.st_mode) ? FOLDER_KIND : OTHER;
}

static bool list_folder(const char *path, int depth, struct files *out)
{
    if (depth > DEEPEST)
        return files_refuse(path, "is more than 16 folders deep");
    DIR *list = opendir(path);
    if (!list)
        return files_refuse(path, strerror(errno));
    bool is_done = true;
    errno = 0;
    for (struct dirent *e; is_done && (e = readdir(list)); errno = 0) {
        if (e->d_name[0] == '.')
            continue;
        char *name = join_names(path, e->d_name);
        is_done = name ? list_entry(name, kind_of(name), depth, out) : files_no_memory();
    }
    if (is_done && errno)
        is_done = files_refuse(path, strerror(errno));
    closedir(list);
    return is_done;
}
#endif

static int order_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool files_list(const char *folder, struct files *out)
{
    *out = (struct files){ .count = 0 };
    const bool is_done = list_folder(folder, 0, out);
    if (out->count > 0)
        qsort(out->at, out->count, sizeof *out->at, order_paths);
    return is_done;
}

/* ---- places ---- */

#ifdef _WIN32
static char *find_place(const char *path)
{
    return _fullpath(NULL, path, 0);
}

static bool is_prefix(const char *a, const char *b)
{
    return _strnicmp(a, b, strlen(a)) == 0;
}
#else
/* Of a new file its folder and its name. */
static char *find_place(const char *path)
{
    char *place = realpath(path, NULL);
    if (place)
        return place;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    char *parent = malloc(length + 2);
    if (!parent)
        return NULL;
    memcpy(parent, path, length);
    strcpy(parent + length, ".");
    char *folder = realpath(parent, NULL);
    free(parent);
    place = folder ? join_names(folder, path + length) : NULL;
    free(folder);
    return place;
}

static bool is_prefix(const char *a, const char *b)
{
    return strncmp(a, b, strlen(a)) == 0;
}
#endif

bool files_has(const char *place, const char *path)
{
    char *a = find_place(place), *b = find_place(path);
    bool has = false;
    if (a && b && is_prefix(a, b)) {
        const size_t length = strlen(a);
        has = !b[length] || strchr("/\\", b[length]) || strchr("/\\", a[length - 1]);
    }
    free(a);
    free(b);
    return has;
}

bool files_is_same(const char *a, const char *b)
{
#ifndef _WIN32
    struct stat x, y; /* links of another name, too */
    if (stat(a, &x) == 0 && stat(b, &y) == 0)
        return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
#endif
    char *p = find_place(a), *q = find_place(b);
    const bool is_same = p && q && is_prefix(p, q) && is_prefix(q, p);
    free(p);
    free(q);
    return is_same;
}

bool files_is_folder(const char *path)
{
#ifdef _WIN32
    const DWORD is = GetFileAttributesA(path);
    return is != INVALID_FILE_ATTRIBUTES && (is & FILE_ATTRIBUTE_DIRECTORY);
#else
    struct stat is;
    return stat(path, &is) == 0 && S_ISDIR(is.st_mode);
#endif
}

bool files_exist(const char *path)
{
#ifdef _WIN32
    return GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES;
#else
    struct stat is;
    return lstat(path, &is) == 0;
#endif
}

bool files_has_ending(const char *path, const char *ending)
{
    const size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static bool is_separator(char c)
{
#ifdef _WIN32
    return c == '/' || c == '\\';
#else
    return c == '/';
#endif
}

/* Whether `path` is a device or a pipe, which no file may replace. */
static bool is_device(const char *path)
{
#ifdef _WIN32
    (void)path;
    return false;
#else
    struct stat is;
    return stat(path, &is) == 0 && !S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode);
#endif
}

FILE *files_make_part(const char *path, char **name)
{
    const size_t room = strlen(path) + 16;
    FILE *f = NULL;
    *name = malloc(room);
    if (!*name) {
        files_no_memory();
        return NULL;
    }
    for (int i = 0; !f && i < 100 && !is_device(path); i++) {
        snprintf(*name, room, "%s.%d.part", path, i);
#ifdef _WIN32
        f = GetFileAttributesA(*name) == INVALID_FILE_ATTRIBUTES ? fopen(*name, "wb") : NULL;
#else
        f = fopen(*name, "wbx");
#endif
    }
    if (f)
        return f;
    files_refuse(path, "cannot be written");
    free(*name);
    *name = NULL;
    return NULL;
}

bool files_is_writable(const char *path, bool takes_folder)
{
    size_t length = strlen(path);
    const bool is_old = files_is_folder(path);
    if (length == 0) {
        fprintf(stderr, "%s: the name of the result is empty\n", program_name);
        return false;
    }
    if (!takes_folder && (is_old || is_separator(path[length - 1])))
        return files_refuse(path, "is a folder; name a file");
    while (!is_old && length > 1 && is_separator(path[length - 1]))
        length--;
    char *place = is_old ? join_names(path, "") : malloc(length + 1), *name;
    if (!place)
        return files_no_memory();
    if (!is_old)
        snprintf(place, length + 1, "%s", path);
    FILE *f = files_make_part(place, &name);
    free(place);
    if (!f)
        return false;
    fclose(f);
    remove(name);
    free(name);
    return true;
}

bool files_replace(const char *part, const char *path)
{
#ifdef _WIN32
    const bool is_done = MoveFileExA(part, path, MOVEFILE_REPLACE_EXISTING) != 0;
#else
    const bool is_done = rename(part, path) == 0;
#endif
    if (!is_done)
        remove(part);
    return is_done;
}
