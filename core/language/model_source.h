/* SPDX-License-Identifier: MIT */
/* Where a language model is read from: a GGUF file, or a folder as of Hugging Face. */
#ifndef COPSE_LANGUAGE_MODEL_SOURCE_H
#define COPSE_LANGUAGE_MODEL_SOURCE_H

#include "core/language/language.h"
#include "core/language/tensor_files.h"
#include "core/state/gguf.h"

#define COPSE_PART_NAME 128 /* bytes of the name of a part */

struct copse_model_source {
    copse_gguf *gguf; /* NULL: a folder */
    struct copse_tensor_files files;
};

struct copse_model_tensor {
    const char *name;
    uint32_t rank;
    uint64_t shape[COPSE_ARRAY_MAX_RANK];
    copse_type type; /* of its elements; COPSE_F32: or it is quantised */
    bool is_quantised;
};

copse_status copse__model_source_open(struct copse_model_source *s, copse_context *ctx,
                                      const char *path);
/* Allowed on a zeroed struct. */
void copse__model_source_close(struct copse_model_source *s);

/* The name of a part in the source. */
void copse__model_source_name(const struct copse_model_source *s, enum copse_part part,
                              uint32_t layer, char name[COPSE_PART_NAME]);
size_t copse__model_source_count(const struct copse_model_source *s);
struct copse_model_tensor copse__model_source_tensor(const struct copse_model_source *s, size_t i);
/* False: there is no such tensor. `out` may be NULL. */
bool copse__model_source_find(const struct copse_model_source *s, const char *name,
                              struct copse_model_tensor *out);
/* As f32. */
copse_status copse__model_source_read(struct copse_model_source *s, const char *name, float *values,
                                      size_t count);

/* The tensor of a matrix of an opened model, in a source that is opened again. COPSE_ERR_FORMAT: it
   has changed. */
copse_status copse__model_source_matrix(const struct copse_model_source *s, const copse_language *l,
                                        uint32_t layer, enum copse_part part, size_t *index);
/* The row of the model that is row `row` of such a tensor: heads may have another order. */
uint32_t copse__model_source_row(const struct copse_model_source *s, const copse_language *l,
                                 enum copse_part part, uint32_t row);

/* What the model is, its tokenizer and the form of its conversations: of a GGUF file
   (language_gguf.c), or of a folder with a config.json (language_folder.c). */
copse_status copse__language_describe_gguf(copse_language *l, const struct copse_model_source *s);
copse_status copse__language_describe_folder(copse_language *l, const struct copse_model_source *s);

#endif
