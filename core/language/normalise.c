/* SPDX-License-Identifier: MIT */
/* Texts in the form NFC of Unicode (UAX #15): characters become their parts, marks get their order, and
   parts are joined again. */
#include "core/language/normalise.h"

#include <stdlib.h>

#include "core/language/unicode.h"
#include "core/language/unicode_forms.h"

/* Syllables of Hangul are computed: those that begin with a leading consonant and a vowel are
   SYLLABLE and each TRAILING-th one after it. */
enum {
    SYLLABLE = 0xac00,
    SYLLABLES = 11172,
    LEADING = 0x1100,
    LEADINGS = 19,
    VOWEL = 0x1161,
    VOWELS = 21,
    TRAILING = 0x11a7,
    TRAILINGS = 28,
};

/* A character: its order above its place, which makes the order of equal ones, above its number. A
   byte that is no character has a number of its own. */
#define NUMBER_BITS 22u
#define ORDER_BITS  56u
#define BYTE        0x200000u
static uint32_t number_of(uint64_t unit)
{
    return (uint32_t)unit & ((1u << NUMBER_BITS) - 1);
}

struct normalising {
    struct copse_mem *mem;
    struct {
        uint64_t *at;
        size_t count, room;
    } units;
};

/* ---- parts ---- */

static int by_mark(const void *key, const void *row)
{
    const uint32_t c = *(const uint32_t *)key;
    const struct copse_mark *mark = row;
    return (c > mark->last) - (c < mark->first);
}

static uint32_t order_of(uint32_t c)
{
    const struct copse_mark *mark =
        bsearch(&c, copse__marks, COPSE_MARKS, sizeof *copse__marks, by_mark);
    return mark ? mark->order : 0;
}

static int by_character(const void *key, const void *row)
{
    const uint32_t c = *(const uint32_t *)key, other = ((const struct copse_form *)row)->c;
    return (c > other) - (c < other);
}

static const struct copse_form *form_of(uint32_t c)
{
    return bsearch(&c, copse__forms, COPSE_FORMS, sizeof *copse__forms, by_character);
}

static bool put_unit(struct normalising *n, uint32_t c, uint32_t order)
{
    const uint64_t unit =
        (uint64_t)order << ORDER_BITS | (uint64_t)n->units.count << NUMBER_BITS | c;
    return COPSE_PUSH(n->mem, &n->units, unit);
}

/* The parts of a character. Only its first part has parts of its own. */
static bool put_parts(struct normalising *n, uint32_t c)
{
    const uint32_t s = c - SYLLABLE;
    if (c >= SYLLABLE && s < SYLLABLES)
        return put_unit(n, LEADING + s / (VOWELS * TRAILINGS), 0) &&
               put_unit(n, VOWEL + s % (VOWELS * TRAILINGS) / TRAILINGS, 0) &&
               (s % TRAILINGS == 0 || put_unit(n, TRAILING + s % TRAILINGS, 0));
    uint32_t seconds[8];
    size_t count = 0;
    const struct copse_form *form;
    while ((form = form_of(c)) != NULL && count < COPSE_COUNT(seconds)) {
        if (form->second)
            seconds[count++] = form->second;
        c = form->first;
    }
    bool ok = put_unit(n, c, order_of(c));
    while (ok && count-- > 0)
        ok = put_unit(n, seconds[count], order_of(seconds[count]));
    return ok;
}

static bool put_text(struct normalising *n, const char *text, size_t size)
{
    uint32_t c;
    for (size_t at = 0, step; at < size; at += step) {
        step = copse__character_read(text + at, size - at, &c);
        const unsigned char byte = (unsigned char)text[at];
        if (!(step == 1 && byte >= 0x80 ? put_unit(n, BYTE | byte, 0) : put_parts(n, c)))
            return false;
    }
    return true;
}

/* ---- the order of marks ---- */

static int by_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void order_marks(struct normalising *n)
{
    for (size_t i = 0, end; i < n->units.count; i = end + 1) {
        for (end = i; end < n->units.count && n->units.at[end] >> ORDER_BITS;)
            end++;
        if (end > i + 1)
            qsort(n->units.at + i, end - i, sizeof *n->units.at, by_order);
    }
}

/* ---- joining ---- */

static int by_parts(const void *key, const void *row)
{
    const struct copse_form *form = &copse__forms[*(const uint16_t *)row];
    const uint64_t c = *(const uint64_t *)key, other = (uint64_t)form->second << 32 | form->first;
    return (c > other) - (c < other);
}

/* The character of two, or 0. */
static uint32_t joined_of(uint32_t first, uint32_t second)
{
    const uint32_t l = first - LEADING, v = second - VOWEL, s = first - SYLLABLE,
                   t = second - TRAILING;
    if (first >= LEADING && l < LEADINGS && second >= VOWEL && v < VOWELS)
        return SYLLABLE + (l * VOWELS + v) * TRAILINGS;
    if (first >= SYLLABLE && s < SYLLABLES && s % TRAILINGS == 0 && second > TRAILING &&
        t < TRAILINGS)
        return first + t;
    const uint64_t key = (uint64_t)second << 32 | first;
    const uint16_t *row =
        bsearch(&key, copse__joined, COPSE_JOINED, sizeof *copse__joined, by_parts);
    return row ? copse__forms[*row].c : 0;
}

/* A mark is joined to the character before it unless one of the same order is between them. */
static void join_units(struct normalising *n)
{
    uint64_t *at = n->units.at;
    size_t count = 0, base = SIZE_MAX, last = 0; /* last: the order of the unit before; 0: base */
    for (size_t i = 0; i < n->units.count; i++) {
        const size_t order = (size_t)(at[i] >> ORDER_BITS);
        const bool is_next = base != SIZE_MAX && (last == 0 || last < order);
        const uint32_t c = is_next ? joined_of(number_of(at[base]), number_of(at[i])) : 0;
        if (c) {
            at[base] = c;
            continue;
        }
        if (order == 0)
            base = count;
        last = order;
        at[count++] = at[i];
    }
    n->units.count = count;
}

/* ---- bytes ---- */

/* Returns the bytes; `to` NULL: counts them. */
static size_t write_unit(uint32_t c, char *to)
{
    const size_t size = c & BYTE || c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = size; to && size > 1 && i-- > 0; c >>= 6)
        to[i] = (char)(i > 0 ? 0x80u | (c & 0x3fu) : heads[size] | c);
    if (to && size == 1)
        *to = (char)(c & 0xff);
    return size;
}

static bool write_text(const struct normalising *n, char **out, size_t *size)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n->units.count; i++)
        bytes += write_unit(number_of(n->units.at[i]), NULL);
    char *to = *out = copse__alloc(n->mem, bytes + 1, 1);
    for (size_t i = 0; to && i < n->units.count; i++)
        to += write_unit(number_of(n->units.at[i]), to);
    *size = bytes;
    return to != NULL;
}

bool copse__normalise(struct copse_mem *mem, const char *text, size_t size, char **out,
                      size_t *out_size)
{
    struct normalising n = { .mem = mem };
    bool is_plain = true; /* characters below U+0300 have the form */
    *out = NULL;
    *out_size = size;
    for (size_t i = 0; is_plain && i < size; i++)
        is_plain = (unsigned char)text[i] < 0xcc;
    if (is_plain)
        return true;
    bool ok = put_text(&n, text, size);
    if (ok) {
        order_marks(&n);
        join_units(&n);
        ok = write_text(&n, out, out_size);
    }
    copse__free(mem, n.units.at);
    return ok;
}
