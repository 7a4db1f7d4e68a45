/* SPDX-License-Identifier: MIT */
/* Sums in host memory besides those of the tree: of an array along an axis, and of slices by
   row. */
#ifndef COPSE_HOST_SUM_H
#define COPSE_HOST_SUM_H

#include "copse/tensor.h"
#include "core/base/base.h"

/* sums[outer][inner] of values[outer][length][inner]. Of f32: f32, added in double precision and
   rounded once; of i32: i64. */
void copse__axis_sum(const void *values, copse_type type, size_t outer, size_t length, size_t inner,
                     void *sums);

/* Slices of `width` f32, each added to a row. */
struct copse_slices {
    uint32_t count;
    size_t width;
    int32_t *rows; /* [count] */
    float *values; /* [count][width] */
};
struct copse_slice_at {
    int32_t row;
    uint32_t at; /* among all slices: equal rows keep this order */
};
/* `sums` receives the rows in ascending order, each once; its memory is as large as that of `from`.
   `order`: memory for 2 * from->count entries. */
void copse__slices_sum(const struct copse_slices *from, struct copse_slice_at *order,
                       struct copse_slices *sums);

#endif
