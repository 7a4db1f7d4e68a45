/* SPDX-License-Identifier: MIT */
/* Names of checkpoints in a folder: finding, making, thinning out; leftovers of killed
   processes. */
#include "core/state/checkpoint_folder.h"

#include <stdio.h>
#include <stdlib.h>

#include "copse/distribute/evaluator.h"
#include "copse/loop/monitor.h"
#include "core/base/files.h"
#include "core/base/platform.h"
#include "core/data/array.h"

#define PREFIX "step-"
#define SUFFIX ".safetensors"
#define DIGITS 12     /* at least; more when they are needed */
#define TEMP   ".tmp" /* as copse__atomic_open names what it writes */

copse_status copse__checkpoint_folder_init(struct copse_checkpoint_folder *f, struct copse_mem *mem,
                                           const char *folder, const char *file, uint32_t keep)
{
    *f = (struct copse_checkpoint_folder){ .mem = mem, .keep = keep ? keep : 3 };
    f->folder = folder ? copse__strdup(mem, folder) : NULL;
    f->file = file ? copse__strdup(mem, file) : NULL;
    return copse_need_memory((!folder || f->folder) && (!file || f->file), "monitor");
}

void copse__checkpoint_folder_fini(struct copse_checkpoint_folder *f)
{
    copse__free(f->mem, f->folder);
    copse__free(f->mem, f->file);
    copse__free(f->mem, f->found.at);
}

/* ---- names ---- */

/* "step-000000000120.safetensors" is 120; `*end` receives the rest. */
static bool checkpoint_folder_parse(const char *name, uint64_t *progress, const char **end)
{
    uint64_t v = 0;
    size_t digits = 0;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return false;
    for (name += strlen(PREFIX); *name >= '0' && *name <= '9'; name++, digits++) {
        const uint64_t digit = (uint64_t)(*name - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = 10 * v + digit;
    }
    if (digits < DIGITS || strncmp(name, SUFFIX, strlen(SUFFIX)) != 0)
        return false;
    *progress = v;
    *end = name + strlen(SUFFIX);
    return true;
}

static copse_status checkpoint_folder_join(const struct copse_checkpoint_folder *f,
                                           const char *folder, const char *name, char **out)
{
    const size_t room = strlen(folder) + strlen(name) + 2;
    COPSE_TRY(copse_need_memory(*out = copse__alloc(f->mem, room, 1), "monitor"));
    const size_t length = strlen(folder);
    snprintf(*out, room, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
    return COPSE_OK;
}

copse_status copse__checkpoint_folder_new(const struct copse_checkpoint_folder *f,
                                          uint64_t progress, char **out)
{
    char name[64];
    if (f->file) {
        *out = copse__strdup(f->mem, f->file);
        return copse_need_memory(*out, "monitor");
    }
    snprintf(name, sizeof name, PREFIX "%0*llu" SUFFIX, DIGITS, (unsigned long long)progress);
    return checkpoint_folder_join(f, f->folder, name, out);
}

copse_status copse__checkpoint_folder_path(const struct copse_checkpoint_folder *f, size_t i,
                                           char **out)
{
    *out = NULL;
    return i < f->found.count
               ? copse__checkpoint_folder_new(f, f->found.at[f->found.count - 1 - i], out)
               : COPSE_OK;
}

/* ---- what is there ---- */

struct scan {
    struct copse_checkpoint_folder *f;
    const char *own; /* name of the one file; NULL in a folder */
    /* leave leftovers to the process that writes */
    bool is_reader;
    struct {
        char **at;
        size_t count, room;
    } stale; /* names */
    copse_status status;
};

/* NAME.tmp1f3-0: hexadecimal numbers of a process and a file. The file of a living process is no
   leftover. */
static bool is_leftover(const char *behind)
{
    if (strncmp(behind, TEMP, strlen(TEMP)) != 0)
        return false;
    behind += strlen(TEMP);
    const size_t process = strspn(behind, "0123456789abcdef");
    if (process == 0 || behind[process] != '-')
        return false;
    const char *file = behind + process + 1;
    const size_t number = strspn(file, "0123456789abcdef");
    return number > 0 && file[number] == '\0' &&
           (process > 8 || !copse__process_lives((uint32_t)strtoul(behind, NULL, 16)));
}

static bool checkpoint_folder_take(void *user, const char *name)
{
    struct scan *scan = user;
    struct copse_checkpoint_folder *f = scan->f;
    const char *behind = name;
    uint64_t progress = 0;
    bool is_ours = false;
    if (scan->own) {
        is_ours = strncmp(name, scan->own, strlen(scan->own)) == 0;
        behind = name + (is_ours ? strlen(scan->own) : 0);
    } else {
        is_ours = checkpoint_folder_parse(name, &progress, &behind);
    }
    bool ok = true;
    if (is_ours && *behind == '\0') {
        ok = COPSE_PUSH(f->mem, &f->found, progress);
    } else if (is_ours && !scan->is_reader && is_leftover(behind)) {
        char *copy = copse__strdup(f->mem, name);
        ok = copy && COPSE_PUSH(f->mem, &scan->stale, copy);
        if (!ok)
            copse__free(f->mem, copy);
    }
    if (!ok)
        scan->status = copse_no_memory("monitor");
    return ok;
}

static copse_status remove_stale(struct scan *scan, const char *folder)
{
    copse_status s = scan->status;
    for (size_t i = 0; i < scan->stale.count; i++) {
        char *path = NULL;
        if (s == COPSE_OK)
            s = checkpoint_folder_join(scan->f, folder, scan->stale.at[i], &path);
        if (s == COPSE_OK)
            s = copse__file_remove(path);
        copse__free(scan->f->mem, path);
        copse__free(scan->f->mem, scan->stale.at[i]);
    }
    copse__free(scan->f->mem, scan->stale.at);
    return s;
}

static int checkpoint_folder_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static copse_status scan_folder(struct scan *scan, const char *folder)
{
    struct copse_checkpoint_folder *f = scan->f;
    const copse_status s = copse__folder_list(folder, checkpoint_folder_take, scan);
    scan->status = scan->status ? scan->status : s;
    COPSE_TRY(remove_stale(scan, folder));
    if (f->found.count)
        qsort(f->found.at, f->found.count, sizeof *f->found.at, checkpoint_folder_compare);
    return COPSE_OK;
}

/* The folder of a file, as text; "." where the path has none. */
static copse_status scan_file(struct scan *scan)
{
    struct copse_checkpoint_folder *f = scan->f;
    scan->own = copse__path_name(f->file);
    const size_t length = (size_t)(scan->own - f->file); /* of the folder, with its slash */
    char *folder = copse__strdup(f->mem, length ? f->file : ".");
    COPSE_TRY(copse_need_memory(folder, "monitor"));
    if (length)
        folder[length] = '\0';
    const copse_status s = scan_folder(scan, folder);
    copse__free(f->mem, folder);
    return s;
}

copse_status copse__checkpoint_folder_scan(struct copse_checkpoint_folder *f)
{
    struct scan scan = { .f = f };
    f->found.count = 0;
    if (f->file)
        return scan_file(&scan);
    COPSE_TRY(copse__folder_make(f->folder, NULL));
    return scan_folder(&scan, f->folder);
}

/* ---- thinning out ---- */

static copse_status drop_oldest(struct copse_checkpoint_folder *f)
{
    char *path;
    COPSE_TRY(copse__checkpoint_folder_path(f, f->found.count - 1, &path));
    const copse_status s = copse__file_remove(path);
    copse__free(f->mem, path);
    COPSE_TRY(s);
    f->found.count--;
    memmove(f->found.at, f->found.at + 1, f->found.count * sizeof *f->found.at);
    return COPSE_OK;
}

copse_status copse__checkpoint_folder_written(struct copse_checkpoint_folder *f, uint64_t progress)
{
    if (f->file)
        return COPSE_OK;
    size_t at = 0;
    while (at < f->found.count && f->found.at[at] < progress)
        at++;
    if (at == f->found.count || f->found.at[at] != progress) {
        COPSE_TRY(
            copse_need_memory(COPSE_RESERVE(f->mem, &f->found, f->found.count + 1), "monitor"));
        memmove(f->found.at + at + 1, f->found.at + at,
                (f->found.count - at) * sizeof *f->found.at);
        f->found.at[at] = progress;
        f->found.count++;
    }
    while (f->found.count > f->keep)
        COPSE_TRY(drop_oldest(f));
    return COPSE_OK;
}

/* ---- for processes that only read ---- */

static copse_status checkpoint_folder_find(copse_context *ctx, const char *folder,
                                           struct copse_checkpoint_folder *f)
{
    struct scan scan = { .f = f, .is_reader = true };
    COPSE_TRY(copse__checkpoint_folder_init(f, &copse__base(ctx)->mem, folder, NULL, 0));
    return scan_folder(&scan, folder);
}

copse_status copse_monitor_find(copse_context *ctx, const char *folder, uint64_t from,
                                bool is_newest, struct copse_found_checkpoint *out)
{
    struct copse_checkpoint_folder f = { 0 };
    char *path = NULL;
    size_t at = 0;
    COPSE_TRY(copse_need("monitor", ctx, folder, out));
    if (!*folder)
        return copse_fail(COPSE_ERR_ARGUMENT, "monitor: finding a checkpoint needs a folder");
    copse_status s = checkpoint_folder_find(ctx, folder, &f);
    while (s == COPSE_OK && at < f.found.count && f.found.at[at] < from)
        at++;
    if (s == COPSE_OK && at == f.found.count)
        s = COPSE_ERR_END;
    if (s == COPSE_OK)
        s = copse__checkpoint_folder_path(&f, is_newest ? 0 : f.found.count - 1 - at, &path);
    if (s == COPSE_OK && strlen(path) >= sizeof out->path)
        s = copse_fail(COPSE_ERR_ARGUMENT, "monitor: the path %s is too long", path);
    if (s == COPSE_OK) {
        strcpy(out->path, path);
        out->progress = f.found.at[is_newest ? f.found.count - 1 : at];
    }
    copse__free(&copse__base(ctx)->mem, path);
    copse__checkpoint_folder_fini(&f);
    return s;
}
