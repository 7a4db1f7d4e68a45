/* SPDX-License-Identifier: MIT */
/* The weights of a folder: one file of safetensors, or several with an index that says which file
   has which tensor. Elements stay in the files until they are asked for. */
#ifndef COPSE_LANGUAGE_TENSOR_FILES_H
#define COPSE_LANGUAGE_TENSOR_FILES_H

#include "copse/data/checkpoint.h"
#include "core/base/base.h"

struct copse_tensor_entry {
    const char *name;
    const struct copse_array_view *array;
    uint32_t file;
    size_t place; /* in the file's list */
};

struct copse_tensor_files {
    struct copse_mem *mem;
    copse_checkpoint **files;
    const char **paths; /* of the files */
    size_t file_count;
    struct copse_arena arena;
    struct copse_tensor_entry *entries; /* sorted by name */
    size_t count;
};

/* `path` in a folder, or beside a file; the caller frees it. NULL: no memory. */
char *copse__path_beside(struct copse_mem *mem, const char *path, bool is_folder, const char *name);

/* Open the weights of a folder, or one file. End it after a failure, too. */
copse_status copse__tensor_files_open(struct copse_tensor_files *f, copse_context *ctx,
                                      const char *path, bool is_folder);
void copse__tensor_files_end(struct copse_tensor_files *f);
/* NULL: there is no such tensor. */
const struct copse_tensor_entry *copse__tensor_files_find(const struct copse_tensor_files *f,
                                                          const char *name);
/* All elements as f32: of f32, f16 or bf16. */
copse_status copse__tensor_files_read(struct copse_tensor_files *f,
                                      const struct copse_tensor_entry *e, float *values);

#endif
