/* SPDX-License-Identifier: MIT */
/* Makes one dataset from the rows of several files. */
#include "core/data/dataset.h"

static copse_status open_parts(copse_context *ctx, const char *const *paths, size_t count,
                               const struct copse_dataset_params *params, copse_dataset **parts,
                               size_t *rows)
{
    struct copse_dataset_params read = *params;

    read.scale = COPSE_SCALE_NONE; /* the largest magnitude of all files is not yet known */
    *rows = 0;
    for (size_t i = 0; i < count; i++) {
        COPSE_TRY(copse_dataset_open(ctx, paths[i], &read, &parts[i]));
        const struct copse_dataset_info *a = &parts[0]->info, *b = &parts[i]->info;
        if (a->rank != b->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0)
            return copse_fail(COPSE_ERR_SHAPE,
                              "dataset: %s: a row has %zu numbers and %u axes, in %s %zu and %u",
                              paths[i], b->row_size, b->rank, paths[0], a->row_size, a->rank);
        if (a->has_labels != b->has_labels)
            return copse_fail(COPSE_ERR_SHAPE, "dataset: %s has labels, %s has none",
                              a->has_labels ? paths[0] : paths[i],
                              a->has_labels ? paths[i] : paths[0]);
        if (!copse__add(*rows, b->rows, rows))
            return copse_fail(COPSE_ERR_SHAPE, "dataset: too many rows");
    }
    return COPSE_OK;
}

/* Column `c` of all parts. */
static copse_status join_column(copse_context *ctx, copse_dataset **parts, size_t count, size_t rows, size_t c,
                                copse_array **out)
{
    const struct copse_array_view *first = copse_array_view(parts[0]->columns[c].values);
    size_t shape[COPSE_ARRAY_MAX_RANK], numbers, bytes;

    memcpy(shape, first->shape, sizeof shape);
    shape[0] = rows;
    if (!copse__shape_size(first->rank, shape, sizeof(double), &numbers, &bytes))
        return copse_fail(COPSE_ERR_SHAPE, "dataset: too many rows");
    COPSE_TRY(copse__array_create(ctx, first->type, first->rank, shape, NULL, out));
    char *to = (*out)->data;
    for (size_t i = 0; i < count; i++) {
        copse__dataset_gather(parts[i], c, NULL, parts[i]->info.rows, to);
        to += parts[i]->info.rows * parts[i]->columns[c].row_bytes;
    }
    return COPSE_OK;
}

static copse_status join(copse_context *ctx, copse_dataset **parts, size_t count, size_t rows,
                         const struct copse_dataset_params *params, copse_dataset **out)
{
    const bool has_labels = parts[0]->info.has_labels;
    copse_array *features = NULL, *labels = NULL;
    copse_status s = join_column(ctx, parts, count, rows, 0, &features);
    if (s == COPSE_OK && has_labels)
        s = join_column(ctx, parts, count, rows, 1, &labels);
    for (size_t i = 0; i < count; i++) /* before more memory is allocated */
        copse_dataset_release(&parts[i]);
    if (s == COPSE_OK)
        s = copse__dataset_make(ctx, copse_array_view(features), features,
                                labels != NULL ? copse_array_view(labels) : NULL, params, "files", out);
    copse_array_release(&features);
    copse_array_release(&labels);
    return s;
}

copse_status copse__dataset_join(copse_context *ctx, const char *const *paths, size_t count,
                                 const struct copse_dataset_params *params, copse_dataset **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    size_t rows;

    *out = NULL;
    if (count == 1)
        return copse_dataset_open(ctx, paths[0], params, out);
    if (params->labels != NULL)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: one file of labels, %s, for %zu files of features",
                          params->labels, count);
    copse_dataset **parts = copse__alloc(mem, count, sizeof(copse_dataset *));
    if (parts == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory for %zu files", count);
    copse_status s = open_parts(ctx, paths, count, params, parts, &rows);
    if (s == COPSE_OK)
        s = join(ctx, parts, count, rows, params, out);
    for (size_t i = 0; i < count; i++)
        copse_dataset_release(&parts[i]);
    copse__free(mem, parts);
    return s;
}
