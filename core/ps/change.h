/* SPDX-License-Identifier: MIT */
/* Changes of values outside of training, on f32 and i32 arrays in host memory. */
#ifndef COPSE_CHANGE_H
#define COPSE_CHANGE_H

#include "copse/tensor.h"
#include "core/device/device.h"

enum copse_change {
    COPSE_CHANGE_SET,
    COPSE_CHANGE_ADD,
    COPSE_CHANGE_SUB,
    COPSE_SCATTER_ADD, /* the following: rows of a sparse value */
    COPSE_SCATTER_SUB,
    COPSE_SCATTER_UPDATE,
    COPSE_SCATTER_MUL,
    COPSE_SCATTER_DIV,
    COPSE_SCATTER_MIN,
    COPSE_SCATTER_MAX,
    COPSE_CHANGES,
};

/* Slices of rows of an f32 variable. */
struct copse_rows {
    uint32_t count;
    size_t row;             /* elements of one */
    const int32_t *indices; /* [count] */
    const float *values;    /* [count][row] */
};

/* now += or -= by, element by element; i32 wrap around. */
void copse__change_apply(enum copse_change how, copse_type type, uint64_t count, void *now,
                         const void *by);
/* The same row by row: `slices` are [count][row], `now` is [rows][row], and every index is one of
   its rows. Slices of the same row are applied in order. */
void copse__change_rows(enum copse_change how, size_t row, size_t count, const int32_t *indices,
                        const float *slices, float *now);

#endif
