/* SPDX-License-Identifier: MIT */
/* Kinds of tokens: characters and bytes; byte_pairs.c has the third. */
#include "core/data/text/tokens.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/data/reader/byte_stream.h"
#include "core/data/text/byte_pairs.h"

#define CODES 0x110000u /* code points of Unicode */

const char *const copse__token_names[COPSE_TOKEN_KINDS] = { "characters", "bytes", "bpe" };

static copse_status tokens_empty(const struct copse_text *t)
{
    return copse_fail(COPSE_ERR_FORMAT, "text: %s is empty", t->name);
}

/* ---- characters ---- */

/* A character of valid UTF-8 at `p`, and its length. */
static uint32_t tokens_decode(const unsigned char *p, size_t *length)
{
    const unsigned char c = p[0];

    *length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    uint32_t code = c < 0x80 ? c : c & (0x7fu >> *length);
    for (size_t i = 1; i < *length; i++)
        code = code << 6 | (p[i] & 0x3f);
    return code;
}

static void tokens_encode(uint32_t code, char to[5])
{
    size_t n = 0;

    if (code < 0x80) {
        to[n++] = (char)code;
    } else {
        const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        to[n++] = (char)((0xf00 >> (more + 1) & 0xff) | code >> 6 * more);
        for (int i = more - 1; i >= 0; i--)
            to[n++] = (char)(0x80 | (code >> 6 * i & 0x3f));
    }
    to[n] = 0;
}

/* Reads the characters of a text, without its byte order mark. */
struct cursor {
    const struct copse_text *text;
    size_t at;
};

static struct cursor tokens_first(const struct copse_text *t)
{
    return (struct cursor){ t, t->size >= 3 && memcmp(t->bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0 };
}

/* The next character; CR LF is LF. False at the end. */
static bool tokens_next(struct cursor *c, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)c->text->bytes;
    size_t length;

    if (c->at == c->text->size)
        return false;
    if (p[c->at] == '\r' && c->at + 1 < c->text->size && p[c->at + 1] == '\n')
        c->at++;
    *code = tokens_decode(p + c->at, &length);
    c->at += length;
    return true;
}

/* "FILE: line 2, column 5" of the byte `at`, in `text`. */
static const char *tokens_place(const struct copse_text *t, size_t at, char text[600])
{
    uint64_t line = 1, column = 1;

    for (size_t i = tokens_first(t).at; i < at; i++) {
        const unsigned char c = (unsigned char)t->bytes[i];
        column += (c & 0xc0) != 0x80;
        if (c == '\n') {
            line++;
            column = 1;
        }
    }
    snprintf(text, 600, "%.500s: line %llu, column %llu", t->name, (unsigned long long)line,
             (unsigned long long)column);
    return text;
}

/* The error of the bytes at `at`, the first that are not valid. */
static const char *tokens_fault(const struct copse_text *t, size_t at)
{
    const unsigned char *p = (const unsigned char *)t->bytes + at, c = p[0];
    const size_t left = t->size - at, length = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    if (c == 0)
        return "a NUL";
    if (c < 0xc0)
        return "invalid UTF-8: a byte that continues no character";
    if (c > 0xf4)
        return c > 0xf7 ? "invalid UTF-8: a byte that begins no character"
                        : "invalid UTF-8: a character above U+10FFFF";
    if (c < 0xc2)
        return "invalid UTF-8: a character written with more bytes than it needs";
    for (size_t i = 1; i < length; i++) {
        if (i == left)
            return "invalid UTF-8: the text ends inside a character";
        if ((p[i] & 0xc0) != 0x80)
            return "invalid UTF-8: a character that is not complete";
    }
    return c == 0xed   ? "invalid UTF-8: a surrogate, half of a character of UTF-16"
           : c == 0xf4 ? "invalid UTF-8: a character above U+10FFFF"
                       : "invalid UTF-8: a character written with more bytes than it needs";
}

static copse_status check_utf8(const struct copse_text *t)
{
    const size_t valid = copse__utf8_valid(t->bytes, t->size);
    char text[600];

    if (valid == t->size)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_FORMAT,
                      "text: %s (byte %zu): %s; bytes (--tokens bytes) can be any file",
                      tokens_place(t, valid, text), valid, tokens_fault(t, valid));
}

/* Find the characters of a text: `seen` has a byte for each code point. */
static copse_status tokens_survey(const struct copse_text *t, unsigned char *seen, uint32_t *count)
{
    struct cursor c = tokens_first(t);
    size_t at = c.at;
    char text[600];

    for (uint32_t code; tokens_next(&c, &code); at = c.at) {
        *count += !seen[code];
        seen[code] = 1;
        if (*count > COPSE_NAMED_CLASSES_MAX)
            return copse_fail(
                COPSE_ERR_FORMAT,
                "text: %s: there are more than %u different characters; read it as bytes "
                "(--tokens bytes)",
                tokens_place(t, at, text), COPSE_NAMED_CLASSES_MAX);
    }
    return COPSE_OK;
}

static copse_status learn_characters(const struct copse_text *t, struct copse_arena *arena,
                                     struct copse_schema_parts *p)
{
    unsigned char *seen = copse__alloc(arena->mem, CODES, 1);
    uint32_t count = 0, n = 0;
    char text[5];

    copse_status s = seen != NULL ? check_utf8(t) : copse_no_memory("text: %s", t->name);
    if (s == COPSE_OK)
        s = tokens_survey(t, seen, &count);
    if (s == COPSE_OK && count == 0)
        s = tokens_empty(t);
    const char **classes = copse__arena_alloc(arena, count, sizeof *classes);
    if (s == COPSE_OK && classes == NULL)
        s = copse_no_memory("text: %s", t->name);
    for (uint32_t code = 0; s == COPSE_OK && code < CODES; code++) {
        if (!seen[code])
            continue;
        tokens_encode(code, text);
        classes[n] = copse__arena_strdup(arena, text);
        if (classes[n++] == NULL)
            s = copse_no_memory("text: %s", t->name);
    }
    copse__free(arena->mem, seen);
    p->classes = classes;
    p->knows_unseen = true;
    p->outputs = count;
    p->is_numbered = false;
    return s;
}

/* Fill `to` with the tokens of a text; `of` has for each code point its token, or -1. */
static copse_status tokens_fill(const struct copse_text *t, const struct copse_schema_parts *p,
                                const int32_t *of, void *to)
{
    struct cursor c = tokens_first(t);
    size_t at = c.at, n = 0;
    char text[600], name[5];

    for (uint32_t code; tokens_next(&c, &code); n++) {
        if (of[code] < 0) {
            tokens_encode(code < 0x20 || code == 0x7f ? '?' : code, name);
            return copse_fail(
                COPSE_ERR_FORMAT,
                "text: %s: the character \"%s\" (U+%04X) is none of the %u of the training text",
                tokens_place(t, at, text), name, (unsigned)code, p->outputs);
        }
        if (p->type == COPSE_U8)
            ((uint8_t *)to)[n] = (uint8_t)of[code];
        else
            ((int32_t *)to)[n] = of[code];
        at = c.at;
    }
    return COPSE_OK;
}

static copse_status encode_characters(copse_context *ctx, struct copse_text *t,
                                      const struct copse_schema_parts *p, copse_array **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    struct cursor c;
    size_t count = 0, length;
    uint32_t code;

    *out = NULL;
    COPSE_TRY(check_utf8(t));
    for (c = tokens_first(t); tokens_next(&c, &code);)
        count++;
    if (count == 0)
        return tokens_empty(t);
    int32_t *of = copse__alloc(mem, CODES, sizeof *of);
    if (of == NULL)
        return copse_no_memory("text: %s", t->name);
    for (uint32_t i = 0; i < CODES; i++)
        of[i] = -1;
    for (uint32_t i = 0; i < p->outputs; i++)
        of[tokens_decode((const unsigned char *)p->classes[i], &length)] = (int32_t)i;
    copse_status s =
        copse__array_create(ctx, p->type == COPSE_U8 ? COPSE_U8 : COPSE_I32, 1, &count, NULL, out);
    if (s == COPSE_OK)
        s = tokens_fill(t, p, of, (*out)->data);
    if (s != COPSE_OK)
        copse_array_release(out);
    copse__free(mem, of);
    return s;
}

static copse_status check_characters(struct copse_mem *mem, const struct copse_schema_parts *p)
{
    uint32_t before = 0;
    size_t length;

    (void)mem;
    if (p->classes == NULL || p->is_numbered)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "schema: the \"classes\" of a text of characters are an array, not numbered");
    if (p->outputs > COPSE_NAMED_CLASSES_MAX)
        return copse_fail(COPSE_ERR_FORMAT, "schema: a text has at most %u different characters",
                          COPSE_NAMED_CLASSES_MAX);
    for (uint32_t i = 0; i < p->outputs; i++) {
        const char *text = p->classes[i];
        const uint32_t code = tokens_decode((const unsigned char *)text, &length);
        if (code == 0 || strlen(text) != length || code <= before)
            return copse_fail(
                COPSE_ERR_FORMAT,
                "schema: the class %u of a text of characters is not one character, above the "
                "one before",
                i + 1);
        before = code;
    }
    return COPSE_OK;
}

static int64_t line_end_of_characters(const struct copse_schema_parts *p)
{
    for (uint32_t i = 0; i < p->outputs && (unsigned char)p->classes[i][0] <= '\n'; i++)
        if (p->classes[i][0] == '\n')
            return i;
    return -1;
}

static size_t text_of_character(const struct copse_schema_parts *p, uint32_t token,
                                char to[COPSE_TOKEN_BYTES])
{
    const size_t size = strlen(p->classes[token]); /* check_characters: one character */
    memcpy(to, p->classes[token], size);
    return size;
}

/* ---- bytes ---- */

static copse_status learn_bytes(const struct copse_text *t, struct copse_arena *arena,
                                struct copse_schema_parts *p)
{
    unsigned char seen[256] = { 0 };

    p->outputs = 256;
    p->is_numbered = true;
    for (size_t i = 0; i < t->size; i++)
        seen[(unsigned char)t->bytes[i]] = 1;
    return copse__note_unseen(arena, seen, p) ? COPSE_OK : copse_no_memory("text: %s", t->name);
}

static copse_status encode_bytes(copse_context *ctx, struct copse_text *t,
                                 const struct copse_schema_parts *p, copse_array **out)
{
    (void)p;
    *out = NULL;
    if (t->size == 0)
        return tokens_empty(t);
    COPSE_TRY(copse__array_create(ctx, COPSE_U8, 1, &t->size, t->bytes, out));
    t->bytes = NULL;
    return COPSE_OK;
}

static copse_status check_bytes(struct copse_mem *mem, const struct copse_schema_parts *p)
{
    (void)mem;
    return p->classes == NULL && p->is_numbered && p->outputs == 256
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT,
                            "schema: the \"classes\" of a text of bytes are 256, numbered");
}

static int64_t line_end_of_bytes(const struct copse_schema_parts *p)
{
    (void)p;
    return '\n';
}

static size_t text_of_byte(const struct copse_schema_parts *p, uint32_t token,
                           char to[COPSE_TOKEN_BYTES])
{
    (void)p;
    to[0] = (char)(unsigned char)token;
    return 1;
}

const struct copse_token_kind copse__token_kinds[COPSE_TOKEN_KINDS] = {
    [COPSE_TOKENS_CHARACTERS] = { "characters", false, learn_characters, encode_characters,
                                  check_characters, line_end_of_characters, text_of_character },
    [COPSE_TOKENS_BYTES] = { "bytes", false, learn_bytes, encode_bytes, check_bytes,
                             line_end_of_bytes, text_of_byte },
    [COPSE_TOKENS_BPE] = { "tokens", true, copse__byte_pairs_learn, copse__byte_pairs_encode,
                           copse__byte_pairs_check, copse__byte_pairs_line_end,
                           copse__byte_pairs_text },
};
