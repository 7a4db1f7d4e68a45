/* SPDX-License-Identifier: MIT */
/* Where a dataset comes from: a CSV, .npy or IDX file, or a folder with an IDX pair. */
#include "core/base/files.h"
#include "core/base/platform.h"
#include "core/data/dataset.h"
#include "core/data/input.h"

#define NAME_ROOM 256

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Best file of images so far. */
struct search {
    char name[NAME_ROOM];
};

static int rank_of(const char *name)
{
    return (strncmp(name, "train", 5) == 0 ? 2 : 0) + (ends_with(name, ".gz") ? 0 : 1);
}

static bool consider(void *user, const char *name)
{
    struct search *best = user;

    if (strlen(name) >= NAME_ROOM - 8 || name[0] == '.')
        return true;
    const char *images = strstr(name, "images");
    if (images == NULL || strstr(images, "idx3") == NULL)
        return true;
    int difference = rank_of(name) - rank_of(best->name);
    if (best->name[0] == 0 || difference > 0 || (difference == 0 && strcmp(name, best->name) < 0))
        strcpy(best->name, name);
    return true;
}

/* "labels" for "images", "idx1" for "idx3" in place: the words have the same length. */
static void to_label_name(char *name)
{
    char *images = strstr(name, "images");

    memcpy(images, "labels", 6);
    memcpy(strstr(images, "idx3") + 3, "1", 1);
}

static bool exists(const char *path)
{
    FILE *stream;
    uint64_t size;

    if (copse__file_open(path, &stream, &size) != COPSE_OK)
        return false;
    fclose(stream);
    return true;
}

/* FOLDER/NAME with room for ".gz". */
static char *join(struct copse_mem *mem, const char *folder, const char *name)
{
    size_t room = strlen(folder) + strlen(name) + 5;

    char *path = copse__alloc(mem, room, 1);
    if (path != NULL)
        snprintf(path, room, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", name);
    return path;
}

static copse_status read_any(copse_context *ctx, const char *path, uint64_t max_bytes,
                             enum copse_file_kind kind, copse_array **out)
{
    struct copse_read_params params = { .max_bytes = max_bytes };

    return kind == COPSE_FILE_NPY ? copse_read_npy(ctx, path, &params, out)
                                  : copse_read_idx(ctx, path, &params, out);
}

struct arrays {
    copse_array *features, *labels;
};

static copse_status read_labels(copse_context *ctx, const char *path, uint64_t max_bytes,
                                copse_array **out)
{
    enum copse_file_kind kind;

    COPSE_TRY(copse__file_kind(&copse__base(ctx)->mem, path, &kind));
    if (kind == COPSE_FILE_CSV)
        return copse_fail(COPSE_ERR_FORMAT, "dataset: %s is neither IDX nor .npy", path);
    return read_any(ctx, path, max_bytes, kind, out);
}

static copse_status read_file(copse_context *ctx, const char *path,
                              const struct copse_dataset_params *p, struct arrays *out)
{
    enum copse_file_kind kind;

    COPSE_TRY(copse__file_kind(&copse__base(ctx)->mem, path, &kind));
    if (kind == COPSE_FILE_CSV) {
        struct copse_csv_params csv = p->csv;
        csv.classes = p->classes;
        csv.max_bytes = p->max_bytes;
        COPSE_TRY(copse_read_csv(ctx, path, &csv, &out->features,
                                 p->no_labels || p->labels != NULL ? NULL : &out->labels));
    } else {
        COPSE_TRY(read_any(ctx, path, p->max_bytes, kind, &out->features));
    }
    return p->labels != NULL ? read_labels(ctx, p->labels, p->max_bytes, &out->labels) : COPSE_OK;
}

static copse_status read_folder(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *p, struct arrays *out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    struct search best = { .name = "" };
    char *images, *labels;

    COPSE_TRY(copse__folder_list(path, consider, &best));
    if (best.name[0] == 0)
        return copse_fail(COPSE_ERR_IO,
                          "dataset: the folder %s has no IDX pair *images*idx3* and *labels*idx1*",
                          path);
    images = join(mem, path, best.name);
    to_label_name(best.name);
    labels = join(mem, path, best.name);
    copse_status s = images != NULL && labels != NULL
                         ? COPSE_OK
                         : copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    if (s == COPSE_OK)
        s = read_any(ctx, images, p->max_bytes, COPSE_FILE_IDX, &out->features);
    if (s == COPSE_OK && p->labels != NULL) {
        s = read_labels(ctx, p->labels, p->max_bytes, &out->labels);
    } else if (s == COPSE_OK && !p->no_labels) {
        if (!exists(labels)) { /* one of the two may be unpacked */
            if (ends_with(labels, ".gz"))
                labels[strlen(labels) - 3] = 0;
            else
                strcat(labels, ".gz");
        }
        s = read_any(ctx, labels, p->max_bytes, COPSE_FILE_IDX, &out->labels);
    }
    copse__free(mem, images);
    copse__free(mem, labels);
    return s;
}

copse_status copse_dataset_open(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *params, copse_dataset **out)
{
    static const struct copse_dataset_params defaults = { 0 };
    const struct copse_dataset_params *p = params != NULL ? params : &defaults;
    struct arrays read = { NULL, NULL };

    *out = NULL;
    if (path == NULL || (p->labels != NULL && p->no_labels))
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: %s",
                          path == NULL ? "the path is missing"
                                       : "labels and no_labels are both given");
    copse_status s = copse__is_directory(path) ? read_folder(ctx, path, p, &read)
                                               : read_file(ctx, path, p, &read);
    if (s == COPSE_OK)
        s = copse__dataset_make(ctx, copse_array_view(read.features), read.features,
                                read.labels != NULL ? copse_array_view(read.labels) : NULL, p, path,
                                out);
    copse_array_release(&read.features);
    copse_array_release(&read.labels);
    return s;
}
