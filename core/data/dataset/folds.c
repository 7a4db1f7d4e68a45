/* SPDX-License-Identifier: MIT */
/* Folds of a dataset: row p of the shuffled rows, with `stratify` grouped by class, is in fold
   p % folds. */
#include "copse/data/folds.h"

#include "core/data/dataset/dataset.h"

static copse_status check_fold(const copse_dataset *data, const struct copse_fold_params *p)
{
    COPSE_TRY(copse_no_reserved(copse_fold_params, p));
    if (p->folds < 2 || p->folds > data->info.rows || p->fold >= p->folds)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "dataset: fold %u (from 0) of %u folds of %zu rows: 2 folds to one for "
                          "each row are possible",
                          p->fold, p->folds, data->info.rows);
    return data->is_ordered ? copse_fail(COPSE_ERR_ARGUMENT,
                                         "dataset: the windows of a text overlap, so that a fold "
                                         "would share tokens with the others")
                            : COPSE_OK;
}

/* The rows grouped by label, in the order that they have. `order` becomes `to`. */
static copse_status group_rows(const copse_dataset *data, const uint32_t *order, uint32_t *to)
{
    struct copse_mem *mem = &copse__base(data->ctx)->mem;
    const size_t rows = data->info.rows;
    size_t classes = 0;
    int32_t *labels = copse__alloc(mem, rows, sizeof *labels);
    copse_status s = copse_need_memory(labels, "dataset");
    if (s == COPSE_OK)
        s = copse__dataset_classes(data, labels, &classes);
    size_t *at = s == COPSE_OK ? copse__alloc(mem, classes + 1, sizeof *at) : NULL;
    if (s == COPSE_OK)
        s = copse_need_memory(at, "dataset");
    for (size_t i = 0; s == COPSE_OK && i < rows; i++)
        at[labels[i] + 1]++;
    for (size_t i = 1; s == COPSE_OK && i <= classes; i++)
        at[i] += at[i - 1];
    for (size_t i = 0; s == COPSE_OK && i < rows; i++)
        to[at[labels[order[i]]]++] = order[i];
    copse__free(mem, at);
    copse__free(mem, labels);
    return s;
}

static copse_status fold_rows(copse_dataset *data, const struct copse_fold_params *p,
                              const uint32_t *order, uint32_t *part, copse_dataset **train,
                              copse_dataset **held_out)
{
    const size_t rows = data->info.rows;
    for (int is_held = 0; is_held < 2; is_held++) {
        size_t count = 0;
        for (size_t i = 0; i < rows; i++)
            if ((i % p->folds == p->fold) == is_held)
                part[count++] = order[i];
        COPSE_TRY(copse__dataset_part(data, part, count, is_held ? held_out : train));
    }
    return COPSE_OK;
}

copse_status copse_dataset_fold(copse_dataset *data, const struct copse_fold_params *params,
                                copse_dataset **train, copse_dataset **held_out)
{
    COPSE_TRY(copse_need("dataset", data, params, train, held_out));
    *train = *held_out = NULL;
    COPSE_TRY(check_fold(data, params));
    struct copse_mem *mem = &copse__base(data->ctx)->mem;
    const size_t rows = data->info.rows;
    uint32_t *order = copse__alloc(mem, 2 * rows, sizeof *order);
    COPSE_TRY(copse_need_memory(order, "dataset"));
    uint32_t *other = order + rows;
    copse_status s = COPSE_OK;
    copse__shuffle(params->stratify ? other : order, (uint32_t)rows, params->seed,
                   COPSE_STREAM_SPLIT);
    if (params->stratify)
        s = group_rows(data, other, order);
    if (s == COPSE_OK)
        s = fold_rows(data, params, order, other, train, held_out);
    copse__free(mem, order);
    if (s != COPSE_OK)
        copse_dataset_release(train);
    return s;
}
