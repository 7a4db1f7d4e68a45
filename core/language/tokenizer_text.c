/* SPDX-License-Identifier: MIT */
/* Tokens as files write them: byte pairs write each byte as a letter of its own, pieces a space as
   U+2581 and single bytes as <0x41>. */
#include "core/language/tokenizer.h"
#include "core/language/unicode.h"

/* GPT-2's vocabulary writes each byte as a letter: printable bytes of Latin-1 as themselves, the
   others in their order from U+0100 on. Returns the byte, -1: c is no such letter. */
static int letter_byte(uint32_t c)
{
    if ((c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xff && c != 0xad))
        return (int)c;
    const uint32_t n = c - 0x100;
    return c < 0x100 || n > 67 ? -1 : n < 33 ? (int)n : n < 67 ? (int)n - 33 + 0x7f : 0xad;
}

/* The bytes of a text that is written in these letters; returns how many. Other letters stay, and
   *is_pure is false. */
static size_t text_of_letters(const char *text, size_t size, char *to, bool *is_pure)
{
    size_t n = 0;
    uint32_t c;
    for (size_t at = 0, step; at < size; at += step) {
        step = copse__character_read(text + at, size - at, &c);
        const int byte = letter_byte(c);
        *is_pure = *is_pure && byte >= 0;
        if (byte >= 0)
            to[n++] = (char)byte;
        for (size_t i = 0; byte < 0 && i < step; i++)
            to[n++] = text[at + i];
    }
    return n;
}

size_t copse__text_of_pieces(const char *text, size_t size, char *to, bool *is_pure)
{
    static const char mark[] = "\xe2\x96\x81"; /* U+2581 */
    size_t n = 0;
    for (size_t at = 0; at < size; at++)
        if (size - at >= 3 && memcmp(text + at, mark, 3) == 0) {
            to[n++] = ' ';
            at += 2;
        } else {
            *is_pure = *is_pure && text[at] != ' ';
            to[n++] = text[at];
        }
    return n;
}

static size_t text_of_file(const struct copse_tokenizer *t, const char *text, size_t size, char *to,
                           bool *is_pure)
{
    *is_pure = true;
    return t->words ? text_of_letters(text, size, to, is_pure)
                    : copse__text_of_pieces(text, size, to, is_pure);
}

/* "<0x41>" */
static int byte_named(const char *text, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high = size == 6 ? memchr(digits, text[3], 16) : NULL,
               *low = size == 6 ? memchr(digits, text[4], 16) : NULL;
    return high && low && memcmp(text, "<0x", 3) == 0 && text[5] == '>'
               ? (int)(high - digits) * 16 + (int)(low - digits)
               : -1;
}

/* Room for a text: many are short, and blocks of the arena are not. NULL: no memory. */
static char *text_room(struct copse_tokenizer *t, size_t size)
{
    enum { PIECE = 16384 };
    if (size > PIECE / 4)
        return copse__arena_alloc(&t->arena, size, 1);
    if (size > t->spare_size) {
        t->spare = copse__arena_alloc(&t->arena, PIECE, 1);
        t->spare_size = t->spare ? PIECE : 0;
    }
    if (!t->spare)
        return NULL;
    t->spare_size -= size;
    return t->spare + t->spare_size;
}

copse_status copse__tokenizer_set(struct copse_tokenizer *t, uint32_t i, enum copse_token_kind kind,
                                  const char *text, size_t size)
{
    struct copse_token *token = &t->tokens[i];
    char *bytes = text_room(t, size + 1);
    bool is_pure = true;
    if (!bytes)
        return copse_no_memory("tokenizer");
    const int byte = kind == COPSE_TOKEN_BYTE ? byte_named(text, size) : -1;
    token->is_part = kind == COPSE_TOKEN_ADDED && token->text && !token->is_unreachable &&
                     token->size == size && memcmp(token->text, text, size) == 0;
    token->is_named = kind == COPSE_TOKEN_CONTROL || kind == COPSE_TOKEN_ADDED;
    token->is_special = kind == COPSE_TOKEN_CONTROL || kind == COPSE_TOKEN_UNKNOWN;
    token->is_byte = byte >= 0;
    token->text = bytes;
    token->size = (uint32_t)size;
    if (byte >= 0) {
        *bytes = (char)byte;
        token->size = 1;
        t->bytes[byte] = i;
    } else if (token->is_named || token->is_special) {
        memcpy(bytes, text, size);
    } else {
        token->size = (uint32_t)text_of_file(t, text, size, bytes, &is_pure);
    }
    token->is_unreachable = !is_pure;
    return COPSE_OK;
}

bool copse__tokenizer_join(struct copse_tokenizer *t, const char *left, size_t left_size,
                           const char *right, size_t right_size, uint32_t rank)
{
    char a[512], b[512];
    bool is_pure;
    if (left_size == 0 || right_size == 0 || left_size > sizeof a || right_size > sizeof b)
        return false;
    const size_t n = text_of_file(t, left, left_size, a, &is_pure),
                 m = text_of_file(t, right, right_size, b, &is_pure);
    return copse__tokenizer_merge(t, a, n, b, m, rank);
}

int copse__tokenizer_missing(const struct copse_tokenizer *t)
{
    for (int byte = 0; byte < 0xf5; byte++)
        if (t->bytes[byte] == COPSE_NO_TOKEN && byte != 0xc0 && byte != 0xc1)
            return byte;
    return -1;
}

copse_status copse__tokenizer_check(const struct copse_tokenizer *t, const char *path)
{
    const int missing = copse__tokenizer_missing(t);
    return missing < 0 || !t->words || t->unknown != COPSE_NO_TOKEN
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT,
                            "%s: its vocabulary has neither a token for the byte 0x%02x nor one "
                            "for what is unknown",
                            path, (unsigned)missing);
}
