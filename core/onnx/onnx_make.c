/* SPDX-License-Identifier: MIT */
/* Weights of a network as variables: which are trained, and their values. */
#include "core/onnx/onnx.h"

#include <stdio.h>

#include "core/variable/variable.h"

#define NAME_ROOM 1024

/* The pattern at the head of a list, without the blanks around it. */
static const char *pattern_first(const char *list, size_t *size)
{
    size_t n = strcspn(list, ",");
    for (; n > 0 && *list == ' '; n--)
        list++;
    while (n > 0 && list[n - 1] == ' ')
        n--;
    *size = n;
    return list;
}

enum fit { FITS_NOT, FITS_PATTERN, FITS_NAME };

/* Whether a name fits one of the patterns in a list, or is one of them. `marks`: those that did;
   patterns with `*` or `?` pass over numbers that are known. */
static copse_status fits_any(struct copse_mem *mem, const char *patterns,
                             const struct onnx_weight *w, bool *marks, enum fit *fit)
{
    size_t number = 0;
    *fit = FITS_NOT;
    for (const char *p = patterns;; number++) {
        size_t size = 0;
        const char *first = pattern_first(p, &size);
        char *pattern = copse__alloc(mem, size + 1, 1);
        COPSE_TRY(copse_need_memory(pattern, "onnx"));
        memcpy(pattern, first, size);
        const bool is_name = strcmp(pattern, w->name) == 0;
        if (is_name || (!w->is_known && copse__pattern_fits(pattern, w->name))) {
            marks[number] = true;
            *fit = is_name ? FITS_NAME : *fit == FITS_NOT ? FITS_PATTERN : *fit;
        }
        copse__free(mem, pattern);
        size = strcspn(p, ",");
        if (p[size] == '\0')
            return COPSE_OK;
        p += size + 1;
    }
}

static size_t pattern_count(const char *patterns)
{
    size_t n = 1;
    for (const char *c = patterns; c && *c; c++)
        n += *c == ',';
    return n;
}

struct making {
    copse_onnx *m;
    copse_strategy *strategy;
    const struct copse_onnx_make_params *params;
    bool *marks; /* patterns that a name fits */
};

static copse_status make_variable(struct making *k, size_t i)
{
    copse_onnx *m = k->m;
    const char *scope = k->params->scope ? k->params->scope : "";
    struct onnx_weight *w = m->listed_weights[i];
    char name[NAME_ROOM];
    bool is_trained = m->listed[i].is_trained;
    if (k->params->trained) {
        enum fit fit;
        COPSE_TRY(fits_any(m->arena.mem, k->params->trained, w, k->marks, &fit));
        is_trained = fit != FITS_NOT;
        if (fit == FITS_NAME && w->is_known)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "onnx: '%.100s' cannot be trained: the graph depends on its numbers",
                              w->name);
    }
    /* statistics may change, single numbers do not */
    if (w->is_known || (!is_trained && !m->listed[i].is_trained && !w->is_statistic))
        return COPSE_OK;
    const int n = snprintf(name, sizeof name, "%s%s%s", scope, *scope ? "/" : "", w->name);
    if (n >= (int)sizeof name)
        return copse_fail(COPSE_ERR_ARGUMENT, "onnx: the name of '%.100s' is too long", w->name);
    const size_t count = (size_t)m->listed[i].elements;
    float *room = copse__alloc(m->arena.mem, count, sizeof *room);
    COPSE_TRY(copse_need_memory(room, "onnx: '%s'", name));
    const struct copse_variable_params params = {
        .name = name,
        .shape = w->shape,
        .values = copse__onnx_floats(w->tensor, count, room),
        .is_frozen = !is_trained,
        .aggregation = is_trained ? COPSE_AGGREGATION_NONE : COPSE_AGGREGATION_MEAN,
    };
    const copse_status s = copse_variable_create(k->strategy, &params, &w->variable);
    copse__free(m->arena.mem, room);
    if (s == COPSE_OK)
        m->variables[m->variable_count++] = w->variable;
    return s;
}

static copse_status make_all(struct making *k)
{
    const char *p = k->params->trained;
    for (size_t i = 0; i < k->m->listed_count; i++)
        COPSE_TRY(make_variable(k, i));
    for (size_t i = 0; p && i < pattern_count(k->params->trained); i++) {
        size_t size;
        const char *first = pattern_first(p, &size);
        if (!k->marks[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "onnx: no weight of %s fits '%.*s'", k->m->path,
                              (int)COPSE_MIN(size, (size_t)100), first);
        p += strcspn(p, ",") + 1;
    }
    return COPSE_OK;
}

copse_status copse_onnx_make(copse_onnx *m, copse_strategy *st,
                             const struct copse_onnx_make_params *params)
{
    static const struct copse_onnx_make_params normal = { .trained = NULL };
    COPSE_TRY(copse_need("onnx", m, st));
    params = params ? params : &normal;
    COPSE_TRY(copse_no_reserved(copse_onnx_make_params, params));
    COPSE_TRY(copse_onnx_check(m));
    if (m->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT, "onnx: %s has its variables already", m->path);
    struct copse_mem *mem = m->arena.mem;
    struct making k = { m, st, params, NULL };
    k.marks = copse__alloc(mem, pattern_count(params->trained), sizeof *k.marks);
    COPSE_TRY(copse_need_memory(k.marks, "onnx"));
    copse_status s = make_all(&k);
    copse__free(mem, k.marks);
    if (s == COPSE_OK) {
        m->strategy = copse_strategy_retain(st);
        return COPSE_OK;
    }
    /* none is left of a network that failed, if nothing can use them */
    if (m->variable_count > 0)
        (void)copse__variables_release(st, m->variables, m->variable_count);
    for (size_t i = 0; i < m->weight_count; i++)
        m->weights[i].variable = NULL;
    m->variable_count = 0;
    return s;
}
