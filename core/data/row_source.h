/* SPDX-License-Identifier: MIT */
/* The rows of a column of a dataset: an object with a table of functions. */
#ifndef COPSE_DATA_ROW_SOURCE_H
#define COPSE_DATA_ROW_SOURCE_H

#include "copse/array.h"
#include "core/base/base.h"

struct copse_row_source;

/* Any number of threads may call `read` and `ahead` of an object at once. */
struct copse_row_table {
    /* Write rows of the column one after the other to `out`. `rows`: `count` row numbers of this
       object; NULL: 0..count-1. Blocks while data is read or decoded. On failure `out` is
       undefined, and the error text names the file. */
    copse_status (*read)(struct copse_row_source *self, const uint32_t *rows, size_t count,
                         void *out);
    /* Announces rows that are read soon, in this order. Does not block and cannot fail. NULL:
       nothing is prepared. */
    void (*ahead)(struct copse_row_source *self, const uint32_t *rows, size_t count);
    /* The last reference was released: frees the object. */
    void (*release)(struct copse_row_source *self);
};

/* First member of each implementation. */
struct copse_row_source {
    copse_refs refs;
    const struct copse_row_table *table;
};

/* With one reference. */
void copse__row_source_init(struct copse_row_source *rows, const struct copse_row_table *table);
struct copse_row_source *copse__row_source_retain(struct copse_row_source *rows);
void copse__row_source_release(struct copse_row_source **rows);

/* Rows of an array in memory; its first axis counts them. Takes over the reference to `values`,
   also on failure. */
copse_status copse__row_source_of_array(copse_array *values, struct copse_row_source **out);

#endif
