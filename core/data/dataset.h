/* SPDX-License-Identifier: MIT */
/* Inside of a dataset, for the files of core/data. */
#ifndef COPSE_CORE_DATASET_H
#define COPSE_CORE_DATASET_H

#include "copse/data.h"
#include "core/data/array.h"

/* One column: an array of which the first axis counts the rows. */
struct copse_dataset_column {
    struct copse_column is; /* without data */
    size_t row_bytes;
    copse_array *values; /* shared by the parts of a split */
    char *name;
};

struct copse_dataset {
    copse_refs refs;
    copse_context *ctx;
    struct copse_dataset_column columns[COPSE_MAX_INPUTS];
    uint32_t *rows; /* which rows of the arrays, NULL = all in order */
    struct copse_dataset_info info;
};

/* `owner`: the array behind `features` when nobody else will use it (it may be kept and changed),
   else NULL. `labels` and `params` may be NULL. `name` stands in error texts. */
copse_status copse__dataset_make(copse_context *ctx, const struct copse_array_view *features,
                                 copse_array *owner, const struct copse_array_view *labels,
                                 const struct copse_dataset_params *params, const char *name,
                                 copse_dataset **out);

/* The rows of several files, one behind another: each is read as copse_dataset_open does. `count` >= 1. */
copse_status copse__dataset_join(copse_context *ctx, const char *const *paths, size_t count,
                                 const struct copse_dataset_params *params, copse_dataset **out);

/* Rows of column `c`, without the checks of copse_dataset_gather. */
void copse__dataset_gather(const copse_dataset *ds, size_t c, const uint32_t *rows, size_t count, void *out);

/* A permutation of 0..count-1 that depends on `count`, `seed` and `stream` alone. */
void copse__shuffle(uint32_t *rows, uint32_t count, uint64_t seed, uint32_t stream);
#define COPSE_STREAM_SPLIT UINT32_MAX /* epochs have the streams below */

#endif
