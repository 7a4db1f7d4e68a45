/* SPDX-License-Identifier: MIT */
/* Internals of a dataset, for the files of core/data. */
#ifndef COPSE_CORE_DATASET_H
#define COPSE_CORE_DATASET_H

#include "copse/data.h"
#include "core/data/array.h"

/* One column: an array whose first axis is the rows. */
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
    uint32_t *rows; /* indices of the rows in the arrays, NULL = all in order */
    struct copse_dataset_info info;
};

/* `owner`: the array of `features` if it has no other user (it may be kept and changed), otherwise NULL. `labels` and
   `params` may be NULL. Error texts use `name`. */
copse_status copse__dataset_make(copse_context *ctx, const struct copse_array_view *features,
                                 copse_array *owner, const struct copse_array_view *labels,
                                 const struct copse_dataset_params *params, const char *name,
                                 copse_dataset **out);

/* The rows of several files, concatenated; each file is read like in copse_dataset_open. `count` >= 1. */
copse_status copse__dataset_join(copse_context *ctx, const char *const *paths, size_t count,
                                 const struct copse_dataset_params *params, copse_dataset **out);

/* Rows of column `c`, without the checks of copse_dataset_gather. */
void copse__dataset_gather(const copse_dataset *ds, size_t c, const uint32_t *rows, size_t count, void *out);

/* A permutation of 0..count-1 that depends only on `count`, `seed` and `stream`. */
void copse__shuffle(uint32_t *rows, uint32_t count, uint64_t seed, uint32_t stream);
#define COPSE_STREAM_SPLIT UINT32_MAX /* epochs use smaller streams */

#endif
