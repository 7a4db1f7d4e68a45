/* SPDX-License-Identifier: MIT */
/* What a path leads to; sources of a dataset as arrays: a .npy or IDX file, or a folder with an IDX
   pair. */
#include "copse/data/source.h"
#include "copse/data/readers.h"

#include "core/base/files.h"
#include "core/base/platform.h"
#include "core/data/dataset/dataset.h"
#include "core/data/reader/byte_stream.h"

/* Position of "images", followed by "idx3", in the last component of a path; NULL if absent. */
static const char *images_word(const char *path)
{
    const char *name = path;

    for (const char *c = path; *c != 0; c++)
        if (*c == '/' || *c == '\\')
            name = c + 1;
    const char *word = strstr(name, "images");
    return word != NULL && strstr(word, "idx3") != NULL ? word : NULL;
}

static bool source_exists(const char *path)
{
    FILE *stream;
    uint64_t size;

    if (copse__file_open(path, &stream, &size) != COPSE_OK)
        return false;
    fclose(stream);
    return true;
}

/* FOLDER/NAME. */
static char *source_join(struct copse_mem *mem, const char *folder, const char *name)
{
    size_t room = strlen(folder) + strlen(name) + 2;

    char *path = copse__alloc(mem, room, 1);
    if (path != NULL)
        snprintf(path, room, "%s%s%s", folder, copse__path_ends(folder, "/") ? "" : "/", name);
    return path;
}

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
}

/* The label file in the folder of `images`, a path with an images_word; *found: whether it
   exists. */
static copse_status find_labels(struct copse_mem *mem, const char *images, char **labels,
                                bool *found)
{
    size_t size = strlen(images);

    char *path = copse__alloc(mem, size + sizeof ".gz", 1);
    if (path == NULL)
        return no_memory();
    strcpy(path, images);
    /* in place: the words have equal length */
    char *word = path + (images_word(images) - images);
    memcpy(word, "labels", 6);
    strstr(word, "idx3")[3] = '1';
    *found = source_exists(path);
    if (!*found) { /* one of the two may be decompressed */
        if (copse__path_ends(path, ".gz"))
            path[size - 3] = 0;
        else
            strcpy(path + size, ".gz");
        *found = source_exists(path);
    }
    *labels = path;
    return COPSE_OK;
}

/* Best image file so far in a folder. */
struct search {
    struct copse_mem *mem;
    const char *folder;
    bool want_labels;
    char *images, *labels; /* paths; NULL if absent */
    int rank;
    copse_status status;
};

static bool source_consider(void *user, const char *name)
{
    struct search *best = user;
    char *images, *labels = NULL;
    bool is_pair = false;

    if (name[0] == '.' || images_word(name) == NULL)
        return true;
    images = source_join(best->mem, best->folder, name);
    if (images == NULL)
        best->status = no_memory();
    else if (best->want_labels)
        best->status = find_labels(best->mem, images, &labels, &is_pair);
    if (best->status == COPSE_OK) {
        int rank = (is_pair ? 4 : 0) + (strncmp(name, "train", 5) == 0 ? 2 : 0) +
                   (copse__path_ends(name, ".gz") ? 0 : 1);
        if (best->images == NULL || rank > best->rank ||
            (rank == best->rank && strcmp(images, best->images) < 0)) {
            char *worse[] = { best->images, best->labels };
            best->images = images;
            best->labels = labels;
            best->rank = rank;
            images = worse[0];
            labels = worse[1];
        }
    }
    copse__free(best->mem, images);
    copse__free(best->mem, labels);
    return best->status == COPSE_OK;
}

static copse_status read_any(copse_context *ctx, const char *path, uint64_t max_bytes,
                             enum copse_file_kind kind, copse_array **out)
{
    struct copse_read_params params = { .max_bytes = max_bytes };

    return kind == COPSE_FILE_NPY ? copse_read_npy(ctx, path, &params, out)
                                  : copse_read_idx(ctx, path, &params, out);
}

copse_status copse__source_labels(copse_context *ctx, const struct copse_dataset_params *p,
                                  copse_array **out)
{
    enum copse_file_kind kind;

    COPSE_TRY(copse__file_kind(&copse__base(ctx)->mem, p->labels, &kind));
    if (kind == COPSE_FILE_CSV)
        return copse_fail(COPSE_ERR_FORMAT, "dataset: %s is neither IDX nor .npy", p->labels);
    return read_any(ctx, p->labels, p->max_bytes, kind, out);
}

/* Until an image file of an IDX pair is found. */
static bool find_images(void *user, const char *name)
{
    *(bool *)user = name[0] != '.' && images_word(name) != NULL;
    return !*(bool *)user;
}

copse_status copse__source_kind(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *params,
                                enum copse_source_kind *out)
{
    enum copse_file_kind kind;
    bool is_found = false;

    *out = COPSE_SOURCE_TEXT;
    if ((params->schema != NULL && params->schema->is.kind == COPSE_DATA_TEXT) ||
        (params->source != NULL && params->source->text != NULL))
        return COPSE_OK;
    if (copse__is_directory(path)) {
        COPSE_TRY(copse__folder_list(path, find_images, &is_found));
        *out = is_found ? COPSE_SOURCE_ARRAYS : COPSE_SOURCE_PICTURES;
        return COPSE_OK;
    }
    COPSE_TRY(copse__picture_is(path, &is_found));
    *out = COPSE_SOURCE_PICTURES;
    if (is_found)
        return COPSE_OK;
    COPSE_TRY(copse__file_kind(&copse__base(ctx)->mem, path, &kind));
    *out = kind == COPSE_FILE_CSV ? COPSE_SOURCE_TABLE : COPSE_SOURCE_ARRAYS;
    return COPSE_OK;
}

static copse_status read_file(copse_context *ctx, const char *path,
                              const struct copse_dataset_params *p, struct copse_source_arrays *out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    enum copse_file_kind kind;
    char *labels;
    bool found;

    COPSE_TRY(copse__file_kind(mem, path, &kind));
    COPSE_TRY(read_any(ctx, path, p->max_bytes, kind, &out->features));
    if (p->labels != NULL)
        return copse__source_labels(ctx, p, &out->labels);
    if (kind != COPSE_FILE_IDX || p->no_labels || images_word(path) == NULL)
        return COPSE_OK;
    COPSE_TRY(find_labels(mem, path, &labels, &found));
    copse_status s = COPSE_OK;
    if (found)
        s = read_any(ctx, labels, p->max_bytes, COPSE_FILE_IDX, &out->labels);
    copse__free(mem, labels);
    return s;
}

/* `labels` is the last name tried, with or without ".gz". */
static copse_status no_pair(const char *images, const char *labels)
{
    size_t size = strlen(labels) - (copse__path_ends(labels, ".gz") ? 3 : 0);

    return copse_fail(COPSE_ERR_IO,
                      "dataset: %s has no labels: no readable file %.*s, nor one with .gz", images,
                      (int)size, labels);
}

static copse_status read_folder(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *p,
                                struct copse_source_arrays *out)
{
    struct search best = { .mem = &copse__base(ctx)->mem,
                           .folder = path,
                           .want_labels = p->labels == NULL && !p->no_labels,
                           .status = COPSE_OK };

    copse_status s = copse__folder_list(path, source_consider, &best);
    if (s == COPSE_OK)
        s = best.status;
    if (s == COPSE_OK && best.images == NULL)
        s = copse_fail(COPSE_ERR_IO, "dataset: the folder %s changed while it was read", path);
    if (s == COPSE_OK)
        s = read_any(ctx, best.images, p->max_bytes, COPSE_FILE_IDX, &out->features);
    if (s == COPSE_OK && p->labels != NULL)
        s = copse__source_labels(ctx, p, &out->labels);
    else if (s == COPSE_OK && best.want_labels)
        s = best.rank >= 4 ? read_any(ctx, best.labels, p->max_bytes, COPSE_FILE_IDX, &out->labels)
                           : no_pair(best.images, best.labels);
    copse__free(best.mem, best.images);
    copse__free(best.mem, best.labels);
    return s;
}

copse_status copse__source_read(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *params,
                                struct copse_source_arrays *out)
{
    *out = (struct copse_source_arrays){ .features = NULL };
    return copse__is_directory(path) ? read_folder(ctx, path, params, out)
                                     : read_file(ctx, path, params, out);
}
