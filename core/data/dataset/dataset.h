/* SPDX-License-Identifier: MIT */
/* Internals of a dataset, for the files of core/data. */
#ifndef COPSE_CORE_DATASET_H
#define COPSE_CORE_DATASET_H

#include "copse/data.h"
#include "core/data/array.h"
#include "core/data/picture/picture_list.h"
#include "core/data/row_source.h"
#include "core/data/schema/schema.h"
#include "core/data/text/tokens.h"

/* One column. */
struct copse_dataset_column {
    struct copse_column is; /* without data */
    size_t row_bytes;
    struct copse_row_source *values; /* shared by the parts of a split */
    char *name;
};

struct copse_dataset {
    copse_refs refs;
    copse_context *ctx;
    struct copse_dataset_column columns[COPSE_MAX_INPUTS];
    uint32_t *rows;       /* indices of the rows in the arrays, NULL = all in order */
    copse_schema *schema; /* NULL: unknown */
    struct copse_picture_list *pictures; /* the files of the rows; NULL: they are not pictures */
    struct copse_dataset_info info;
    bool is_ordered; /* a split keeps the order of the rows */
    size_t gap;      /* then: rows before and behind a row that share data with it */
    /* the schema was learned from these first rows; a split puts none of them into its second
       part */
    size_t learned;
};

/* A dataset without columns. */
copse_status copse__dataset_new(copse_context *ctx, size_t rows, copse_dataset **out);
/* Add a column; the dataset owns `values`, also on failure. */
copse_status copse__dataset_add(copse_dataset *ds, const char *name, copse_type type,
                                copse_shape shape, copse_array *values);
copse_status copse__dataset_add_rows(copse_dataset *ds, const char *name, copse_type type,
                                     copse_shape shape, struct copse_row_source *values);
/* Add column "y" of the dataset's schema. */
copse_status copse__dataset_add_labels(copse_dataset *ds, copse_array *labels);

/* Move rows of `order`, all rows in some order, so that each class has its part of the first `cut`
   rows; labels are 0..classes-1 (stratify.c). */
copse_status copse__stratify(struct copse_mem *mem, const int32_t *labels, size_t classes,
                             uint32_t *order, size_t rows, size_t cut);

/* Set the fields of `info` that describe a row of the first column. */
void copse__dataset_describe_row(copse_dataset *ds);

/* COPSE_ERR_UNSUPPORTED if a reserved word of `params` is set; NULL is allowed. */
copse_status copse__dataset_no_reserved(const struct copse_dataset_params *params);
/* COPSE_ERR_ARGUMENT if `params` breaks a rule of every source. */
copse_status copse__dataset_check(const struct copse_dataset_params *params);
/* `owner`: the array of `features` if it has no other user (it may be kept and changed), otherwise
   NULL. `labels` may be NULL. Error texts use `name`. */
copse_status copse__dataset_make(copse_context *ctx, const struct copse_array_view *features,
                                 copse_array *owner, const struct copse_array_view *labels,
                                 const struct copse_dataset_params *params, const char *name,
                                 copse_dataset **out);
/* The rows of CSV files. `labels`: those of another file, or NULL. */
copse_status copse__dataset_table(copse_context *ctx, const char *const *paths, size_t count,
                                  const copse_array *labels,
                                  const struct copse_dataset_params *params, copse_dataset **out);

/* A text; `t` may lose its bytes. (dataset_text.c) */
copse_status copse__dataset_text(copse_context *ctx, struct copse_text *t,
                                 const struct copse_dataset_params *p, copse_dataset **out);

/* Pictures; see include/copse/data/pictures.h. */
copse_status copse__dataset_pictures(copse_context *ctx, const char *const *paths, size_t count,
                                     const struct copse_dataset_params *params,
                                     copse_dataset **out);

/* The rows of several files, concatenated; each file is read like in copse_dataset_open. `count` >=
   1. */
copse_status copse__dataset_join(copse_context *ctx, const char *const *paths, size_t count,
                                 const struct copse_dataset_params *params, copse_dataset **out);

/* Arrays as they are in a file, before a dataset is made of them. (source.c) */
struct copse_source_arrays {
    copse_array *features, *labels; /* NULL: none */
};
copse_status copse__source_read(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *params,
                                struct copse_source_arrays *out);
/* The labels of params->labels. */
copse_status copse__source_labels(copse_context *ctx, const struct copse_dataset_params *params,
                                  copse_array **out);
/* What a path leads to. dataset_open.c has a row for each kind. */
enum copse_source_kind {
    COPSE_SOURCE_TABLE,
    COPSE_SOURCE_ARRAYS,
    COPSE_SOURCE_PICTURES,
    COPSE_SOURCE_TEXT,
    COPSE_SOURCE_KINDS,
};
copse_status copse__source_kind(copse_context *ctx, const char *path,
                                const struct copse_dataset_params *params,
                                enum copse_source_kind *out);

/* Rows of column `c`, without the checks of copse_dataset_gather. */
copse_status copse__dataset_gather(const copse_dataset *ds, size_t c, const uint32_t *rows,
                                   size_t count, void *out);
/* Announce rows that are gathered soon, in this order. */
void copse__dataset_ahead(const copse_dataset *ds, const uint32_t *rows, size_t count);

/* A part of `ds`: `count` of its rows. */
copse_status copse__dataset_part(copse_dataset *ds, const uint32_t *rows, size_t count,
                                 copse_dataset **out);
/* The class of each row, for `stratify`, and the largest class + 1. COPSE_ERR_ARGUMENT: there is no
   such column. */
copse_status copse__dataset_classes(const copse_dataset *data, int32_t *labels, size_t *classes);
/* A permutation of 0..count-1 that depends only on `count`, `seed` and `stream`. */
void copse__shuffle(uint32_t *rows, uint32_t count, uint64_t seed, uint32_t stream);
#define COPSE_STREAM_SPLIT UINT32_MAX /* epochs use smaller streams */

#endif
