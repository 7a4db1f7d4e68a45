/* SPDX-License-Identifier: MIT */
/* A low-rank adapter of a language model. */
#ifndef COPSE_LANGUAGE_ADAPTER_H
#define COPSE_LANGUAGE_ADAPTER_H

#include "copse/train/adapt.h"
#include "core/language/language.h"

/* "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", and so on. */
#define COPSE_ADAPTER_NAME 160
#define COPSE_ADAPTER_RANK 1024u /* the largest one */
/* What an adapted weight has. Files have all but the squares. */
enum {
    COPSE_ADAPTER_A,          /* [rank, inputs] */
    COPSE_ADAPTER_B,          /* [outputs, rank] */
    COPSE_ADAPTER_MAGNITUDES, /* [outputs], of DoRA */
    COPSE_ADAPTER_IN_FILES,
    COPSE_ADAPTER_SQUARES = COPSE_ADAPTER_IN_FILES, /* [outputs], of DoRA: squared lengths of the
                                                       weight's own rows; frozen */
    COPSE_ADAPTER_MATRICES
};

/* ---- adapter.c ---- */

/* Where a matrix is in lists of all. */
static inline size_t copse__adapter_place(const copse_language *l, uint32_t layer,
                                          enum copse_part part, int matrix)
{
    return ((size_t)matrix * l->is.layers + layer) * COPSE_PARTS + part;
}
/* The variable of a matrix of a weight; NULL: it has none. */
static inline copse_variable *copse__adapter_matrix(const copse_language *l, uint32_t layer,
                                                    enum copse_part part, int matrix)
{
    return l->matrices ? l->matrices[copse__adapter_place(l, layer, part, matrix)] : NULL;
}
/* The model has no adapter afterwards. */
void copse__adapter_drop(copse_language *l);
/* Whether weights of this kind can have an adapter. */
bool copse__adapter_takes(enum copse_part part);
/* The name of a weight without ".weight"; returns its last part. */
const char *copse__adapter_module(char name[COPSE_ADAPTER_NAME], uint32_t layer,
                                  enum copse_part part);
/* The name of a matrix in files of PEFT. */
void copse__adapter_name(char name[COPSE_ADAPTER_NAME], uint32_t layer, enum copse_part part,
                         int matrix);

/* alpha: the same range for settings and files, as f32 */
#define COPSE_ADAPTER_LEAST  1e-30f
#define COPSE_ADAPTER_MOST   1e30f
#define COPSE_ADAPTER_ALPHAS "1e-30 to 1e30"
bool copse__adapter_alpha_fits(double alpha);
/* s */
float copse__adapter_scale(const struct copse_adapter *is);

/* What is known of an adapter before its variables are made. */
struct copse_adapter_plan {
    struct copse_adapter is;
    uint64_t seed;
    /* of a file: values of its matrices; else NULL */
    const float *(*values)(void *user, uint32_t layer, enum copse_part part, int matrix);
    void *user;
};
/* Make the variables of the weights that `is_wanted` names, [layers COPSE_PARTS]. After an error
   there is none. */
copse_status copse__adapter_make(copse_language *l, const struct copse_adapter_plan *plan,
                                 const bool *is_wanted);

/* ---- adapter_graph.c ---- */

/* y, the product of a weight and x, with the adapter, if the weight is adapted. */
copse_tensor *copse__adapter_add(const copse_language *l, copse_graph *g, uint32_t layer,
                                 enum copse_part part, copse_tensor *x, copse_tensor *y,
                                 bool is_training);

#endif
