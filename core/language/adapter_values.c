/* SPDX-License-Identifier: MIT */
/* Values of an adapter in host memory, on the way from or to a file. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "core/language/adapter_file.h"

static size_t values_place(const copse_language *l, uint32_t layer, enum copse_part part,
                           int matrix)
{
    return ((size_t)matrix * l->is.layers + layer) * COPSE_PARTS + part;
}

copse_status copse__adapter_values_begin(struct copse_adapter_values *v, copse_language *l)
{
    *v = (struct copse_adapter_values){ .l = l, .mem = l->arena.mem };
    v->at = copse__alloc(v->mem, 2 * (size_t)l->is.layers * COPSE_PARTS, sizeof *v->at);
    return copse_need_memory(v->at, "adapter");
}

void copse__adapter_values_end(struct copse_adapter_values *v)
{
    for (size_t i = 0; v->at && i < 2 * (size_t)v->l->is.layers * COPSE_PARTS; i++)
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
    shape[1] = matrix == COPSE_ADAPTER_A ? weight[1] : rank;
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
    v->at[values_place(v->l, layer, part, matrix)] = to;
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
            for (int matrix = 0; matrix < 2; matrix++)
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
    unsigned number;
    if (sscanf(digit, "%5u", &number) != 1 || number >= l->is.layers)
        return false;
    for (int p = 0; p < COPSE_PARTS; p++)
        for (int m = 0; m < 2 && copse__adapter_takes((enum copse_part)p); m++) {
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
    const uint64_t rank = matrix == COPSE_ADAPTER_A ? rows : columns;
    if (v->is.rank == 0 && rank >= 1 && rank <= COPSE_ADAPTER_RANK)
        v->is.rank = (uint32_t)rank;
    const size_t count = copse__adapter_shape(v->l, part, matrix, v->is.rank, shape);
    if (rows != shape[0] || columns != shape[1])
        return copse_fail(rank != v->is.rank ? COPSE_ERR_UNSUPPORTED : COPSE_ERR_SHAPE,
                          "%s: \"%.200s\" is [%llu, %llu]; for the rank %u and this weight of %s "
                          "it must be [%u, %u]",
                          path, name, (unsigned long long)rows, (unsigned long long)columns,
                          v->is.rank, v->l->path, shape[0], shape[1]);
    *out = copse__alloc(v->mem, count, sizeof **out);
    COPSE_TRY(copse_need_memory(*out, "adapter"));
    v->at[values_place(v->l, layer, part, matrix)] = *out; /* files have no name twice */
    return COPSE_OK;
}

static const float *values_of(void *user, uint32_t layer, enum copse_part part, int matrix)
{
    const struct copse_adapter_values *v = user;
    return v->at[values_place(v->l, layer, part, matrix)];
}

copse_status copse__adapter_values_give(struct copse_adapter_values *v, const char *path)
{
    const copse_language *l = v->l;
    copse_status s = COPSE_OK;
    char name[COPSE_ADAPTER_NAME];
    const size_t weights = (size_t)l->is.layers * COPSE_PARTS;
    bool *is_wanted = copse__alloc(v->mem, weights, sizeof *is_wanted);
    COPSE_TRY(copse_need_memory(is_wanted, "adapter"));
    size_t count = 0;
    for (size_t i = 0; s == COPSE_OK && i < weights; i++) {
        is_wanted[i] = v->at[i] != NULL;
        count += is_wanted[i];
        if (is_wanted[i] == (v->at[weights + i] != NULL))
            continue;
        copse__adapter_name(name, (uint32_t)(i / COPSE_PARTS), (enum copse_part)(i % COPSE_PARTS),
                            is_wanted[i] ? COPSE_ADAPTER_B : COPSE_ADAPTER_A);
        s = copse_fail(COPSE_ERR_FORMAT, "%s lacks \"%s\"", path, name);
    }
    if (s == COPSE_OK && count == 0)
        s = copse_fail(COPSE_ERR_FORMAT, "%s has no adapter of a weight", path);
    v->is.scale = copse__adapter_scale(&v->is);
    const struct copse_adapter_plan plan = { .is = v->is, .values = values_of, .user = v };
    if (s == COPSE_OK)
        s = copse__adapter_make(v->l, &plan, is_wanted);
    copse__free(v->mem, is_wanted);
    return s;
}
