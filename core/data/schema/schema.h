/* SPDX-License-Identifier: MIT */
/* The schema object. */
#ifndef COPSE_CORE_DATA_SCHEMA_H
#define COPSE_CORE_DATA_SCHEMA_H

#include "core/data/schema_parts.h"

struct copse_schema {
    copse_refs refs;
    copse_context *ctx;
    struct copse_arena arena; /* owns everything in `is` */
    struct copse_schema_parts is;
    bool is_counted; /* the classes are the numbers 0..outputs-1 */
    char *text;      /* JSON, of cJSON */
};

/* COPSE_ERR_UNSUPPORTED: the text has more values than are read, for which the memory is bounded.
   (schema_text.c) */
copse_status copse__schema_check_size(const char *json, size_t size);

/* Copies `parts`, which must be consistent; `shape` of a table is set from its columns. */
copse_status copse__schema_create(copse_context *ctx, const struct copse_schema_parts *parts,
                                  copse_schema **out);

/* JSON text of the parts, to be freed with cJSON_free; NULL without memory. (schema_text.c) */
char *copse__schema_print(const struct copse_schema_parts *parts);

#endif
