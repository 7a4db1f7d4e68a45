/* SPDX-License-Identifier: MIT */
/* Layers: life, copies, limits, and their names in messages. */
#include <stdio.h>

#include "copse/train/model_file.h"
#include "core/device/device.h"
#include "core/nn/layer.h"

static struct copse_mem *memory_of(copse_context *ctx)
{
    return &ctx->base.mem;
}

copse_status copse__layer_new(copse_context *ctx, const struct copse_layer_kind *kind,
                              copse_layer **out)
{
    *out = NULL;
    copse_layer *l = copse__alloc(memory_of(ctx), 1, sizeof *l);
    if (!l)
        return copse_no_memory("layer");
    atomic_init(&l->refs, 1);
    l->ctx = copse_context_retain(ctx);
    l->kind = kind;
    for (uint32_t i = 0; i < COPSE_LAYER_SETTINGS && kind->setting[i].name; i++)
        l->value[i] = kind->setting[i].normal;
    *out = l;
    return COPSE_OK;
}

copse_status copse__layer_create(copse_context *ctx, const struct copse_layer_kind *kind,
                                 const struct copse_setting_value *values, uint32_t count,
                                 copse_layer **out)
{
    COPSE_TRY(copse_need(kind->name, out));
    *out = NULL;
    COPSE_TRY(copse_need(kind->name, ctx));
    for (uint32_t i = 0; i < count; i++)
        COPSE_TRY(copse__setting_check(&kind->setting[i], values[i], kind->name));
    COPSE_TRY(copse__layer_new(ctx, kind, out));
    for (uint32_t i = 0; i < count; i++)
        (*out)->value[i] = values[i];
    return COPSE_OK;
}

bool copse_layer_is_shared(const copse_layer *l)
{
    bool is_shared = l && atomic_load(&l->refs) > 1;
    for (size_t i = 0; l && !is_shared && i < l->inner.count; i++)
        is_shared = copse_layer_is_shared(l->inner.at[i]);
    return is_shared;
}

copse_layer *copse_layer_retain(copse_layer *l)
{
    if (l)
        copse__ref(&l->refs);
    return l;
}

void copse_layer_release(copse_layer **at)
{
    if (!at || !*at)
        return;
    copse_layer *l = *at;
    *at = NULL;
    if (!copse__unref(&l->refs))
        return;
    for (size_t i = 0; i < l->inner.count; i++)
        copse_layer_release(&l->inner.at[i]);
    copse_strategy_release(&l->strategy);
    copse_context *ctx = l->ctx;
    copse__free(memory_of(ctx), l->inner.at);
    copse__free(memory_of(ctx), l);
    copse_context_release(&ctx);
}

copse_status copse__layer_append(copse_layer *l, copse_layer *inner)
{
    const size_t count = inner->kind->name ? 1 : inner->inner.count;
    if (!COPSE_RESERVE(memory_of(l->ctx), &l->inner, l->inner.count + count)) {
        copse_layer_release(&inner);
        return copse_no_memory("layer");
    }
    if (inner->kind->name) {
        l->inner.at[l->inner.count++] = inner;
        return COPSE_OK;
    }
    for (size_t i = 0; i < count; i++)
        l->inner.at[l->inner.count++] = copse_layer_retain(inner->inner.at[i]);
    copse_layer_release(&inner);
    return COPSE_OK;
}

copse_status copse__layer_copy(const copse_layer *l, copse_layer **out)
{
    copse_layer *new;
    *out = NULL;
    COPSE_TRY(copse__layer_new(l->ctx, l->kind, &new));
    memcpy(new->value, l->value, sizeof new->value);
    new->line = l->line;
    copse_status s = COPSE_OK;
    for (size_t i = 0; i < l->inner.count && !s; i++) {
        copse_layer *inner;
        s = copse__layer_copy(l->inner.at[i], &inner);
        if (!s)
            s = copse__layer_append(new, inner);
    }
    if (s)
        copse_layer_release(&new);
    *out = new;
    return s;
}

static void layer_measure(const copse_layer *l, uint32_t depth, size_t *count, uint32_t *deepest)
{
    *count += l->kind->name != NULL;
    *deepest = COPSE_MAX(*deepest, depth);
    for (size_t i = 0; i < l->inner.count; i++)
        layer_measure(l->inner.at[i], depth + (l->kind->name != NULL), count, deepest);
}

copse_status copse__layer_check(const copse_layer *l)
{
    size_t count = 0;
    uint32_t depth = 0;
    layer_measure(l, 0, &count, &depth);
    if (depth > COPSE_LAYER_DEPTH)
        return copse_fail(COPSE_ERR_ARGUMENT, "layer: nested more than %d deep", COPSE_LAYER_DEPTH);
    return count > COPSE_LAYER_MOST
               ? copse_fail(COPSE_ERR_ARGUMENT, "layer: %zu layers are more than %d", count,
                            COPSE_LAYER_MOST)
               : COPSE_OK;
}

/* ---- messages ---- */

char *copse__layer_where(const copse_layer *l, char *text)
{
    char own[COPSE_LAYER_NAME - 48] = "";
    struct copse_layer_writer w = { own, sizeof own, 0 };
    int at = 0;
    if (l->line > 0)
        at = snprintf(text, COPSE_LAYER_NAME, "line %u, ", (unsigned)l->line);
    copse__layer_write(&w, "%s", l->kind->name ? l->kind->name : "layers");
    copse__layer_write_settings(&w, l);
    snprintf(text + at, COPSE_LAYER_NAME - (size_t)at, "layer %u '%s%s'", (unsigned)l->number, own,
             w.at >= sizeof own ? "..." : "");
    return text;
}

copse_status copse__layer_fail(const copse_layer *l, copse_status code, const char *file, int line,
                               const char *fmt, ...)
{
    char where[COPSE_LAYER_NAME], text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return copse__fail(code, file, line, "%s: %s", copse__layer_where(l, where), text);
}
