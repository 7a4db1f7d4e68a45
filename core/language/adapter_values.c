/* SPDX-License-Identifier: MIT */
/* Values of an adapter in host memory, on the way from or to a file. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "core/language/adapter_file.h"

copse_status copse__adapter_values_begin(struct copse_adapter_values *v, copse_language *l)
{
    *v = (struct copse_adapter_values){ .l = l, .mem = l->arena.mem };
    v->at = copse__alloc(v->mem, COPSE_ADAPTER_IN_FILES * (size_t)l->is.layers * COPSE_PARTS,
                         sizeof *v->at);
    return copse_need_memory(v->at, "adapter");
}

void copse__adapter_values_end(struct copse_adapter_values *v)
{
    const size_t count = v->at ? COPSE_ADAPTER_IN_FILES * (size_t)v->l->is.layers * COPSE_PARTS : 0;
    for (size_t i = 0; i < count; i++)
        copse__free(v->mem, v->at[i]);
    copse__free(v->mem, (void *)v->at);
    v->at = NULL;
}

size_t copse__adapter_shape(const copse_language *l, enum copse_part part, int matrix,
                            uint32_t rank, uint32_t shape[2])
{
    uint32_t weight[2];
    copse__part_shape(l->architecture, &l->is, part, weight);
    shape[0] = matrix == COPSE_ADAPTER_A ? rank : weight[0];
    shape[1] = matrix == COPSE_ADAPTER_A ? weight[1] : matrix == COPSE_ADAPTER_B ? rank : 1;
    return (size_t)shape[0] * shape[1];
}

/* ---- from the model ---- */

static copse_status values_read_one(struct copse_adapter_values *v, uint32_t layer,
                                    enum copse_part part, int matrix)
{
    uint32_t shape[2];
    copse_variable *from = copse__adapter_matrix(v->l, layer, part, matrix);
    if (!from)
        return COPSE_OK;
    const size_t count = copse__adapter_shape(v->l, part, matrix, v->is.rank, shape);
    float *to = copse__alloc(v->mem, count, sizeof *to);
    COPSE_TRY(copse_need_memory(to, "adapter"));
    v->at[copse__adapter_place(v->l, layer, part, matrix)] = to;
    COPSE_TRY(copse_variable_read(from, 0, to));
    for (size_t i = 0; i < count; i++)
        if (!isfinite(to[i]))
            return copse_fail(COPSE_ERR_NONFINITE,
                              "adapter: element %zu of %s is %g: the training has diverged; it is "
                              "not saved",
                              i, copse_variable_name(from), (double)to[i]);
    return COPSE_OK;
}

copse_status copse__adapter_values_read(struct copse_adapter_values *v)
{
    v->is = v->l->adapter;
    if (v->is.rank == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "adapter: %s has none to save", v->l->path);
    for (uint32_t layer = 0; layer < v->l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++)
            for (int matrix = 0; matrix < COPSE_ADAPTER_IN_FILES; matrix++)
                COPSE_TRY(values_read_one(v, layer, (enum copse_part)part, matrix));
    return COPSE_OK;
}

/* ---- from a file ---- */

void copse__adapter_gguf_name(char name[COPSE_ADAPTER_NAME], uint32_t layer, enum copse_part part,
                              int matrix)
{
    const int n = snprintf(name, COPSE_ADAPTER_NAME, copse__parts[part].gguf, layer);
    snprintf(name + n, COPSE_ADAPTER_NAME - (size_t)n, ".lora_%c", "ab"[matrix]);
}

bool copse__adapter_parse(const copse_language *l, const char *name, bool is_gguf, uint32_t *layer,
                          enum copse_part *part, int *matrix)
{
    char wanted[COPSE_ADAPTER_NAME];
    /* the first number of a name is the layer */
    const char *digit = name + strcspn(name, "0123456789");
    const int matrices = is_gguf ? COPSE_ADAPTER_MAGNITUDES : COPSE_ADAPTER_IN_FILES;
    unsigned number;
    if (sscanf(digit, "%5u", &number) != 1 || number >= l->is.layers)
        return false;
    for (int p = 0; p < COPSE_PARTS; p++)
        for (int m = 0; m < matrices && copse__adapter_takes((enum copse_part)p); m++) {
            if (is_gguf)
                copse__adapter_gguf_name(wanted, number, (enum copse_part)p, m);
            else
                copse__adapter_name(wanted, number, (enum copse_part)p, m);
            if (strcmp(wanted, name) == 0) {
                *layer = number;
                *part = (enum copse_part)p;
                *matrix = m;
                return true;
            }
        }
    return false;
}

copse_status copse__adapter_values_take(struct copse_adapter_values *v, const char *path,
                                        const char *name, uint64_t rows, uint64_t columns,
                                        bool is_gguf, float **out)
{
    uint32_t layer, shape[2];
    enum copse_part part;
    int matrix;
    if (!copse__adapter_parse(v->l, name, is_gguf, &layer, &part, &matrix))
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s: \"%.200s\" adapts no weight of %s that can be adapted", path, name,
                          v->l->path);
    const bool has_rank = matrix != COPSE_ADAPTER_MAGNITUDES;
    const uint64_t rank = !has_rank ? v->is.rank : matrix == COPSE_ADAPTER_A ? rows : columns;
    if (v->is.rank == 0 && rank >= 1 && rank <= COPSE_ADAPTER_RANK)
        v->is.rank = (uint32_t)rank;
    const size_t count = copse__adapter_shape(v->l, part, matrix, v->is.rank, shape);
    if (!has_rank && (rows != shape[0] || columns != 0))
        return copse_fail(COPSE_ERR_SHAPE, "%s: \"%.200s\" is not [%u], as this weight of %s", path,
                          name, shape[0], v->l->path);
    if (has_rank && (rows != shape[0] || columns != shape[1]))
        return copse_fail(rank != v->is.rank ? COPSE_ERR_UNSUPPORTED : COPSE_ERR_SHAPE,
                          "%s: \"%.200s\" is [%llu, %llu]; for the rank %u and this weight of %s "
                          "it must be [%u, %u]",
                          path, name, (unsigned long long)rows, (unsigned long long)columns,
                          v->is.rank, v->l->path, shape[0], shape[1]);
    *out = copse__alloc(v->mem, count, sizeof **out);
    COPSE_TRY(copse_need_memory(*out, "adapter"));
    v->at[copse__adapter_place(v->l, layer, part, matrix)] = *out; /* files have no name twice */
    return COPSE_OK;
}

static const float *values_of(void *user, uint32_t layer, enum copse_part part, int matrix)
{
    const struct copse_adapter_values *v = user;
    return v->at[copse__adapter_place(v->l, layer, part, matrix)];
}

/* A weight has all matrices of the adapter, or none. */
static copse_status check_weight(const struct copse_adapter_values *v, const char *path,
                                 uint32_t layer, enum copse_part part, bool *has_all)
{
    char name[COPSE_ADAPTER_NAME];
    bool has[COPSE_ADAPTER_IN_FILES];
    for (int m = 0; m < COPSE_ADAPTER_IN_FILES; m++)
        has[m] = v->at[copse__adapter_place(v->l, layer, part, m)] != NULL;
    *has_all = has[COPSE_ADAPTER_A];
    if (has[COPSE_ADAPTER_MAGNITUDES] && !v->is.is_dora) {
        copse__adapter_name(name, layer, part, COPSE_ADAPTER_MAGNITUDES);
        return copse_fail(COPSE_ERR_FORMAT, "%s has \"%s\", and \"use_dora\" is not true", path,
                          name);
    }
    const bool any = has[COPSE_ADAPTER_A] || has[COPSE_ADAPTER_B] || has[COPSE_ADAPTER_MAGNITUDES];
    for (int m = 0; m < COPSE_ADAPTER_IN_FILES && any; m++)
        if (!has[m] && (m != COPSE_ADAPTER_MAGNITUDES || v->is.is_dora)) {
            copse__adapter_name(name, layer, part, m);
            return copse_fail(COPSE_ERR_FORMAT, "%s lacks \"%s\"", path, name);
        }
    return COPSE_OK;
}

copse_status copse__adapter_values_check(struct copse_adapter_values *v, const char *path)
{
    bool has_all;
    v->is.weights = 0;
    for (uint32_t layer = 0; layer < v->l->is.layers; layer++)
        for (int part = 0; part < COPSE_PARTS; part++) {
            COPSE_TRY(check_weight(v, path, layer, (enum copse_part)part, &has_all));
            v->is.weights += has_all;
        }
    v->is.scale = copse__adapter_scale(&v->is);
    return v->is.weights > 0 ? COPSE_OK
                             : copse_fail(COPSE_ERR_FORMAT, "%s has no adapter of a weight", path);
}

copse_status copse__adapter_values_give(struct copse_adapter_values *v)
{
    const size_t weights = (size_t)v->l->is.layers * COPSE_PARTS;
    bool *is_wanted = copse__alloc(v->mem, weights, sizeof *is_wanted);
    COPSE_TRY(copse_need_memory(is_wanted, "adapter"));
    for (size_t i = 0; i < weights; i++)
        is_wanted[i] = v->at[i] != NULL;
    const struct copse_adapter_plan plan = { .is = v->is, .values = values_of, .user = v };
    const copse_status s = copse__adapter_make(v->l, &plan, is_wanted);
    copse__free(v->mem, is_wanted);
    return s;
}
