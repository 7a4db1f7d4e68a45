/* SPDX-License-Identifier: MIT */
/* The rows of a column: references, and rows of an array in memory. */
#include "core/data/row_source.h"

#include "core/data/array.h"

void copse__row_source_init(struct copse_row_source *rows, const struct copse_row_table *table)
{
    atomic_init(&rows->refs, 1);
    rows->table = table;
}

struct copse_row_source *copse__row_source_retain(struct copse_row_source *rows)
{
    if (rows != NULL)
        copse__ref(&rows->refs);
    return rows;
}

void copse__row_source_release(struct copse_row_source **rows)
{
    struct copse_row_source *r = *rows;

    *rows = NULL;
    if (r != NULL && copse__unref(&r->refs))
        r->table->release(r);
}

/* ---- an array in memory ---- */

struct array_rows {
    struct copse_row_source rows;
    copse_array *values;
    size_t width; /* bytes of a row */
};

static copse_status read_array(struct copse_row_source *self, const uint32_t *rows, size_t count,
                               void *out)
{
    const struct array_rows *a = (const struct array_rows *)self;
    const char *from = a->values->data;

    for (size_t i = 0; i < count; i++)
        memcpy((char *)out + i * a->width, from + (rows != NULL ? rows[i] : i) * a->width,
               a->width);
    return COPSE_OK;
}

static void release_array(struct copse_row_source *self)
{
    copse_array *values = ((struct array_rows *)self)->values;

    copse__free(&copse__base(values->ctx)->mem, self);
    copse_array_release(&values);
}

static const struct copse_row_table array_table = { .read = read_array, .release = release_array };

copse_status copse__row_source_of_array(copse_array *values, struct copse_row_source **out)
{
    struct array_rows *a = copse__alloc(&copse__base(values->ctx)->mem, 1, sizeof *a);

    *out = NULL;
    if (a == NULL) {
        copse_array_release(&values);
        return copse_fail(COPSE_ERR_NO_MEMORY, "dataset: no memory");
    }
    copse__row_source_init(&a->rows, &array_table);
    a->values = values;
    a->width = values->view.shape[0] > 0 ? values->bytes / values->view.shape[0] : 0;
    *out = &a->rows;
    return COPSE_OK;
}
