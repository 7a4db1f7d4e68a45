/* SPDX-License-Identifier: MIT */
/* The tokenizer in the keys of a GGUF file: texts, kinds and scores of tokens, merges. Files write
   bytes as letters: `gpt2` each byte as a letter of its own, `llama` a space as U+2581 and single
   bytes as <0x41>. */
#include "core/language/tokenizer_gguf.h"

#include "core/language/unicode.h"

#define KEY(name) "tokenizer.ggml." name

#define MOST_TOKENS (1u << 20)
#define MOST_MERGES (1u << 22)

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

/* ---- the letters of a file ---- */

/* GPT-2's vocabulary writes each byte as a letter: printable bytes of Latin-1 as themselves, the
   others in their order from U+0100 on. Returns the byte, -1: c is no such letter. */
static int letter_byte(uint32_t c)
{
    if ((c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xff && c != 0xad))
        return (int)c;
    const uint32_t n = c - 0x100;
    return c < 0x100 || n > 67 ? -1 : n < 33 ? (int)n : n < 67 ? (int)n - 33 + 0x7f : 0xad;
}

/* The bytes of a text that is written in these letters; returns how many. Other letters stay. */
static size_t text_of_letters(const char *text, size_t size, char *to)
{
    size_t n = 0;
    uint32_t c;
    for (size_t at = 0, step; at < size; at += step) {
        step = copse__character_read(text + at, size - at, &c);
        const int byte = letter_byte(c);
        if (byte >= 0)
            to[n++] = (char)byte;
        for (size_t i = 0; byte < 0 && i < step; i++)
            to[n++] = text[at + i];
    }
    return n;
}

/* U+2581 as a space. */
static size_t text_of_spaces(const char *text, size_t size, char *to)
{
    size_t n = 0;
    for (size_t at = 0; at < size; at++)
        if (size - at >= 3 && memcmp(text + at, "\xe2\x96\x81", 3) == 0) {
            to[n++] = ' ';
            at += 2;
        } else {
            to[n++] = text[at];
        }
    return n;
}

/* "<0x41>" */
static int byte_named(const char *text, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high = size == 6 ? memchr(digits, text[3], 16) : NULL,
               *low = size == 6 ? memchr(digits, text[4], 16) : NULL;
    return high && low && memcmp(text, "<0x", 3) == 0
               ? (int)(high - digits) * 16 + (int)(low - digits)
               : -1;
}

/* ---- tokens ---- */

static copse_status read_token(const struct tokenizer_file *in, uint32_t i)
{
    struct copse_tokenizer *t = in->t;
    struct copse_token *token = &t->tokens[i];
    struct copse_gguf_value text, kind, score;
    COPSE_TRY(copse_gguf_get(in->f, KEY("tokens"), i, &text));
    if (!file_get(in, KEY("token_type"), i, &kind))
        kind.whole = KIND_NORMAL;
    file_get(in, KEY("scores"), i, &score);
    if (text.size > UINT32_MAX / 2)
        return copse_fail(COPSE_ERR_FORMAT, "%s: a token has %zu bytes", in->path, text.size);
    char *bytes = copse__arena_alloc(&t->arena, text.size + 1, 1);
    if (!bytes)
        return copse_no_memory("tokenizer: %s", in->path);
    const int byte = kind.whole == KIND_BYTE ? byte_named(text.text, text.size) : -1;
    token->is_named = kind.whole == KIND_CONTROL || kind.whole == KIND_ADDED;
    token->is_special = kind.whole == KIND_CONTROL || kind.whole == KIND_UNKNOWN;
    token->score = (float)score.real;
    token->text = bytes;
    if (byte >= 0) {
        *bytes = (char)byte;
        token->is_byte = true;
        token->size = 1;
        t->bytes[byte] = i;
    } else if (token->is_named || token->is_special) {
        memcpy(bytes, text.text, text.size);
        token->size = (uint32_t)text.size;
    } else {
        token->size = (uint32_t)(t->words ? text_of_letters(text.text, text.size, bytes)
                                          : text_of_spaces(text.text, text.size, bytes));
    }
    return COPSE_OK;
}

/* "left right": the first space after the first letter parts them. */
static copse_status read_merges(const struct tokenizer_file *in)
{
    char left[512], right[512];
    struct copse_gguf_value v;
    const uint64_t count = file_count(in, KEY("merges"), COPSE_GGUF_TEXT);
    if (count == 0 || count > MOST_MERGES)
        return copse_fail(COPSE_ERR_FORMAT, "%s has %llu merges of its tokens; 1 to %u are read",
                          in->path, (unsigned long long)count, MOST_MERGES);
    COPSE_TRY(copse__tokenizer_merges(in->t, (size_t)count));
    for (uint32_t i = 0; i < count; i++) {
        COPSE_TRY(copse_gguf_get(in->f, KEY("merges"), i, &v));
        const char *space = v.size > 1 ? memchr(v.text + 1, ' ', v.size - 1) : NULL;
        const size_t n = space ? (size_t)(space - v.text) : 0;
        const size_t m = space ? v.size - n - 1 : 0;
        bool ok = n > 0 && m > 0 && n <= sizeof left && m <= sizeof right;
        if (ok) {
            const size_t a = text_of_letters(v.text, n, left),
                         b = text_of_letters(space + 1, m, right);
            ok = copse__tokenizer_merge(in->t, left, a, right, b, i);
        }
        if (!ok)
            return copse_fail(COPSE_ERR_FORMAT, "%s: merge %u does not join two tokens to one",
                              in->path, i);
    }
    return COPSE_OK;
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

/* A vocabulary of bytes has all that texts in UTF-8 can have, or a token for what is unknown. */
static copse_status check_bytes(const struct tokenizer_file *in)
{
    const struct copse_tokenizer *t = in->t;
    for (unsigned byte = 0; t->words && t->unknown == COPSE_NO_TOKEN && byte < 0xf5; byte++)
        if (t->bytes[byte] == COPSE_NO_TOKEN && byte != 0xc0 && byte != 0xc1)
            return copse_fail(COPSE_ERR_FORMAT,
                              "%s: its vocabulary has neither a token for the byte 0x%02x nor one "
                              "for what is unknown",
                              in->path, byte);
    return COPSE_OK;
}

copse_status copse__tokenizer_read_gguf(struct copse_tokenizer *t, const copse_gguf *f,
                                        const char *path)
{
    const struct tokenizer_file in = { t, f, path };
    const uint64_t count = file_count(&in, KEY("tokens"), COPSE_GGUF_TEXT);
    if (count == 0 || count > MOST_TOKENS)
        return copse_fail(COPSE_ERR_FORMAT, "%s has %llu tokens; 1 to %u are read", path,
                          (unsigned long long)count, MOST_TOKENS);
    t->count = (uint32_t)count;
    COPSE_TRY(choose_words(&in));
    COPSE_TRY(copse__tokenizer_begin(t));
    for (uint32_t i = 0; i < t->count; i++)
        COPSE_TRY(read_token(&in, i));
    COPSE_TRY(copse__tokenizer_index(t));
    if (t->words)
        COPSE_TRY(read_merges(&in));
    t->begin = token_of(&in, KEY("bos_token_id"));
    t->end = token_of(&in, KEY("eos_token_id"));
    t->unknown = token_of(&in, KEY("unknown_token_id"));
    t->adds_space = flag_of(&in, KEY("add_space_prefix"), !t->words);
    t->adds_begin = flag_of(&in, KEY("add_bos_token"), !t->words || t->words->adds_begin);
    return check_bytes(&in);
}
