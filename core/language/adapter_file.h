/* SPDX-License-Identifier: MIT */
/* Files of adapters, whatever their form. */
#ifndef COPSE_LANGUAGE_ADAPTER_FILE_H
#define COPSE_LANGUAGE_ADAPTER_FILE_H

#include "core/language/adapter.h"

/* Values of an adapter on the way from or to a file. */
struct copse_adapter_values {
    copse_language *l;
    struct copse_adapter is; /* the settings of the file; scale and weights after a check */
    struct copse_mem *mem;
    uint32_t ranks; /* of a sum: of the adapters that it has */
    /* [COPSE_ADAPTER_IN_FILES][layers COPSE_PARTS], by copse__adapter_place; NULL: not adapted */
    float **at;
};

/* Zeroed values of a model; to be ended, also after an error. (adapter_values.c) */
copse_status copse__adapter_values_begin(struct copse_adapter_values *v, copse_language *l);
void copse__adapter_values_end(struct copse_adapter_values *v);
/* Of the adapter that the model has: COPSE_ERR_ARGUMENT without one, COPSE_ERR_NONFINITE. */
copse_status copse__adapter_values_read(struct copse_adapter_values *v);
/* Memory for a matrix of the file, [rows, columns]; columns 0: it has one axis.
   COPSE_ERR_UNSUPPORTED: no matrix has its name, or its rank is another one; COPSE_ERR_SHAPE: the
   model has another shape. */
copse_status copse__adapter_values_take(struct copse_adapter_values *v, const char *path,
                                        const char *name, uint64_t rows, uint64_t columns,
                                        bool is_gguf, float **out);
/* The values of a file are an adapter. COPSE_ERR_FORMAT: a matrix lacks the other one, or there is
   none. */
copse_status copse__adapter_values_check(struct copse_adapter_values *v, const char *path);
/* Give the model this adapter. */
copse_status copse__adapter_values_give(struct copse_adapter_values *v);

/* Add an adapter, times a factor, to a sum of them: its rows and columns come after those that the
   sum has, of `rank` in all. (adapter_sum.c) */
copse_status copse__adapter_sum_add(struct copse_adapter_values *sum, uint32_t rank,
                                    const struct copse_adapter_values *v, double factor);
/* Elements of a matrix, and its shape; magnitudes are [outputs, 1]. */
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
