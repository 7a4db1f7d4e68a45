/* SPDX-License-Identifier: MIT */
/* Texts written by a language model. The prompt is computed in chunks, then each token alone: keys
   and values of all earlier ones are kept in host memory. */
#include "core/base/callback.h"
#include "core/language/language.h"
#include "core/model/sampling.h"

#define FEWEST_SLOTS 64u

struct writing {
    copse_language *l;
    struct copse_tokens tokens; /* prompt and what follows */
    uint32_t used;              /* tokens with keys and values */
    struct {
        float *at;
        size_t count, room;
    } past;                          /* [slots, memory]; those after `used` are 0 */
    struct copse_language_inputs in; /* with memory for a chunk and all slots */
    float *outputs;                  /* [vocabulary + chunk memory] */
    struct copse_candidate *candidates;
};

/* Tokens that fit, by the limits of attention and of a tensor with all keys and values; a multiple
   of a chunk, so that no chunk begins in front of the limit and ends after it. */
static uint32_t writing_most(const copse_language *l)
{
    const size_t most = INT32_MAX / copse__language_memory(l);
    return (uint32_t)COPSE_MIN(most, (size_t)COPSE_LANGUAGE_LONGEST) / COPSE_LANGUAGE_CHUNK *
           COPSE_LANGUAGE_CHUNK;
}

static copse_status writing_make(struct writing *w, const char *prompt, size_t size,
                                 uint64_t length)
{
    copse_language *l = w->l;
    struct copse_mem *mem = l->arena.mem;
    COPSE_TRY(copse__language_encode(l, prompt, size, &w->tokens));
    if (w->tokens.count == 0 &&
        !COPSE_PUSH(mem, &w->tokens,
                    (int32_t)(l->tokenizer.begin != COPSE_NO_TOKEN ? l->tokenizer.begin : 0)))
        return copse_no_memory("language");
    const uint64_t most = COPSE_MIN(l->is.context, writing_most(l));
    if (w->tokens.count > most || length > most - w->tokens.count)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "language: a prompt of %zu tokens and %llu new ones are more than the %llu "
            "that the model takes",
            w->tokens.count, (unsigned long long)length, (unsigned long long)most);
    const size_t all = copse__round_up(w->tokens.count + (size_t)length, FEWEST_SLOTS) * 2;
    const bool has_inputs =
        copse__language_inputs_make(l, &w->in, COPSE_LANGUAGE_CHUNK, all + COPSE_LANGUAGE_CHUNK);
    w->outputs =
        copse__alloc(mem, l->is.vocabulary + COPSE_LANGUAGE_CHUNK * copse__language_memory(l),
                     sizeof *w->outputs);
    w->candidates = copse__alloc(mem, l->is.vocabulary, sizeof *w->candidates);
    return copse_need_memory(has_inputs && w->outputs && w->candidates, "language");
}

/* Memory of at least `used` slots. Their number doubles, so that few programs are recorded; the
   last number leaves room for the new keys below the limit. */
static copse_status writing_grow(struct writing *w)
{
    uint32_t slots = w->used > 0 ? FEWEST_SLOTS : 0;
    while (slots < w->used)
        slots *= 2;
    slots = COPSE_MIN(slots, writing_most(w->l) - w->in.count);
    const size_t before = w->past.count, all = slots * copse__language_memory(w->l);
    if (all > before) {
        if (!COPSE_RESERVE(w->l->arena.mem, &w->past, all))
            return copse_no_memory("language");
        memset(w->past.at + before, 0, (all - before) * sizeof *w->past.at);
        w->past.count = all;
    }
    w->in.slots = slots;
    w->in.past = w->past.at;
    return COPSE_OK;
}

/* Compute up to a chunk of the tokens that are not computed yet; the outputs after the last. */
static copse_status writing_step(struct writing *w)
{
    copse_language *l = w->l;
    const size_t memory = copse__language_memory(l);
    const uint32_t left = (uint32_t)w->tokens.count - w->used,
                   real = COPSE_MIN(left, COPSE_LANGUAGE_CHUNK);
    const int32_t last = (int32_t)real - 1;
    w->in.count = real == 1 ? 1 : COPSE_LANGUAGE_CHUNK;
    COPSE_TRY(writing_grow(w));
    for (uint32_t i = 0; i < w->in.count; i++) /* those after the last are not seen by others */
        w->in.tokens[i] = i < real ? w->tokens.at[w->used + i] : 0;
    copse__language_place(l, &w->in, w->used, w->used);
    COPSE_TRY(
        copse__language_run(l, &w->in, last, w->outputs, l->is.vocabulary + w->in.count * memory));
    const size_t before = w->used * memory, fresh = real * memory;
    if (before + fresh > w->past.count) {
        if (!COPSE_RESERVE(l->arena.mem, &w->past, before + fresh))
            return copse_no_memory("language");
        w->past.count = before + fresh;
    }
    memcpy(w->past.at + before, w->outputs + l->is.vocabulary, fresh * sizeof *w->outputs);
    w->used += real;
    return COPSE_OK;
}

static copse_status writing_run(struct writing *w, const struct copse_generate_params *how,
                                copse_token_fn *take, void *user)
{
    struct copse_callback callback = { .name = "the function that takes the tokens of a model",
                                       .used = { w->l->strategy } };
    uint32_t token;
    for (uint64_t i = 0; i < how->length; i++) {
        while (w->used < w->tokens.count)
            COPSE_TRY(writing_step(w));
        COPSE_TRY(copse__sample(w->outputs, w->l->is.vocabulary, how, i, w->candidates, &token));
        if (w->l->tokenizer.tokens[token].is_end)
            return COPSE_OK;
        if (!COPSE_PUSH(w->l->arena.mem, &w->tokens, (int32_t)token))
            return copse_no_memory("language");
        const struct copse_token *t = &w->l->tokenizer.tokens[token];
        COPSE_TRY(copse_callback_call(&callback, take(user, token, t->text, t->size)));
    }
    return COPSE_OK;
}

copse_status copse_language_generate(copse_language *language, const char *prompt, size_t size,
                                     const struct copse_generate_params *params,
                                     copse_token_fn *take, void *user)
{
    struct writing w = { .l = language };
    COPSE_TRY(copse_need("language", language, params, take));
    COPSE_TRY(copse_no_reserved(copse_generate_params, params));
    COPSE_TRY(copse__require_no_replica("copse_language_generate", language->strategy));
    COPSE_TRY(copse__sampling_check(params));
    if (params->length == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "language: the length is 0; it must be at least 1");
    struct copse_mem *mem = language->arena.mem;
    copse_status s = writing_make(&w, prompt ? prompt : "", prompt ? size : 0, params->length);
    if (s == COPSE_OK)
        s = writing_run(&w, params, take, user);
    copse__free(mem, w.tokens.at);
    copse__free(mem, w.past.at);
    copse__language_inputs_free(language, &w.in);
    copse__free(mem, w.candidates);
    copse__free_read(mem, w.outputs, s);
    return s;
}
