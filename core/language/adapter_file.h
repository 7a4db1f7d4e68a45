/* SPDX-License-Identifier: MIT */
/* Files of adapters, whatever their form. */
#ifndef COPSE_LANGUAGE_ADAPTER_FILE_H
#define COPSE_LANGUAGE_ADAPTER_FILE_H

#include "core/language/adapter.h"

/* Values of an adapter on the way from or to a file. */
struct copse_adapter_values {
    copse_language *l;
    struct copse_adapter is; /* rank, alpha, dropout, is_rank_stabilised */
    struct copse_mem *mem;
    float **at; /* [2][layers COPSE_PARTS], as the variables of the model; NULL: not adapted */
};

/* Zeroed values of a model; to be ended, also after an error. (adapter_values.c) */
copse_status copse__adapter_values_begin(struct copse_adapter_values *v, copse_language *l);
void copse__adapter_values_end(struct copse_adapter_values *v);
/* Of the adapter that the model has: COPSE_ERR_ARGUMENT without one, COPSE_ERR_NONFINITE. */
copse_status copse__adapter_values_read(struct copse_adapter_values *v);
/* Memory for a matrix of the file, [rows, columns]. COPSE_ERR_UNSUPPORTED: no matrix
   has its name, or its rank is another one; COPSE_ERR_SHAPE: the model has another shape. */
copse_status copse__adapter_values_take(struct copse_adapter_values *v, const char *path,
                                        const char *name, uint64_t rows, uint64_t columns,
                                        bool is_gguf, float **out);
/* Give the model this adapter. COPSE_ERR_FORMAT: a matrix lacks the other one; there is none. */
copse_status copse__adapter_values_give(struct copse_adapter_values *v, const char *path);
/* Elements of a matrix, and its shape. */
size_t copse__adapter_shape(const copse_language *l, enum copse_part part, int matrix,
                            uint32_t rank, uint32_t shape[2]);

/* The name of a matrix in GGUF files. */
void copse__adapter_gguf_name(char name[COPSE_ADAPTER_NAME], uint32_t layer, enum copse_part part,
                              int matrix);
/* The weight and matrix of a name in files; false: it is none. (adapter_values.c) */
bool copse__adapter_parse(const copse_language *l, const char *name, bool is_gguf, uint32_t *layer,
                          enum copse_part *part, int *matrix);

/* ---- forms: the path is of a file, or of PEFT's folder; errors name it ---- */

/* (adapter_peft.c) */
copse_status copse__adapter_save_peft(const struct copse_adapter_values *v, const char *path,
                                      bool is_folder);
copse_status copse__adapter_load_peft(struct copse_adapter_values *v, const char *path,
                                      bool is_folder);
/* (adapter_gguf.c) */
copse_status copse__adapter_save_gguf(const struct copse_adapter_values *v, const char *path);
copse_status copse__adapter_load_gguf(struct copse_adapter_values *v, const char *path);

#endif
