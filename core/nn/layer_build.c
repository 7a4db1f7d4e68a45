/* SPDX-License-Identifier: MIT */
/* Building layers: numbers, shapes, then variables. Nothing is made before all of it is checked. */
#include <stdio.h>

#include "copse/distribute/replica.h"
#include "copse/train/model_file.h"
#include "core/data/reader/byte_stream.h"
#include "core/graph/graph.h"
#include "core/graph/type.h"
#include "core/nn/layer.h"

/* ---- numbers ---- */

struct numbering {
    uint32_t layers;
    struct {
        const struct copse_layer_kind *kind;
        uint32_t layers;
    } kinds[COPSE_LAYER_KINDS];
};

static void layer_build_number(copse_layer *l, struct numbering *n)
{
    l->elements[0] = l->elements[1] = 0;
    if (l->kind->name) {
        size_t i = 0;
        while (n->kinds[i].kind && n->kinds[i].kind != l->kind)
            i++;
        n->kinds[i].kind = l->kind;
        l->ordinal = ++n->kinds[i].layers;
        l->number = ++n->layers;
    }
    for (size_t i = 0; i < l->inner.count; i++)
        layer_build_number(l->inner.at[i], n);
}

/* ---- shapes ---- */

static copse_status take_type(copse_layer *l, struct copse_flow *f)
{
    const copse_type takes = l->kind->takes;
    char shape[96];
    l->casts = false;
    if (l->kind->takes_all || f->type == takes)
        return COPSE_OK;
    l->casts = f->type == COPSE_U8 ||
               (takes == COPSE_F32 && (f->type == COPSE_F16 || f->type == COPSE_BF16));
    if (!l->casts)
        return copse_layer_fail(
            l, COPSE_ERR_SHAPE, "it takes %s, the input is %s%s%s", copse_type_name(takes),
            copse_type_name(f->type), copse__shape_text(f->shape, shape),
            takes != COPSE_F32     ? ""
            : f->type == COPSE_I32 ? "; put an embedding in front, or convert it "
                                     "(copse_cast)"
                                   : "; convert it (copse_cast)");
    f->type = takes;
    return COPSE_OK;
}

static copse_status layer_build_infer(copse_layer *l, struct copse_flow *f)
{
    COPSE_TRY(take_type(l, f));
    l->in = *f;
    COPSE_TRY(l->kind->infer(l, f));
    l->out = *f;
    return COPSE_OK;
}

copse_status copse__layers_infer(copse_layer *l, size_t count, struct copse_flow *f)
{
    for (size_t i = 0; i < count; i++)
        COPSE_TRY(layer_build_infer(l->inner.at[i], f));
    return COPSE_OK;
}

/* ---- variables ---- */

static copse_status check_variable(copse_layer *l, const struct copse_layer_maker *m,
                                   const char *part, const struct copse_variable_params *p)
{
    copse_variable *const *list;
    size_t count;
    char shape[96];
    const uint64_t elements = copse__elements(p->shape);
    if (elements == 0 || elements > INT32_MAX)
        return copse_layer_fail(l, COPSE_ERR_SHAPE, "its %s %s has not 1 to 2^31-1 elements", part,
                                copse__shape_text(p->shape, shape));
    l->elements[p->is_frozen] += elements;
    copse_strategy_variables(m->strategy, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(copse_variable_name(list[i]), p->name) == 0)
            return copse_layer_fail(l, COPSE_ERR_ARGUMENT,
                                    "the strategy has a variable '%s'; build these layers with a "
                                    "scope of their own",
                                    p->name);
    return COPSE_OK;
}

copse_status copse__layer_variable(copse_layer *l, const struct copse_layer_maker *m, uint32_t i,
                                   const char *part, const struct copse_variable_params *params)
{
    char name[1024], where[COPSE_LAYER_NAME];
    struct copse_variable_params p = *params;
    snprintf(name, sizeof name, "%s%s%s%u.%s", m->scope, *m->scope ? "/" : "", l->kind->name,
             (unsigned)l->ordinal, part);
    p.name = name;
    p.seed = m->seed;
    if (m->is_trial)
        return check_variable(l, m, part, &p);
    return copse_note(copse_variable_create(m->strategy, &p, &l->variable[i]), "of %s",
                      copse__layer_where(l, where));
}

static copse_status layer_build_make(copse_layer *l, const struct copse_layer_maker *m)
{
    if (l->kind->make)
        COPSE_TRY(l->kind->make(l, m));
    for (size_t i = 0; i < l->inner.count; i++)
        COPSE_TRY(layer_build_make(l->inner.at[i], m));
    return COPSE_OK;
}

/* ---- the build ---- */

/* `dense out` and `embedding in 32` get their numbers, for the description. */
static void layer_build_resolve(copse_layer *l, const struct copse_build_params *p)
{
    for (uint32_t i = 0; i < COPSE_LAYER_SETTINGS && l->kind->setting[i].name; i++) {
        if (l->kind->setting[i].form == COPSE_SETTING_UNITS && l->value[i].count == 0)
            l->value[i].count = p->outputs;
        if (l->kind->setting[i].form == COPSE_SETTING_TOKENS && l->value[i].count == 0)
            l->value[i].count = p->tokens;
    }
    for (size_t i = 0; i < l->inner.count; i++)
        layer_build_resolve(l->inner.at[i], p);
}

static copse_status layer_build_check(const copse_layer *l, const struct copse_build_params *p)
{
    const size_t scope = p->scope ? strlen(p->scope) : 0;
    if (l->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "layer build: these layers are built; parse their text again for others");
    if (copse_has_strategy() && copse_current_replica())
        return copse_fail(
            COPSE_ERR_CONTEXT,
            "layer build: the thread is in a replica or in a loss function; build layers "
            "before");
    COPSE_TRY(copse__type_need(p->type, "layer build", NULL));
    if (p->shape.rank >= COPSE_MAX_RANK)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "layer build: an example of rank %u: at most %d is possible",
                          (unsigned)p->shape.rank, COPSE_MAX_RANK - 1);
    if (p->outputs > INT32_MAX || p->tokens > INT32_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "layer build: %u outputs are too many",
                          (unsigned)COPSE_MAX(p->outputs, p->tokens));
    if (scope > 900 || copse__utf8_valid(p->scope ? p->scope : "", scope) != scope)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "layer build: the scope is not UTF-8 of at most 900 bytes");
    return COPSE_OK;
}

copse_status copse_layer_build(copse_layer *l, copse_strategy *st,
                               const struct copse_build_params *params)
{
    static const struct copse_build_params defaults;
    const struct copse_build_params *p = params ? params : &defaults;
    COPSE_TRY(copse_need("layer build", l, st));
    COPSE_TRY(copse_no_reserved(copse_build_params, params));
    COPSE_TRY(layer_build_check(l, p));
    struct numbering n = { 0 };
    struct copse_flow f = { copse__type_on_devices(p->type), p->shape, p->outputs, p->tokens };
    struct copse_layer_maker m = { st, p->scope ? p->scope : "", p->seed, true };
    layer_build_number(l, &n);
    l->type = f.type;
    COPSE_TRY(layer_build_infer(l, &f));
    COPSE_TRY(layer_build_make(l, &m));
    m.is_trial = false;
    COPSE_TRY(layer_build_make(l, &m));
    layer_build_resolve(l, p);
    l->strategy = copse_strategy_retain(st);
    return COPSE_OK;
}

static uint64_t all_elements(const copse_layer *l)
{
    uint64_t n = l->elements[0] + l->elements[1];
    for (size_t i = 0; i < l->inner.count; i++)
        n += all_elements(l->inner.at[i]);
    return n;
}

copse_status copse_layer_plan(copse_layer *l, const struct copse_build_params *p,
                              uint64_t *elements)
{
    COPSE_TRY(copse_need("layer plan", l, p));
    COPSE_TRY(copse_no_reserved(copse_build_params, p));
    if (elements)
        *elements = 0;
    COPSE_TRY(layer_build_check(l, p));
    struct numbering n = { 0 };
    struct copse_flow f = { copse__type_on_devices(p->type), p->shape, p->outputs, p->tokens };
    const struct copse_layer_maker m = { .scope = "", .is_trial = true };
    layer_build_number(l, &n);
    l->type = f.type;
    COPSE_TRY(layer_build_infer(l, &f));
    COPSE_TRY(layer_build_make(l, &m));
    layer_build_resolve(l, p);
    l->is_planned = true;
    if (elements)
        *elements = all_elements(l);
    return COPSE_OK;
}

copse_status copse_layer_shape(const copse_layer *l, const struct copse_build_params *p,
                               copse_shape *out, uint64_t *elements)
{
    copse_layer *trial;
    COPSE_TRY(copse_need("layer shape", l, p, out));
    *out = COPSE_SCALAR;
    COPSE_TRY(copse_no_reserved(copse_build_params, p));
    COPSE_TRY(copse__layer_copy(l, &trial));
    const copse_status s = copse_layer_plan(trial, p, elements);
    *out = s == COPSE_OK ? trial->out.shape : COPSE_SCALAR;
    copse_layer_release(&trial);
    return s;
}

copse_status copse_layer_output(const copse_layer *l, copse_shape *out)
{
    COPSE_TRY(copse_need("layer output", out));
    *out = COPSE_SCALAR;
    COPSE_TRY(copse_need("layer output", l));
    if (!l->strategy)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "layer output: the layers are not built: see copse_layer_build");
    *out = l->out.shape;
    return COPSE_OK;
}
