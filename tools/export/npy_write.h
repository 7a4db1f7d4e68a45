/* SPDX-License-Identifier: MIT */
/* NumPy's .npy files. */
#ifndef TOOL_NPY_H
#define TOOL_NPY_H

#include "copse/array.h"

#include "tools/tool.h"

/* Write an array, version 1.0, C order, little-endian; complete or not at all. NumPy has no bf16:
   it becomes f32, without loss. */
copse_status npy_write(const char *path, const struct copse_array_view *a);

#endif
