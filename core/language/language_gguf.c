/* SPDX-License-Identifier: MIT */
/* What a language model of a GGUF file is, from its keys. */
#include <math.h>
#include <stdio.h>

#include "core/language/model_source.h"
#include "core/language/tokenizer_gguf.h"

/* ---- sizes ---- */

/* "llama.block_count" and so on. False: the file lacks it. */
static bool read_key(const copse_language *l, const copse_gguf *f, const char *name,
                     struct copse_gguf_value *v)
{
    char key[COPSE_PART_NAME];
    snprintf(key, sizeof key, "%s.%s", l->architecture->name, name);
    return copse_gguf_get(f, key, 0, v) == COPSE_OK;
}

/* A size; `normal` where the file lacks it, 0: it must not. */
static copse_status read_size(const copse_language *l, const copse_gguf *f, const char *name,
                              uint32_t normal, uint32_t *out)
{
    struct copse_gguf_value v;
    *out = normal;
    const bool is_there = read_key(l, f, name, &v);
    if (!is_there && normal > 0)
        return COPSE_OK;
    if (!is_there)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no key \"%s.%s\"", l->path,
                          l->architecture->name, name);
    if (v.kind != COPSE_GGUF_WHOLE || v.whole < 1 || v.whole > INT32_MAX)
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s.%s\" is no number from 1 to %d", l->path,
                          l->architecture->name, name, INT32_MAX);
    *out = (uint32_t)v.whole;
    return COPSE_OK;
}

static copse_status read_real(const copse_language *l, const copse_gguf *f, const char *name,
                              float normal, float *out)
{
    struct copse_gguf_value v = { .real = (double)normal };
    const bool is_there = read_key(l, f, name, &v);
    *out = is_there ? (float)v.real : normal;
    return *out > 0.0f && *out < 1e30f
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT, "%s: \"%s.%s\" is no positive number", l->path,
                            l->architecture->name, name);
}

static bool is_text(const struct copse_gguf_value *v, const char *text)
{
    return v->text && v->size == strlen(text) && memcmp(v->text, text, v->size) == 0;
}

/* Positions are scaled where a type says so, or a factor without a type; a factor of 0 is none. */
static copse_status read_scaling(copse_language *l, const copse_gguf *f)
{
    static const char *const factors[] = { "rope.scaling.factor", "rope.scale_linear" };
    struct copse_gguf_value v;
    l->is.stretch = 1.0f;
    if (read_key(l, f, "rope.scaling.type", &v) && v.text) {
        if (is_text(&v, "none"))
            return COPSE_OK;
        if (!is_text(&v, "linear"))
            return copse_fail(COPSE_ERR_UNSUPPORTED,
                              "%s scales its rotary positions (%.*s): unscaled and linear ones "
                              "are computed",
                              l->path, (int)COPSE_MIN(v.size, (size_t)64), v.text);
    }
    for (size_t i = 0; i < COPSE_COUNT(factors); i++) {
        if (!read_key(l, f, factors[i], &v))
            continue;
        if (!(v.real == 0.0 || (v.real > 1e-6 && v.real < 1e30)))
            return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s.%s\" is no positive number", l->path,
                              l->architecture->name, factors[i]);
        l->is.stretch = v.real > 0.0 ? (float)v.real : 1.0f;
        return COPSE_OK;
    }
    return COPSE_OK;
}

static copse_status read_turns(copse_language *l, const copse_gguf *f)
{
    struct copse_gguf_value v;
    COPSE_TRY(read_scaling(l, f));
    if (l->architecture->near_base > 0.0f)
        COPSE_TRY(
            read_real(l, f, "rope.freq_base_swa", l->architecture->near_base, &l->is.near_base));
    if (read_key(l, f, "rope.dimension_count", &v) && v.whole != l->is.head)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s turns %lld of the %u numbers of a head: only all of them are turned",
                          l->path, (long long)v.whole, l->is.head);
    return COPSE_OK;
}

/* Layers with a window: by a period, or a list of all layers. */
static copse_status read_window(copse_language *l, const copse_gguf *f)
{
    static const char name[] = "attention.sliding_window_pattern";
    struct copse_language_sizes *is = &l->is;
    struct copse_gguf_value v;
    uint32_t period = l->architecture->period;
    is->window = l->architecture->window;
    if (read_key(l, f, "attention.sliding_window", &v))
        is->window = v.whole > 0 && v.whole < INT32_MAX ? (uint32_t)v.whole : 0;
    const bool has_pattern = period > 0 && is->window > 0 && read_key(l, f, name, &v),
               is_list = has_pattern && v.kind == COPSE_GGUF_BOOL;
    if (has_pattern && !is_list)
        COPSE_TRY(read_size(l, f, name, period, &period));
    COPSE_TRY(copse__language_slide(l, period));
    for (uint32_t i = 0; is_list && i < is->layers; i++) {
        char key[COPSE_PART_NAME];
        snprintf(key, sizeof key, "%s.%s", l->architecture->name, name);
        if (copse_gguf_get(f, key, i, &v) != COPSE_OK)
            return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s\" has %u layers, the model %u", l->path,
                              key, i, is->layers);
        l->slides[i] = v.whole != 0;
    }
    return COPSE_OK;
}

/* A cap; 0: there is none. */
static copse_status read_cap(const copse_language *l, const copse_gguf *f, const char *name,
                             float normal, float *out)
{
    struct copse_gguf_value v;
    *out = normal;
    if (!l->architecture->has_caps || !read_key(l, f, name, &v))
        return COPSE_OK;
    if (!(v.real == 0.0 || (v.real > 1e-6 && v.real < 1e30)))
        return copse_fail(COPSE_ERR_FORMAT, "%s: \"%s.%s\" is no cap", l->path,
                          l->architecture->name, name);
    *out = (float)v.real;
    return COPSE_OK;
}

static copse_status read_sizes(copse_language *l, const copse_gguf *f)
{
    struct copse_language_sizes *is = &l->is;
    const struct copse_gguf_tensor *table =
        copse_gguf_find(f, copse__parts[COPSE_PART_EMBEDDING].gguf);
    COPSE_TRY(read_size(l, f, "block_count", 0, &is->layers));
    COPSE_TRY(read_size(l, f, "embedding_length", 0, &is->width));
    COPSE_TRY(read_size(l, f, "feed_forward_length", 0, &is->hidden));
    COPSE_TRY(read_size(l, f, "attention.head_count", 0, &is->heads));
    COPSE_TRY(read_size(l, f, "attention.head_count_kv", is->heads, &is->kv_heads));
    COPSE_TRY(
        read_size(l, f, "attention.key_length", COPSE_MAX(is->width / is->heads, 1u), &is->head));
    COPSE_TRY(read_size(l, f, "context_length", 0, &is->context));
    COPSE_TRY(read_real(l, f, "rope.freq_base", 10000.0f, &is->base));
    COPSE_TRY(read_real(l, f, "attention.layer_norm_rms_epsilon", 0.0f, &is->epsilon));
    COPSE_TRY(read_cap(l, f, "attn_logit_softcapping", l->architecture->cap, &is->cap));
    COPSE_TRY(read_cap(l, f, "final_logit_softcapping", l->architecture->last_cap, &is->last_cap));
    if (!table || table->rank != 2 || table->shape[0] != l->tokenizer.count)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no embedding of its %u tokens", l->path,
                          l->tokenizer.count);
    is->vocabulary = l->tokenizer.count;
    is->is_tied = !copse_gguf_find(f, copse__parts[COPSE_PART_HEAD].gguf);
    is->has_turns = copse_gguf_find(f, copse__parts[COPSE_PART_TURNS].gguf) != NULL;
    COPSE_TRY(copse__sizes_check(is, l->path));
    if (is->layers == l->architecture->largest)
        is->scale = 1.0f / sqrtf((float)is->width / (float)is->heads);
    COPSE_TRY(read_window(l, f));
    return read_turns(l, f);
}

copse_status copse__language_describe_gguf(copse_language *l, const struct copse_model_source *s)
{
    const copse_gguf *f = s->gguf;
    struct copse_gguf_value v;
    if (copse_gguf_get(f, "general.architecture", 0, &v) != COPSE_OK)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no key \"general.architecture\"", l->path);
    l->architecture = v.text ? copse__architecture_find(v.text, v.size) : NULL;
    if (!l->architecture)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s has the architecture \"%.*s\"; llama, qwen2, qwen3, gemma, "
                          "gemma2 and gemma3 are known",
                          l->path, (int)COPSE_MIN(v.size, (size_t)64), v.text ? v.text : "");
    COPSE_TRY(copse__tokenizer_read_gguf(&l->tokenizer, f, l->path));
    COPSE_TRY(read_sizes(l, f));
    if (copse_gguf_get(f, "tokenizer.chat_template", 0, &v) == COPSE_OK && v.text) {
        char *kept = copse__arena_alloc(&l->arena, v.size + 1, 1);
        if (!kept)
            return copse_no_memory("language");
        memcpy(kept, v.text, v.size);
        copse__chat_find(l, kept, v.size);
    }
    return COPSE_OK;
}
