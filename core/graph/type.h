/* SPDX-License-Identifier: MIT */
/* Element types of tensors. */
#ifndef COPSE_CORE_TYPE_H
#define COPSE_CORE_TYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "copse/tensor.h"

static inline bool copse__type_is_known(copse_type type)
{
    return type == COPSE_F32 || type == COPSE_I32;
}

/* Of one element, in memory. */
static inline size_t copse__type_bytes(copse_type type)
{
    (void)type;
    return 4;
}

static inline const char *copse__type_name(copse_type type)
{
    return type == COPSE_F32 ? "f32" : type == COPSE_I32 ? "i32" : "?";
}

#endif
