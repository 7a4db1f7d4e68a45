/* SPDX-License-Identifier: MIT */
/* A temporary folder for a test, with plain or gzipped files. */
#ifndef COPSE_TEMP_FILES_H
#define COPSE_TEMP_FILES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/rig/rig.h"

static char temp_folder[200];

static inline void temp_begin(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(temp_folder, sizeof temp_folder, "%.150s/copse-test-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(temp_folder) == NULL) {
        perror(temp_folder);
        exit(1);
    }
}

static inline void temp_remove(const char *folder)
{
    struct dirent *entry;
    char path[600];

    DIR *d = opendir(folder);
    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] == '.' && (entry->d_name[1] == 0 || entry->d_name[1] == '.'))
            continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= sizeof path)
            continue;
        if (unlink(path) != 0)
            temp_remove(path);
    }
    if (d != NULL)
        closedir(d);
    rmdir(folder);
}

static inline void temp_end(void)
{
    temp_remove(temp_folder);
}

static inline size_t temp_count(void)
{
    size_t n = 0;
    struct dirent *entry;

    DIR *d = opendir(temp_folder);
    while (d != NULL && (entry = readdir(d)) != NULL)
        n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    if (d != NULL)
        closedir(d);
    return n;
}

/* cmocka's set-up and tear-down of a test with a folder. */
static inline int temp_setup(void **state)
{
    (void)state;
    temp_begin();
    return 0;
}

static inline int temp_teardown(void **state)
{
    (void)state;
    temp_end();
    return 0;
}

/* Path of a file in the folder; valid for eight further calls. */
static inline const char *temp_path(const char *name)
{
    static char paths[8][300];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, 300, "%s/%s", temp_folder, name);
    return path;
}

static inline const char *temp_write(const char *name, const void *bytes, size_t size)
{
    const char *path = temp_path(name);

    unlink(path); /* truncating a file makes some systems wait for the disk */
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

static inline const char *temp_text(const char *name, const char *text)
{
    return temp_write(name, text, strlen(text));
}

/* The content of a file; the caller frees it. */
static inline unsigned char *temp_bytes(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static inline void temp_check_same(const char *a, const char *b)
{
    size_t sizes[2];
    unsigned char *bytes[2] = { temp_bytes(a, &sizes[0]), temp_bytes(b, &sizes[1]) };
    if (sizes[0] != sizes[1] || memcmp(bytes[0], bytes[1], sizes[0]) != 0)
        fail_msg("%s and %s differ", a, b);
    free(bytes[0]);
    free(bytes[1]);
}

/* gzip into `to`; returns the size. */
static inline size_t temp_deflate(const void *bytes, size_t size, void *to, size_t room)
{
    z_stream z = { 0 };

    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        exit(1);
    z.next_in = (Bytef *)bytes;
    z.avail_in = (uInt)size;
    z.next_out = to;
    z.avail_out = (uInt)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        exit(1);
    deflateEnd(&z);
    return room - z.avail_out;
}

static inline const char *temp_gzip(const char *name, const void *bytes, size_t size)
{
    size_t room = size + size / 100 + 1000;
    void *packed = malloc(room);
    const char *path = temp_write(name, packed, temp_deflate(bytes, size, packed, room));

    free(packed);
    return path;
}

#endif
