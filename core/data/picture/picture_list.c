/* SPDX-License-Identifier: MIT */
/* Finds the picture files of a dataset: a walk over folders, classes from the names of
   sub-folders. */
#include "core/data/picture/picture_list.h"

#include <stdlib.h>

#include "core/base/files.h"
#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/data/picture/parallel.h"

#define NO_CLASS UINT32_MAX

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "pictures: no memory");
}

/* ---- a folder ---- */

/* The entries of a folder, sorted by bytes; hidden files are left out. */
struct folder {
    struct copse_mem *mem;
    struct copse_arena *arena; /* of the list */
    const char *path;
    struct names {
        const char **at; /* paths */
        size_t count, room;
    } files, folders;
    copse_status status;
};

/* "FOLDER/NAME" */
static const char *picture_list_join(struct copse_arena *arena, const char *folder,
                                     const char *name)
{
    size_t size = strlen(folder);

    while (size > 1 && folder[size - 1] == '/')
        size--;
    char *path = copse__arena_alloc(arena, size + strlen(name) + 2, 1);
    if (path == NULL)
        return NULL;
    memcpy(path, folder, size);
    path[size] = '/';
    strcpy(path + size + (folder[size - 1] != '/'), name); /* the folder may be "/" */
    return path;
}

static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

static bool take_entry(void *user, const char *name)
{
    struct folder *f = user;

    if (name[0] == '.')
        return true;
    const char *path = picture_list_join(f->arena, f->path, name);
    struct names *to = path != NULL && copse__is_directory(path) ? &f->folders : &f->files;
    if (path == NULL || !COPSE_PUSH(f->mem, to, path))
        f->status = no_memory();
    return f->status == COPSE_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void picture_list_sort(struct names *n)
{
    if (n->count > 0)
        qsort(n->at, n->count, sizeof *n->at, by_bytes);
}

static copse_status list_folder(struct folder *f)
{
    COPSE_TRY(copse__folder_list(f->path, take_entry, f));
    COPSE_TRY(f->status);
    picture_list_sort(&f->files);
    picture_list_sort(&f->folders);
    return COPSE_OK;
}

static void close_folder(struct folder *f)
{
    copse__free(f->mem, (void *)f->files.at);
    copse__free(f->mem, (void *)f->folders.at);
}

/* ---- the walk ---- */

struct walk {
    struct copse_mem *mem;
    struct copse_picture_list *list;
};

static copse_status add_file(struct walk *w, const char *path, uint32_t class)
{
    const struct copse_picture_file file = { .path = path, .class = class };

    return COPSE_PUSH(w->mem, &w->list->files, file) ? COPSE_OK : no_memory();
}

static copse_status add_class_files(struct walk *w, const struct folder *f)
{
    if (f->folders.count > 0)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "pictures: the class folder %s contains the folder %s; the pictures of a class "
            "are in one folder",
            f->path, name_of(f->folders.at[0]));
    if (f->files.count == 0)
        return copse_fail(COPSE_ERR_FORMAT, "pictures: the class folder %s contains no pictures",
                          f->path);
    if (!COPSE_PUSH(w->mem, &w->list->classes, name_of(f->path)))
        return no_memory();
    for (size_t i = 0; i < f->files.count; i++)
        COPSE_TRY(add_file(w, f->files.at[i], (uint32_t)w->list->classes.count - 1));
    return COPSE_OK;
}

static copse_status walk_class(struct walk *w, const char *path)
{
    struct folder f = { .mem = w->mem, .arena = &w->list->arena, .path = path };

    copse_status s = list_folder(&f);
    if (s == COPSE_OK)
        s = add_class_files(w, &f);
    close_folder(&f);
    return s;
}

static copse_status add_entries(struct walk *w, const struct folder *f)
{
    if (f->folders.count > 0 && f->files.count > 0)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "pictures: the file %s is beside class folders, such as %s; each picture belongs "
            "into the folder of its class, and other files elsewhere",
            f->files.at[0], name_of(f->folders.at[0]));
    if (f->folders.count == 0 && f->files.count == 0)
        return copse_fail(
            COPSE_ERR_IO,
            "dataset: the folder %s has no IDX pair *images*idx3* and *labels*idx1*, and no "
            "pictures",
            f->path);
    for (size_t i = 0; i < f->folders.count; i++)
        COPSE_TRY(walk_class(w, f->folders.at[i]));
    for (size_t i = 0; i < f->files.count; i++)
        COPSE_TRY(add_file(w, f->files.at[i], NO_CLASS));
    return COPSE_OK;
}

static copse_status walk_path(struct walk *w, const char *path)
{
    struct folder f = { .mem = w->mem, .arena = &w->list->arena };

    f.path = copse__arena_strdup(&w->list->arena, path);
    if (f.path == NULL)
        return no_memory();
    if (!copse__is_directory(path))
        return add_file(w, f.path, NO_CLASS);
    copse_status s = list_folder(&f);
    if (s == COPSE_OK)
        s = add_entries(w, &f);
    close_folder(&f);
    return s;
}

/* ---- classes ---- */

/* Sort the names and leave out repetitions; `to_class` has the class of each folder. */
static copse_status sort_classes(struct copse_picture_list *list, uint32_t *to_class)
{
    const size_t folders = list->classes.count;
    const char **sorted = copse__arena_alloc(&list->arena, folders, sizeof *sorted);
    size_t count = 0;

    if (sorted == NULL)
        return no_memory();
    memcpy(sorted, list->classes.at, folders * sizeof *sorted);
    qsort(sorted, folders, sizeof *sorted, by_bytes);
    for (size_t i = 0; i < folders; i++)
        if (i == 0 || strcmp(sorted[i], sorted[count - 1]) != 0)
            sorted[count++] = sorted[i];
    for (size_t i = 0; i < folders; i++) {
        const char **at = bsearch(&list->classes.at[i], sorted, count, sizeof *sorted, by_bytes);
        to_class[i] = (uint32_t)(at - sorted);
    }
    memcpy(list->classes.at, sorted, count * sizeof *sorted);
    list->classes.count = count;
    return COPSE_OK;
}

static copse_status set_classes(struct walk *w)
{
    struct copse_picture_list *list = w->list;

    if (list->classes.count == 0)
        return COPSE_OK;
    uint32_t *to_class = copse__arena_alloc(&list->arena, list->classes.count, sizeof *to_class);
    if (to_class == NULL)
        return no_memory();
    COPSE_TRY(sort_classes(list, to_class));
    for (size_t i = 0; i < list->files.count; i++) {
        struct copse_picture_file *file = &list->files.at[i];
        if (file->class == NO_CLASS)
            return copse_fail(COPSE_ERR_FORMAT,
                              "pictures: %s is in no class folder, other pictures are", file->path);
        file->class = to_class[file->class];
    }
    return COPSE_OK;
}

/* ---- the list ---- */

static copse_status read_header(void *user, size_t i)
{
    struct copse_picture_list *list = user;

    return copse__picture_header(&copse__base(list->ctx)->mem, list->files.at[i].path,
                                 &list->files.at[i].header);
}

static copse_status picture_list_fill(struct copse_picture_list *list, const char *const *paths,
                                      size_t count)
{
    struct walk w = { &copse__base(list->ctx)->mem, list };

    for (size_t i = 0; i < count; i++)
        COPSE_TRY(walk_path(&w, paths[i]));
    COPSE_TRY(set_classes(&w));
    if (list->files.count > UINT32_MAX)
        return copse_fail(COPSE_ERR_SHAPE, "pictures: there are %zu, at most 2^32-1 are possible",
                          list->files.count);
    return copse__parallel_for(copse__picture_threads(), list->files.count, read_header, list);
}

copse_status copse__picture_list_create(copse_context *ctx, const char *const *paths, size_t count,
                                        struct copse_picture_list **out)
{
    struct copse_picture_list *list = copse__alloc(&copse__base(ctx)->mem, 1, sizeof *list);

    *out = NULL;
    if (list == NULL)
        return no_memory();
    atomic_init(&list->refs, 1);
    list->ctx = copse_context_retain(ctx);
    list->arena.mem = &copse__base(ctx)->mem;
    const copse_status s = picture_list_fill(list, paths, count);
    if (s != COPSE_OK)
        copse__picture_list_release(&list);
    *out = list;
    return s;
}

struct copse_picture_list *copse__picture_list_retain(struct copse_picture_list *list)
{
    if (list != NULL)
        copse__ref(&list->refs);
    return list;
}

void copse__picture_list_release(struct copse_picture_list **list)
{
    struct copse_picture_list *l = *list;

    *list = NULL;
    if (l == NULL || !copse__unref(&l->refs))
        return;
    copse_context *ctx = l->ctx;
    struct copse_mem *mem = &copse__base(ctx)->mem;
    copse__free(mem, l->files.at);
    copse__free(mem, (void *)l->classes.at);
    copse__arena_fini(&l->arena);
    copse__free(mem, l);
    copse_context_release(&ctx);
}

uint32_t copse__picture_threads(void)
{
    return COPSE_MIN(copse__cpu_count(), COPSE_PICTURE_THREADS_MAX);
}
