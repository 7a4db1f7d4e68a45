/* SPDX-License-Identifier: MIT */
/* The tokenizer in the keys of a GGUF file: texts, kinds and scores of tokens, merges. */
#include "core/language/tokenizer_gguf.h"

#define KEY(name) "tokenizer.ggml." name

enum { KIND_NORMAL = 1, KIND_UNKNOWN = 2, KIND_CONTROL = 3, KIND_ADDED = 4, KIND_BYTE = 6 };

struct tokenizer_file {
    struct copse_tokenizer *t;
    const copse_gguf *f;
    const char *path;
};

/* A value that a file may lack. */
static bool file_get(const struct tokenizer_file *in, const char *key, uint64_t i,
                     struct copse_gguf_value *v)
{
    const bool is_there = copse_gguf_get(in->f, key, i, v) == COPSE_OK;
    if (!is_there)
        *v = (struct copse_gguf_value){ .whole = 0 };
    return is_there;
}

static uint64_t file_count(const struct tokenizer_file *in, const char *key, copse_gguf_kind kind)
{
    size_t count;
    const struct copse_gguf_key *keys = copse_gguf_keys(in->f, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].name, key) == 0)
            return keys[i].is_list && keys[i].kind == kind ? keys[i].count : 0;
    return 0;
}

/* ---- tokens ---- */

static enum copse_token_kind token_kind(int64_t kind)
{
    return kind == KIND_UNKNOWN   ? COPSE_TOKEN_UNKNOWN
           : kind == KIND_CONTROL ? COPSE_TOKEN_CONTROL
           : kind == KIND_ADDED   ? COPSE_TOKEN_ADDED
           : kind == KIND_BYTE    ? COPSE_TOKEN_BYTE
                                  : COPSE_TOKEN_NORMAL;
}

static copse_status read_token(const struct tokenizer_file *in, uint32_t i)
{
    struct copse_gguf_value text, kind, score;
    COPSE_TRY(copse_gguf_get(in->f, KEY("tokens"), i, &text));
    if (!file_get(in, KEY("token_type"), i, &kind))
        kind.whole = KIND_NORMAL;
    file_get(in, KEY("scores"), i, &score);
    if (text.size > UINT32_MAX / 2)
        return copse_fail(COPSE_ERR_FORMAT, "%s: a token has %zu bytes", in->path, text.size);
    COPSE_TRY(copse__tokenizer_set(in->t, i, token_kind(kind.whole), text.text, text.size));
    in->t->tokens[i].score = (float)score.real;
    return COPSE_OK;
}

/* "left right": the first space after the first letter parts them. */
static copse_status take_merges(const struct tokenizer_file *in, uint32_t count)
{
    struct copse_gguf_value v;
    for (uint32_t i = 0; i < count; i++) {
        COPSE_TRY(copse_gguf_get(in->f, KEY("merges"), i, &v));
        const char *space = v.size > 1 ? memchr(v.text + 1, ' ', v.size - 1) : NULL;
        const size_t n = space ? (size_t)(space - v.text) : 0;
        const size_t m = space ? v.size - n - 1 : 0;
        if (!space || !copse__tokenizer_join(in->t, v.text, n, space + 1, m, i))
            return copse_fail(COPSE_ERR_FORMAT, "%s: merge %u does not join two tokens to one",
                              in->path, i);
    }
    return COPSE_OK;
}

static copse_status read_merges(const struct tokenizer_file *in)
{
    const uint64_t count = file_count(in, KEY("merges"), COPSE_GGUF_TEXT);
    if (count == 0 || count > COPSE_MERGES_MOST)
        return copse_fail(COPSE_ERR_FORMAT, "%s has %llu merges of its tokens; 1 to %u are read",
                          in->path, (unsigned long long)count, COPSE_MERGES_MOST);
    COPSE_TRY(take_merges(in, (uint32_t)count)); /* wrong ones ask for no memory */
    COPSE_TRY(copse__tokenizer_merges(in->t, (size_t)count));
    return take_merges(in, (uint32_t)count);
}

/* ---- all ---- */

static copse_status choose_words(const struct tokenizer_file *in)
{
    struct copse_gguf_value model, pattern;
    if (!file_get(in, KEY("model"), 0, &model) || !model.text)
        return copse_fail(COPSE_ERR_FORMAT, "%s has no tokenizer", in->path);
    if (model.size == 5 && memcmp(model.text, "llama", 5) == 0)
        return COPSE_OK;
    if (model.size != 4 || memcmp(model.text, "gpt2", 4) != 0)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "%s has a tokenizer of the kind \"%.*s\"; \"gpt2\" and \"llama\" are read", in->path,
            (int)COPSE_MIN(model.size, (size_t)64), model.text);
    if (!file_get(in, KEY("pre"), 0, &pattern) || !pattern.text)
        pattern = (struct copse_gguf_value){ .text = "gpt-2", .size = 5 };
    in->t->words = copse__words_find(pattern.text, pattern.size);
    return in->t->words
               ? COPSE_OK
               : copse_fail(COPSE_ERR_UNSUPPORTED,
                            "%s: its tokenizer cuts words by the pattern \"%.*s\"; gpt-2, smollm, "
                            "starcoder, llama-bpe and qwen2 are known",
                            in->path, (int)COPSE_MIN(pattern.size, (size_t)64), pattern.text);
}

static uint32_t token_of(const struct tokenizer_file *in, const char *key)
{
    struct copse_gguf_value v;
    return file_get(in, key, 0, &v) && v.kind == COPSE_GGUF_WHOLE && v.whole >= 0 &&
                   v.whole < in->t->count
               ? (uint32_t)v.whole
               : COPSE_NO_TOKEN;
}

static bool flag_of(const struct tokenizer_file *in, const char *key, bool normal)
{
    struct copse_gguf_value v;
    return file_get(in, key, 0, &v) && v.kind == COPSE_GGUF_BOOL ? v.whole != 0 : normal;
}

copse_status copse__tokenizer_read_gguf(struct copse_tokenizer *t, const copse_gguf *f,
                                        const char *path)
{
    const struct tokenizer_file in = { t, f, path };
    const uint64_t count = file_count(&in, KEY("tokens"), COPSE_GGUF_TEXT);
    if (count == 0 || count > COPSE_TOKENS_MOST)
        return copse_fail(COPSE_ERR_FORMAT, "%s has %llu tokens; 1 to %u are read", path,
                          (unsigned long long)count, COPSE_TOKENS_MOST);
    t->count = (uint32_t)count;
    COPSE_TRY(choose_words(&in));
    COPSE_TRY(copse__tokenizer_begin(t));
    for (uint32_t i = 0; i < t->count; i++)
        COPSE_TRY(read_token(&in, i));
    COPSE_TRY(copse__tokenizer_index(t));
    if (t->words)
        COPSE_TRY(read_merges(&in));
    t->begin = token_of(&in, KEY("bos_token_id"));
    const uint32_t ends[] = { token_of(&in, KEY("eos_token_id")),
                              token_of(&in, KEY("eot_token_id")) }; /* of a text, of a turn */
    for (size_t i = 0; i < COPSE_COUNT(ends); i++)
        if (ends[i] != COPSE_NO_TOKEN)
            t->tokens[ends[i]].is_end = true;
    t->unknown = token_of(&in, KEY("unknown_token_id"));
    t->adds_space =
        flag_of(&in, KEY("add_space_prefix"), !t->words) ? COPSE_SPACE_EACH : COPSE_SPACE_NONE;
    t->adds_begin = flag_of(&in, KEY("add_bos_token"), !t->words || t->words->adds_begin);
    t->knows_whole = t->words && t->words->knows_whole;
    t->is_normalised = t->words && t->words->is_normalised;
    return copse__tokenizer_check(t, path);
}
