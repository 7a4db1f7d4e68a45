/* SPDX-License-Identifier: MIT */
/* Element types of tensors. */
#ifndef COPSE_CORE_TYPE_H
#define COPSE_CORE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copse/tensor.h"

struct copse_type_row {
    const char *name;
    size_t bytes;     /* of one element, in host memory and on devices */
    bool is_computed; /* by every op; else only copse_cast and views take it */
};

/* NULL: there is no such type. */
static inline const struct copse_type_row *copse__type(copse_type type)
{
    static const struct copse_type_row rows[] = {
        [COPSE_F32] = { "f32", 4, true },
        [COPSE_I32] = { "i32", 4, true },
        [COPSE_U8] = { "u8", 1, false },
    };
    return (size_t)type < sizeof rows / sizeof *rows ? &rows[type] : NULL;
}

static inline bool copse__type_is_known(copse_type type)
{
    return copse__type(type) != NULL;
}

/* Of one element. */
static inline size_t copse__type_bytes(copse_type type)
{
    return copse__type(type)->bytes;
}

/* Of the memory of a tensor: whole words. */
static inline uint64_t copse__type_room(copse_type type, uint64_t elements)
{
    return (elements * copse__type_bytes(type) + 3) / 4 * 4;
}

static inline const char *copse__type_name(copse_type type)
{
    return copse__type_is_known(type) ? copse__type(type)->name : "?";
}

#endif
