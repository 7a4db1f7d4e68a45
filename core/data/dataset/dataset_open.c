/* SPDX-License-Identifier: MIT */
/* Opens datasets: of one source, or of the rows of several files. */
#include "copse/data/source.h"
#include "core/data/dataset/dataset.h"

static void dataset_open_release(struct copse_source_arrays *a)
{
    copse_array_release(&a->features);
    copse_array_release(&a->labels);
}

static size_t row_size(const copse_array *a)
{
    return a->view.rank > 0 && a->view.shape[0] > 0 ? a->count / a->view.shape[0] : 0;
}

/* Rows of both have the same shape. */
static bool is_alike(const copse_array *a, const copse_array *b)
{
    return a->view.rank == b->view.rank && a->view.rank > 0 &&
           memcmp(a->view.shape + 1, b->view.shape + 1,
                  (a->view.rank - 1) * sizeof *a->view.shape) == 0;
}

static copse_status read_parts(copse_context *ctx, const char *const *paths, size_t count,
                               const struct copse_dataset_params *params,
                               struct copse_source_arrays *parts)
{
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY(copse__source_read(ctx, paths[i], params, &parts[i]));
        const struct copse_source_arrays *a = &parts[0], *b = &parts[i];
        if (i > 0 && !is_alike(a->features, b->features))
            return copse_fail(COPSE_ERR_SHAPE,
                              "dataset: %s: a row has %zu numbers and %u axes, in %s %zu and %u",
                              paths[i], row_size(b->features), b->features->view.rank - 1, paths[0],
                              row_size(a->features), a->features->view.rank - 1);
        if ((a->labels == NULL) != (b->labels == NULL))
            return copse_fail(COPSE_ERR_SHAPE, "dataset: %s has labels, %s has none",
                              a->labels ? paths[0] : paths[i], a->labels ? paths[i] : paths[0]);
        if (i > 0 && a->labels != NULL &&
            (!is_alike(a->labels, b->labels) ||
             b->labels->view.shape[0] != b->features->view.shape[0]))
            return copse_fail(COPSE_ERR_SHAPE,
                              "dataset: %s: labels and features differ in number or shape",
                              paths[i]);
    }
    return COPSE_OK;
}

/* The rows of all arrays. `others`: elements of arrays of different types become this type. */
static copse_status dataset_open_join(copse_context *ctx, copse_array *const *parts, size_t count,
                                      copse_type others, copse_array **out)
{
    copse_type type = parts[0]->view.type;
    size_t shape[COPSE_ARRAY_MAX_RANK], numbers, bytes, at = 0;

    memcpy(shape, parts[0]->view.shape, sizeof shape);
    shape[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i]->view.type != type)
            type = others;
        if (!copse__add(shape[0], parts[i]->view.shape[0], &shape[0]))
            return copse_fail(COPSE_ERR_SHAPE, "dataset: too many rows");
    }
    if (!copse__shape_size(parts[0]->view.rank, shape, sizeof(double), &numbers, &bytes))
        return copse_fail(COPSE_ERR_SHAPE, "dataset: too many rows");
    COPSE_TRY(copse__array_create(ctx, type, parts[0]->view.rank, shape, NULL, out));
    for (size_t i = 0; i < count; at += parts[i++]->count) {
        const struct copse_array_view *from = &parts[i]->view;
        if (from->type == type)
            memcpy((char *)(*out)->data + at * copse_type_size(type), from->data, parts[i]->bytes);
        for (size_t k = 0; from->type != type && k < parts[i]->count; k++) {
            const double v = copse__type_load(from->type, from->data, k);
            if (type == COPSE_F32)
                ((float *)(*out)->data)[at + k] = (float)v;
            else
                ((double *)(*out)->data)[at + k] = v;
        }
    }
    return COPSE_OK;
}

static copse_status join_parts(copse_context *ctx, struct copse_source_arrays *parts, size_t count,
                               struct copse_source_arrays *out)
{
    copse_array **list = copse__alloc(&copse__base(ctx)->mem, count, sizeof(copse_array *));
    copse_status s =
        list != NULL ? COPSE_OK
                     : copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory for %zu files", count);

    for (size_t i = 0; s == COPSE_OK && i < count; i++) {
        list[i] = parts[i].features;
    }
    if (s == COPSE_OK)
        s = dataset_open_join(ctx, list, count, COPSE_F32, &out->features);
    for (size_t i = 0; s == COPSE_OK && i < count; i++)
        list[i] = parts[i].labels;
    if (s == COPSE_OK && parts[0].labels != NULL)
        s = dataset_open_join(ctx, list, count, COPSE_F64, &out->labels);
    copse__free(&copse__base(ctx)->mem, list);
    return s;
}

static copse_status dataset_open_make(copse_context *ctx, struct copse_source_arrays *a,
                                      const struct copse_dataset_params *params, const char *name,
                                      copse_dataset **out)
{
    return copse__dataset_make(ctx, copse_array_view(a->features), a->features,
                               a->labels != NULL ? copse_array_view(a->labels) : NULL, params, name,
                               out);
}

static copse_status open_arrays(copse_context *ctx, const char *const *paths, size_t count,
                                const struct copse_dataset_params *params, copse_dataset **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    struct copse_source_arrays *parts = copse__alloc(mem, count, sizeof *parts),
                               all = { .features = NULL };

    if (parts == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory for %zu files", count);
    copse_status s = read_parts(ctx, paths, count, params, parts);
    if (s == COPSE_OK && count == 1)
        s = dataset_open_make(ctx, &parts[0], params, paths[0], out);
    else if (s == COPSE_OK)
        s = join_parts(ctx, parts, count, &all);
    for (size_t i = 0; i < count; i++) /* before more memory is allocated */
        dataset_open_release(&parts[i]);
    if (s == COPSE_OK && count > 1)
        s = dataset_open_make(ctx, &all, params, "files", out);
    dataset_open_release(&all);
    copse__free(mem, parts);
    return s;
}

/* Tables are read together, so that they have one schema. */
static copse_status open_tables(copse_context *ctx, const char *const *paths, size_t count,
                                const struct copse_dataset_params *params, copse_dataset **out)
{
    copse_array *labels = NULL;

    if (params->labels != NULL)
        COPSE_TRY(copse__source_labels(ctx, params, &labels));
    const copse_status s = copse__dataset_table(ctx, paths, count, labels, params, out);
    copse_array_release(&labels);
    return s;
}

static copse_status open_text(copse_context *ctx, const char *const *paths, size_t count,
                              const struct copse_dataset_params *params, copse_dataset **out)
{
    struct copse_text t;

    if (count > 1)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "dataset: a text is one file, not %zu", count);
    COPSE_TRY(copse__text_read(ctx, paths[0], params->max_bytes, &t));
    const copse_status s = copse__dataset_text(ctx, &t, params, out);
    copse__text_fini(ctx, &t);
    return s;
}

static const struct source_kind {
    copse_status (*open)(copse_context *ctx, const char *const *paths, size_t count,
                         const struct copse_dataset_params *params, copse_dataset **out);
    const char *differs; /* what is wrong with a file of another kind */
} kinds[COPSE_SOURCE_KINDS] = {
    [COPSE_SOURCE_TABLE] = { open_tables, "not CSV" },
    [COPSE_SOURCE_ARRAYS] = { open_arrays, "neither IDX nor .npy" },
    [COPSE_SOURCE_PICTURES] = { copse__dataset_pictures, "no picture" },
    [COPSE_SOURCE_TEXT] = { open_text, "no text" },
};

copse_status copse__dataset_join(copse_context *ctx, const char *const *paths, size_t count,
                                 const struct copse_dataset_params *params, copse_dataset **out)
{
    enum copse_source_kind kind, other;

    *out = NULL;
    if (params->labels != NULL && count > 1)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: one file of labels, %s, for %zu files of features",
                          params->labels, count);
    COPSE_TRY(copse__source_kind(ctx, paths[0], params, &kind));
    if (kind != COPSE_SOURCE_PICTURES && params->source != NULL && params->source->resize != NULL)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: resize is for pictures, and %s contains none", paths[0]);
    for (size_t i = 1; i < count; i++) {
        COPSE_TRY(copse__source_kind(ctx, paths[i], params, &other));
        if (other != kind)
            return copse_fail(COPSE_ERR_FORMAT, "dataset: %s is %s, as the files before it are",
                              paths[i], kinds[kind].differs);
    }
    return kinds[kind].open(ctx, paths, count, params, out);
}

copse_status copse_dataset_open(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *params, copse_dataset **out)
{
    COPSE_TRY(copse_need("dataset", ctx, path, out));
    static const struct copse_dataset_params defaults = { 0 };
    const struct copse_dataset_params *p = params != NULL ? params : &defaults;

    *out = NULL;
    COPSE_TRY(copse__dataset_no_reserved(params));
    if (p->labels != NULL && p->no_labels)
        return copse_fail(COPSE_ERR_ARGUMENT, "dataset: labels and no_labels are both given");
    return copse__dataset_join(ctx, &path, 1, p, out);
}
