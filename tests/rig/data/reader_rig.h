/* SPDX-License-Identifier: MIT */
/* Shared by the tests of readers: a context, a folder, and the last result. */
#ifndef COPSE_READER_RIG_H
#define COPSE_READER_RIG_H

#include "tests/rig/rig.h"

#include "copse/data.h"
#include "core/data/array.h"
#include "tests/rig/data/temp_files.h"

static copse_context *ctx;
static copse_array *array, *labels;

static inline int begin(void **state)
{
    (void)state;
    temp_begin();
    return copse_context_create(NULL, &ctx) != COPSE_OK;
}

static inline int end(void **state)
{
    (void)state;
    copse_array_release(&array);
    copse_array_release(&labels);
    copse_context_release(&ctx);
    temp_end();
    return 0;
}

/* The file was refused, and there is no result. */
static inline void assert_error(copse_status expected, copse_status got, const char *text)
{
    FAILS(expected, got, text);
    assert_null(array);
    assert_null(labels);
}

static inline double at(const copse_array *a, size_t i)
{
    const struct copse_array_view *v = copse_array_view(a);
    return copse__type_load(v->type, v->data, i);
}

#endif
