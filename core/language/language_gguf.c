/* SPDX-License-Identifier: MIT */
/* What a language model of a GGUF file is, from its keys. */
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

/* Positions are scaled where a type says so, or a factor without a type. */
static copse_status check_scaling(const copse_language *l, const copse_gguf *f)
{
    static const char *const factors[] = { "rope.scaling.factor", "rope.scale_linear" };
    struct copse_gguf_value v;
    if (read_key(l, f, "rope.scaling.type", &v) && v.text)
        return v.size == 4 && memcmp(v.text, "none", 4) == 0
                   ? COPSE_OK
                   : copse_fail(
                         COPSE_ERR_UNSUPPORTED,
                         "%s scales its rotary positions (%.*s): only unscaled ones are computed",
                         l->path, (int)COPSE_MIN(v.size, (size_t)64), v.text);
    for (size_t i = 0; i < COPSE_COUNT(factors); i++)
        if (read_key(l, f, factors[i], &v) && !(v.real == 0.0 || v.real == 1.0))
            return copse_fail(
                COPSE_ERR_UNSUPPORTED,
                "%s scales its rotary positions (\"%s.%s\" is %g): only unscaled ones "
                "are computed",
                l->path, l->architecture->name, factors[i], v.real);
    return COPSE_OK;
}

static copse_status check_turns(const copse_language *l, const copse_gguf *f)
{
    struct copse_gguf_value v;
    COPSE_TRY(check_scaling(l, f));
    if (read_key(l, f, "rope.dimension_count", &v) && v.whole != l->is.head)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "%s turns %lld of the %u numbers of a head: only all of them are turned",
                          l->path, (long long)v.whole, l->is.head);
    return COPSE_OK;
}

static copse_status read_sizes(copse_language *l, const copse_gguf *f)
{
    struct copse_language_sizes *is = &l->is;
    struct copse_gguf_value v;
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
    if (read_key(l, f, "attention.sliding_window", &v) && v.whole > 0 && v.whole < INT32_MAX)
        is->window = (uint32_t)v.whole;
    if (!table || table->rank != 2 || table->shape[0] != l->tokenizer.count)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no embedding of its %u tokens", l->path,
                          l->tokenizer.count);
    is->vocabulary = l->tokenizer.count;
    is->is_tied = !copse_gguf_find(f, copse__parts[COPSE_PART_HEAD].gguf);
    is->has_turns = copse_gguf_find(f, copse__parts[COPSE_PART_TURNS].gguf) != NULL;
    return check_turns(l, f);
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
                          "%s has the architecture \"%.*s\"; llama, qwen2, qwen3 and gemma are "
                          "known",
                          l->path, (int)COPSE_MIN(v.size, (size_t)64), v.text ? v.text : "");
    COPSE_TRY(copse__tokenizer_read_gguf(&l->tokenizer, f, l->path));
    COPSE_TRY(read_sizes(l, f));
    if (copse_gguf_get(f, "tokenizer.chat_template", 0, &v) == COPSE_OK && v.text) {
        char *kept = copse__arena_alloc(&l->arena, v.size + 1, 1);
        if (!kept)
            return copse_no_memory("language");
        memcpy(kept, v.text, v.size);
        copse__chat_find(&l->chat, kept, v.size);
    }
    return COPSE_OK;
}
