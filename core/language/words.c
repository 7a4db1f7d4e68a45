/* SPDX-License-Identifier: MIT */
/* The patterns by which tokenizers cut texts into words, without a machine for regular
   expressions: each rule is a few lines. */
#include "core/language/words.h"

#include <string.h>

#include "core/base/base.h"
#include "core/language/unicode.h"

/* ---- characters at a place ---- */

struct place {
    enum copse_character kind;
    uint32_t c;
    size_t size; /* 0: the text ends */
};

static struct place place_at(const char *text, size_t size, size_t at)
{
    struct place p = { .size = 0 };
    if (at < size) {
        p.size = copse__character_read(text + at, size - at, &p.c);
        p.kind = copse__character(p.c);
    }
    return p;
}

/* The end of the characters of one kind, at most `most` of them, 0: all. */
static size_t run_of(const char *text, size_t size, size_t at, enum copse_character kind,
                     uint32_t most)
{
    struct place p;
    for (uint32_t n = 0; (most == 0 || n < most) && (p = place_at(text, size, at)).size; n++) {
        if (p.kind != kind)
            break;
        at += p.size;
    }
    return at;
}

static bool is_line_end(uint32_t c)
{
    return c == '\n' || c == '\r';
}

/* ---- rules ---- */

/* 's 't 'm 'd 're 've 'll; bytes, or 0. */
static size_t contraction_size(const char *text, size_t size, bool any_case)
{
    char a = size > 1 ? text[1] : 0, b = size > 2 ? text[2] : 0;
    if (text[0] != '\'')
        return 0;
    if (any_case) {
        a = (char)(a >= 'A' && a <= 'Z' ? a + 32 : a);
        b = (char)(b >= 'A' && b <= 'Z' ? b + 32 : b);
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Spaces: all but the last one, which belongs to the next word; all at the end of the text. */
static size_t spaces_size(const char *text, size_t size)
{
    size_t end = 0, last = 0;
    struct place p;
    while ((p = place_at(text, size, end)).size && p.kind == COPSE_CHARACTER_SPACE) {
        last = end;
        end += p.size;
    }
    return end == size || last == 0 ? end : last;
}

/* Up to the last line end among the spaces; 0: there is none. */
static size_t lines_size(const char *text, size_t size)
{
    size_t end = 0, after = 0;
    struct place p;
    while ((p = place_at(text, size, end)).size && p.kind == COPSE_CHARACTER_SPACE) {
        end += p.size;
        after = is_line_end(p.c) ? end : after;
    }
    return after;
}

/* "'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+" */
static size_t word_of_gpt2(const char *text, size_t size)
{
    const size_t short_form = contraction_size(text, size, false);
    if (short_form)
        return short_form;
    const size_t start = text[0] == ' ' && size > 1;
    const struct place p = place_at(text, size, start);
    return p.kind == COPSE_CHARACTER_SPACE ? spaces_size(text, size)
                                           : run_of(text, size, start, p.kind, 0);
}

/* "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,k}| ?[^\s\p{L}\p{N}]+[\r\n]*|
   \s*[\r\n]+|\s+(?!\S)|\s+" */
static size_t later_word(const char *text, size_t size, uint32_t digits)
{
    const size_t short_form = contraction_size(text, size, true);
    if (short_form)
        return short_form;
    const struct place first = place_at(text, size, 0), second = place_at(text, size, first.size);
    if (first.kind == COPSE_CHARACTER_LETTER)
        return run_of(text, size, 0, COPSE_CHARACTER_LETTER, 0);
    if (first.kind == COPSE_CHARACTER_NUMBER)
        return run_of(text, size, 0, COPSE_CHARACTER_NUMBER, digits);
    if (!is_line_end(first.c) && second.size && second.kind == COPSE_CHARACTER_LETTER)
        return run_of(text, size, first.size, COPSE_CHARACTER_LETTER, 0);
    const size_t start = first.c == ' ';
    const struct place p = start ? second : first;
    if (p.size && p.kind == COPSE_CHARACTER_OTHER) {
        size_t end = run_of(text, size, start, COPSE_CHARACTER_OTHER, 0);
        while (end < size && is_line_end((unsigned char)text[end]))
            end++;
        return end;
    }
    const size_t lines = lines_size(text, size);
    return lines ? lines : spaces_size(text, size);
}

/* ---- patterns ---- */

static const struct copse_words patterns[] = {
    { .name = "gpt-2" },
    { .name = "smollm", .splits_numbers = true },
    { .name = "starcoder", .splits_numbers = true },
    { .name = "llama-bpe", .is_later = true, .digits = 3, .knows_whole = true, .adds_begin = true },
    { .name = "qwen2", .is_later = true, .digits = 1, .is_normalised = true },
};

const struct copse_words *copse__words_find(const char *name, size_t size)
{
    for (size_t i = 0; i < COPSE_COUNT(patterns); i++)
        if (strlen(patterns[i].name) == size && memcmp(patterns[i].name, name, size) == 0)
            return &patterns[i];
    return NULL;
}

size_t copse__words_next(const struct copse_words *w, const char *text, size_t size)
{
    if (!w->splits_numbers)
        return w->is_later ? later_word(text, size, w->digits) : word_of_gpt2(text, size);
    const struct place first = place_at(text, size, 0);
    if (first.kind == COPSE_CHARACTER_NUMBER)
        return first.size;
    const size_t word = word_of_gpt2(text, size);
    size_t end = 0;
    struct place p; /* a space before a number is no part of its word */
    while (end < word && (p = place_at(text, size, end)).kind != COPSE_CHARACTER_NUMBER)
        end += p.size;
    if (end < word)
        return end;
    /* the spaces before a number are whole */
    p = place_at(text, size, end);
    if (p.size && p.kind == COPSE_CHARACTER_SPACE && first.kind == COPSE_CHARACTER_SPACE &&
        place_at(text, size, end + p.size).kind == COPSE_CHARACTER_NUMBER)
        end += p.size;
    return end;
}
