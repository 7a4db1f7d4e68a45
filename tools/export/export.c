/* SPDX-License-Identifier: MIT */
/* copse export: the arrays of a safetensors file as .npy files. All files are written to a folder
   of their own first, and moved when all are complete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copse/data/checkpoint.h"
#include "copse/data/readers.h"

#include "tools/common/plural.h"
#include "tools/tool.h"

struct export
{
    copse_context *ctx;
    const char *file, *folder;
    bool is_forced;
    const struct copse_named_array *arrays;
    size_t count;
    char staging[4096]; /* beside the folder, or in it where it exists */
    bool has_folder, has_staging;
};

/* The name of an array's file: letters, digits, '_', '-' and '.' stay, every other byte and a '.'
   at the front become %XX, as in URLs; so different names give different files. False: too long for
   a file system. */
static bool file_name(const char *name, char out[256])
{
    size_t n = 0;
    if (!*name)
        out[n++] = '%';
    for (const char *c = name; *c; c++) {
        const bool is_plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                              (*c >= '0' && *c <= '9') || *c == '_' || *c == '-' ||
                              (*c == '.' && c > name);
        if (n + 8 > 255)
            return false;
        n += (size_t)snprintf(out + n, 256 - n, is_plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    snprintf(out + n, 256 - n, ".npy");
    return true;
}

static copse_status path_of(const struct export *e, const char *folder, size_t i, char path[4400])
{
    char name[256];
    if (!file_name(e->arrays[i].name, name))
        return session_set_error(COPSE_ERR_ARGUMENT,
                                 "the name of array %zu is too long for a file: '%.80s...'", i,
                                 e->arrays[i].name);
    const int n = snprintf(path, 4400, "%s/%s", folder, name);
    return n < 4400
               ? COPSE_OK
               : session_set_error(COPSE_ERR_ARGUMENT, "'%.80s...': the path is too long", folder);
}

static copse_status io_error(const char *what, const char *path)
{
    return session_set_error(COPSE_ERR_IO, "cannot %s '%s': %s", what, path, strerror(errno));
}

/* The folder may exist; the files may not, unless --force is given. */
static copse_status export_check(struct export *e)
{
    struct system_file info;
    char path[4400];
    size_t length = strlen(e->folder);
    while (length > 1 && e->folder[length - 1] == '/')
        length--;
    e->has_folder = system_look(e->folder, &info);
    if (e->has_folder && info.kind != SYSTEM_FOLDER)
        return session_set_error(COPSE_ERR_IO, "--npy: '%s' is not a folder", e->folder);
    const int n = e->has_folder ? snprintf(e->staging, sizeof e->staging, "%s/.copse-export-%ld",
                                           e->folder, system_process())
                                : snprintf(e->staging, sizeof e->staging, "%.*s.tmp%ld",
                                           (int)length, e->folder, system_process());
    if (n >= (int)sizeof e->staging)
        return session_set_error(COPSE_ERR_ARGUMENT, "--npy: the path is too long");
    for (size_t i = 0; i < e->count; i++) {
        COPSE_TRY(path_of(e, e->folder, i, path));
        const bool is_link = system_is_link(path);
        if (!e->has_folder || (!system_look(path, &info) && !is_link))
            continue;
        if (output_is_same(path, e->file))
            return session_set_error(
                COPSE_ERR_ARGUMENT,
                "--npy would replace '%s', which this command reads; name another folder", path);
        if (!e->is_forced)
            return session_set_error(COPSE_ERR_ARGUMENT, "'%s' exists; --force replaces it", path);
        if (is_link || info.kind != SYSTEM_FILE)
            return session_set_error(COPSE_ERR_IO, "'%s' is not a regular file", path);
    }
    return COPSE_OK;
}

static copse_status write_all(struct export *e)
{
    char path[4400], to[4400];
    if (!system_make_folder(e->staging))
        return io_error("make the folder", e->staging);
    e->has_staging = true;
    for (size_t i = 0; i < e->count; i++) {
        COPSE_TRY(path_of(e, e->staging, i, path));
        COPSE_TRY(copse_write_npy(e->ctx, path, &e->arrays[i].array));
    }
    if (!e->has_folder) {
        if (!system_rename(e->staging, e->folder))
            return io_error("make the folder", e->folder);
        e->has_staging = false;
    }
    for (size_t i = 0; e->has_staging && i < e->count; i++) {
        COPSE_TRY(path_of(e, e->staging, i, path));
        COPSE_TRY(path_of(e, e->folder, i, to));
        if (!system_rename(path, to))
            return io_error("write", to);
    }
    return COPSE_OK;
}

static void remove_staging(const struct export *e)
{
    char path[4400];
    for (size_t i = 0; e->has_staging && i < e->count; i++)
        if (path_of(e, e->staging, i, path) == COPSE_OK)
            system_remove(path);
    if (e->has_staging)
        system_remove_folder(e->staging);
}

static copse_status export_file(struct export *e)
{
    COPSE_TRY(export_check(e));
    signals_hold();
    const copse_status s = write_all(e);
    remove_staging(e);
    signals_release();
    return s;
}

int cmd_export(int argc, char **argv)
{
    struct option_words words = { .count = 0 };
    struct export e = { .file = NULL };
    copse_checkpoint *file = NULL;
    copse_context *ctx = NULL;
    const struct option_row rows[] = {
        { "", OPTION_WORDS, &words, "FILE",
          "a safetensors file: weights, a model or a checkpoint" },
        { "npy", OPTION_TEXT, &e.folder, "DIR",
          "write one .npy file for each array to this folder" },
        { "force", OPTION_FLAG, &e.is_forced, NULL, "replace files that exist" },
        { 0 },
    };
    int code = options_parse(
        argc, argv, rows,
        "Writes the arrays of a safetensors file as .npy files for NumPy. In file names "
        "a '/' of an\narray's name becomes %2F.");
    if (code >= 0)
        return code;
    const char *wrong = words.count != 1          ? "which file? give one FILE"
                        : !e.folder || !*e.folder ? "where to? give --npy DIR"
                                                  : NULL;
    if (wrong) {
        fprintf(stderr, "copse export: %s\n", wrong);
        return EXIT_BAD_INPUT;
    }
    e.file = words.at[0];
    copse_status s = session_open_files(&ctx);
    if (s == COPSE_OK)
        s = copse_checkpoint_read(ctx, e.file, &file);
    if (s == COPSE_OK) {
        e.arrays = copse_checkpoint_arrays(file, &e.count);
        e.ctx = ctx;
        s = export_file(&e);
    }
    if (s == COPSE_OK)
        printf("%zu array%s: %s\n", e.count, plural_end(e.count), e.folder);
    code = s == COPSE_OK ? EXIT_DONE : session_fail(s);
    copse_checkpoint_release(&file);
    copse_context_release(&ctx);
    return code;
}
