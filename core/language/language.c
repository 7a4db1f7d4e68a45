/* SPDX-License-Identifier: MIT */
/* A language model: its life, what it is, its tokens. */
#include "core/language/adapter.h"
#include "core/language/model_source.h"

#include "core/replica/strategy.h"
#include "core/variable/variable.h"

copse_status copse_language_open(copse_strategy *st, const char *path,
                                 const struct copse_language_params *params, copse_language **out)
{
    static const struct copse_language_params normal = { .weights = COPSE_WEIGHTS_FILE };
    struct copse_model_source source = { .gguf = NULL };
    COPSE_TRY(copse_need("language", out));
    *out = NULL;
    COPSE_TRY(copse_need("language", st, path));
    params = params ? params : &normal;
    COPSE_TRY(copse_no_reserved(copse_language_params, params));
    if (params->weights > COPSE_WEIGHTS_F32)
        return copse_fail(COPSE_ERR_ARGUMENT, "language: weights %d: not COPSE_WEIGHTS_...",
                          (int)params->weights);
    COPSE_TRY(copse__require_no_replica("copse_language_open", st));
    struct copse_mem *mem = &st->ctx->base.mem;
    copse_language *l = copse__alloc(mem, 1, sizeof *l);
    if (!l)
        return copse_no_memory("language: %s", path);
    l->strategy = copse_strategy_retain(st);
    l->keeps_blocks = params->weights == COPSE_WEIGHTS_FILE;
    l->arena.mem = l->tokenizer.mem = l->tokenizer.arena.mem = mem;
    copse_status s =
        copse_need_memory(l->path = copse__arena_strdup(&l->arena, path), "language: %s", path);
    if (s == COPSE_OK)
        s = copse__model_source_open(&source, st->ctx, path);
    if (s == COPSE_OK)
        s = copse__language_read(l, &source);
    if (s == COPSE_OK)
        s = copse__chat_date(l, params->date);
    if (s == COPSE_OK)
        s = copse__predictor_init(&l->predictor, st, l, COPSE_LANGUAGE_RECORDINGS);
    copse__model_source_close(&source);
    if (s != COPSE_OK)
        copse_language_release(&l);
    *out = l;
    return s;
}

/* The variables go with the model, if nothing else can use them. */
static void release_variables(copse_language *l)
{
    if (l->variable_count > 0 &&
        !copse__variables_release(l->strategy, l->variables, l->variable_count))
        copse__log(&l->strategy->ctx->base.log, COPSE_LOG_INFO,
                   "language: its %zu variables stay with the strategy, which has trainers, calls, "
                   "values or workers that may use them",
                   l->variable_count);
}

void copse_language_release(copse_language **language)
{
    copse_language *l = language ? *language : NULL;
    if (!l)
        return;
    *language = NULL;
    copse_strategy *st = l->strategy;
    copse_context *ctx = copse_context_retain(st->ctx); /* the memory lives in it */
    struct copse_mem *mem = l->arena.mem;
    if (l->predictor.strategy)
        copse__predictor_fini(&l->predictor);
    copse__adapter_drop(l);
    release_variables(l);
    copse__tokenizer_fini(&l->tokenizer);
    copse__arena_fini(&l->arena);
    copse__free(mem, l);
    copse_strategy_release(&st);
    copse_context_release(&ctx);
}

copse_status copse_language_describe(const copse_language *language,
                                     struct copse_language_info *out)
{
    COPSE_TRY(copse_need("language", language, out));
    const struct copse_language_sizes *is = &language->is;
    *out = (struct copse_language_info){
        .architecture = language->architecture->name,
        .chat = language->chat.form ? language->chat.form->name : "",
        .parameters = language->parameters,
        .layers = is->layers,
        .width = is->width,
        .heads = is->heads,
        .kv_heads = is->kv_heads,
        .vocabulary = is->vocabulary,
        .context = is->context,
        .weight_bytes = language->weight_bytes,
    };
    return COPSE_OK;
}

copse_status copse__language_encode(copse_language *l, const char *text, size_t size,
                                    struct copse_tokens *out)
{
    struct copse_tokenizer *t = &l->tokenizer;
    out->begin = out->count;
    if (t->adds_begin && t->begin != COPSE_NO_TOKEN && !COPSE_PUSH(t->mem, out, (int32_t)t->begin))
        return copse_no_memory("language");
    return copse__tokenizer_encode(t, text, size, true, out);
}

copse_status copse_language_encode(copse_language *language, const char *text, size_t size,
                                   int32_t *tokens, size_t room, size_t *count)
{
    struct copse_tokens list = { .count = 0 };
    COPSE_TRY(copse_need("language", language, text, count));
    *count = 0;
    if (room > 0)
        COPSE_TRY(copse_need("language", tokens));
    copse_status s = copse__language_encode(language, text, size, &list);
    if (s == COPSE_OK)
        *count = list.count;
    for (size_t i = 0; s == COPSE_OK && i < list.count && i < room; i++)
        tokens[i] = list.at[i];
    copse__free(language->arena.mem, list.at);
    return s;
}

const char *copse_language_token(const copse_language *language, int32_t token, size_t *size)
{
    const bool is_there = language && token >= 0 && (uint32_t)token < language->tokenizer.count;
    if (size)
        *size = is_there ? language->tokenizer.tokens[token].size : 0;
    return is_there ? language->tokenizer.tokens[token].text : NULL;
}
