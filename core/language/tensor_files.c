/* SPDX-License-Identifier: MIT */
/* The weights of a folder: see tensor_files.h. */
#include "core/language/tensor_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/files.h"
#include "core/base/half.h"
#include "core/base/platform.h"
#include "core/data/array.h"
#include "core/data/reader/json_walk.h"
#include "core/state/safetensors.h"

#define ONE       "model.safetensors"
#define INDEX     "model.safetensors.index.json"
#define INDEX_MAX ((uint64_t)64 << 20) /* bytes */
#define FILES_MAX 1024u

char *copse__path_beside(struct copse_mem *mem, const char *path, bool is_folder, const char *name)
{
    const size_t folder = is_folder ? strlen(path) : (size_t)(copse__path_name(path) - path);
    const bool needs_slash = is_folder && folder > 0 && path[folder - 1] != '/';
    const size_t room = folder + strlen(name) + 2;
    char *out = copse__alloc(mem, room, 1);
    if (out)
        snprintf(out, room, "%.*s%s%s", (int)folder, path, needs_slash ? "/" : "", name);
    return out;
}

/* ---- files ---- */

/* `path` lives in the arena. */
static copse_status add_file(struct copse_tensor_files *f, copse_context *ctx, const char *path)
{
    COPSE_TRY(copse_checkpoint_open(ctx, path, &f->files[f->file_count]));
    f->paths[f->file_count++] = path;
    return COPSE_OK;
}

static copse_status make_room(struct copse_tensor_files *f, size_t files)
{
    f->files = copse__arena_alloc(&f->arena, files, sizeof *f->files);
    f->paths = copse__arena_alloc(&f->arena, files, sizeof *f->paths);
    return copse_need_memory(f->files && f->paths, "weights");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct copse_tensor_entry *)a)->name,
                  ((const struct copse_tensor_entry *)b)->name);
}

/* The tensors of all files, sorted. */
static copse_status list_tensors(struct copse_tensor_files *f)
{
    size_t count, all = 0;
    for (size_t i = 0; i < f->file_count; i++, all += count)
        copse_checkpoint_arrays(f->files[i], &count);
    f->entries = copse__arena_alloc(&f->arena, all, sizeof *f->entries);
    if (!f->entries)
        return copse_no_memory("weights: %zu tensors", all);
    for (uint32_t i = 0; i < f->file_count; i++) {
        const struct copse_named_array *list = copse_checkpoint_arrays(f->files[i], &count);
        for (size_t k = 0; k < count; k++)
            f->entries[f->count++] =
                (struct copse_tensor_entry){ list[k].name, &list[k].array, i, k };
    }
    if (f->count > 1)
        qsort(f->entries, f->count, sizeof *f->entries, by_name);
    for (size_t i = 1; i < f->count; i++)
        if (strcmp(f->entries[i - 1].name, f->entries[i].name) == 0)
            return copse_fail(COPSE_ERR_FORMAT, "%s has the tensor \"%.200s\", which %s has too",
                              f->paths[f->entries[i].file], f->entries[i].name,
                              copse__path_name(f->paths[f->entries[i - 1].file]));
    return COPSE_OK;
}

/* ---- the index ---- */

struct index_reading {
    struct copse_tensor_files *f;
    copse_context *ctx;
    const char *path; /* of the index */
    size_t tensors;
    uint32_t last; /* the file of the tensor before */
};

/* A name of a file in the folder of the index. */
static bool is_plain(const char *name)
{
    static const char ending[] = ".safetensors";
    const size_t size = strlen(name), n = sizeof ending - 1;
    return size > n && strcmp(name + size - n, ending) == 0 && !strpbrk(name, "/\\:") &&
           *name != '.';
}

/* Open a file of the index, unless it is open. */
static copse_status index_file(struct index_reading *r, const char *name)
{
    struct copse_tensor_files *f = r->f;
    if (r->last < f->file_count && strcmp(copse__path_name(f->paths[r->last]), name) == 0)
        return COPSE_OK;
    for (r->last = 0; r->last < f->file_count; r->last++)
        if (strcmp(copse__path_name(f->paths[r->last]), name) == 0)
            return COPSE_OK;
    if (!is_plain(name))
        return copse_fail(COPSE_ERR_FORMAT,
                          "%s: \"%.200s\" is no name of a .safetensors file in its folder", r->path,
                          name);
    if (f->file_count == FILES_MAX)
        return copse_fail(COPSE_ERR_FORMAT, "%s names more than %u files", r->path, FILES_MAX);
    char *beside = copse__path_beside(f->mem, r->path, false, name),
         *path = beside ? copse__arena_strdup(&f->arena, beside) : NULL;
    copse__free(f->mem, beside);
    return path ? add_file(f, r->ctx, path) : copse_no_memory("weights: %s", r->path);
}

static copse_status open_named(void *user, const struct copse_json_item *item)
{
    struct index_reading *r = user;
    char *name = copse__json_string(item->value, item->size);
    const copse_status s =
        name ? index_file(r, name)
             : copse_fail(COPSE_ERR_FORMAT, "%s: the file of \"%.200s\" is no text", r->path,
                          item->name);
    cJSON_free(name);
    r->tensors++;
    return s;
}

/* The tensor is where the index says. */
static copse_status check_named(void *user, const struct copse_json_item *item)
{
    struct index_reading *r = user;
    const struct copse_tensor_entry *e = copse__tensor_files_find(r->f, item->name);
    char *name = copse__json_string(item->value, item->size);
    const bool is_there = name && e && strcmp(copse__path_name(r->f->paths[e->file]), name) == 0;
    const copse_status s =
        is_there ? COPSE_OK
                 : copse_fail(COPSE_ERR_FORMAT, "%s: \"%.100s\" has no tensor \"%.200s\"", r->path,
                              name ? name : "", item->name);
    cJSON_free(name);
    return s;
}

static copse_status walk_index(struct index_reading *r, const char *text, size_t size)
{
    static const char *const name = "weight_map";
    struct copse_json whole = { "", r->path, ": this is no index of tensors", text, size, 0 };
    struct copse_json_item map;
    COPSE_TRY(copse__json_pick(whole, &name, 1, &map));
    if (!map.value)
        return copse__json_wrong(&whole);
    whole.text = map.value;
    whole.size = map.size;
    struct copse_json again = whole;
    COPSE_TRY(make_room(r->f, FILES_MAX));
    COPSE_TRY(copse__json_members(&whole, open_named, r));
    COPSE_TRY(list_tensors(r->f));
    COPSE_TRY(copse__json_members(&again, check_named, r));
    return r->tensors == r->f->count
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "%s names %zu tensors; its files have %zu", r->path,
                            r->tensors, r->f->count);
}

static copse_status open_index(struct copse_tensor_files *f, copse_context *ctx, const char *path)
{
    struct index_reading r = { .f = f, .ctx = ctx, .path = path };
    char *text;
    size_t size;
    COPSE_TRY(copse__json_load(f->mem, path, INDEX_MAX, &text, &size));
    const copse_status s = walk_index(&r, text, size);
    copse__free(f->mem, text);
    return s;
}

/* ---- all ---- */

static copse_status open_one(struct copse_tensor_files *f, copse_context *ctx, const char *path)
{
    const char *own = copse__arena_strdup(&f->arena, path);
    COPSE_TRY(copse_need_memory(own, "weights: %s", path));
    COPSE_TRY(make_room(f, 1));
    COPSE_TRY(add_file(f, ctx, own));
    return list_tensors(f);
}

copse_status copse__tensor_files_open(struct copse_tensor_files *f, copse_context *ctx,
                                      const char *path, bool is_folder)
{
    uint64_t size;
    f->mem = f->arena.mem = &copse__base(ctx)->mem;
    if (!is_folder)
        return open_one(f, ctx, path);
    char *one = copse__path_beside(f->mem, path, true, ONE),
         *index = copse__path_beside(f->mem, path, true, INDEX);
    copse_status s = copse_need_memory(one && index, "weights: %s", path);
    if (s == COPSE_OK && copse__file_size(one, &size) == COPSE_OK)
        s = open_one(f, ctx, one);
    else if (s == COPSE_OK && copse__file_size(index, &size) == COPSE_OK)
        s = open_index(f, ctx, index);
    else if (s == COPSE_OK)
        s = copse_fail(COPSE_ERR_IO, "%s has neither " ONE " nor " INDEX, path);
    copse__free(f->mem, one);
    copse__free(f->mem, index);
    return s;
}

void copse__tensor_files_end(struct copse_tensor_files *f)
{
    for (size_t i = 0; i < f->file_count; i++)
        copse_checkpoint_release(&f->files[i]);
    if (f->mem)
        copse__arena_fini(&f->arena);
    *f = (struct copse_tensor_files){ .mem = NULL };
}

const struct copse_tensor_entry *copse__tensor_files_find(const struct copse_tensor_files *f,
                                                          const char *name)
{
    const struct copse_tensor_entry key = { .name = name };
    return bsearch(&key, f->entries, f->count, sizeof *f->entries, by_name);
}

copse_status copse__tensor_files_read(struct copse_tensor_files *f,
                                      const struct copse_tensor_entry *e, float *values)
{
    const copse_type type = e->array->type;
    size_t count = 1;
    for (uint32_t i = 0; i < e->array->rank; i++)
        count *= e->array->shape[i];
    if (type == COPSE_F32)
        return copse__checkpoint_copy(f->files[e->file], e->place, values);
    if (type != COPSE_F16 && type != COPSE_BF16)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: the tensor \"%.200s\" is %s; f32, f16 and bf16 are read",
                          f->paths[e->file], e->name, copse_type_name(type));
    /* the halves are read to the end of the memory, and become floats from the first one on */
    unsigned char *half = (unsigned char *)values + 2 * count;
    COPSE_TRY(copse__checkpoint_copy(f->files[e->file], e->place, half));
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, half + 2 * i, 2);
        values[i] = type == COPSE_F16 ? copse__f16_to_f32(bits) : copse__bf16_to_f32(bits);
    }
    return COPSE_OK;
}
