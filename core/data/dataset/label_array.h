/* SPDX-License-Identifier: MIT */
/* Labels that come as an array: classes or targets. */
#ifndef COPSE_DATA_LABEL_ARRAY_H
#define COPSE_DATA_LABEL_ARRAY_H

#include "core/data/schema/schema.h"

/* Decide task and outputs of labels for `rows` rows. Texts and targets are allocated in `arena`.
   `is_scaled`: the targets of a regression get mean 0 and deviation 1. Error texts use `name`. */
copse_status copse__label_array_parts(copse_context *ctx, const struct copse_array_view *labels,
                                      size_t rows, const struct copse_dataset_params *params,
                                      bool is_scaled, const char *name, struct copse_arena *arena,
                                      struct copse_schema_parts *out);
/* Labels as the schema has them: I32 [rows] or F32 [rows, targets]. */
copse_status copse__label_array_read(copse_context *ctx, const struct copse_array_view *labels,
                                     size_t rows, const copse_schema *schema, const char *name,
                                     copse_array **out);

#endif
