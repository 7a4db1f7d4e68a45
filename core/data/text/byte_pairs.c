/* SPDX-License-Identifier: MIT */
/* Byte-pair encoding: words, the tokens of a text, the bytes of a token. */
#include "core/data/text/byte_pairs.h"

/* ---- pairs by hash ---- */

static size_t slot_of(const struct copse_pair_map *m, uint32_t pair)
{
    size_t i = (size_t)((pair * 0x9e3779b97f4a7c15ull) >> 32) & (m->room - 1);
    while (m->slots[i].number != 0 && m->slots[i].pair != pair)
        i = (i + 1) & (m->room - 1);
    return i;
}

uint32_t copse__pair_find(const struct copse_pair_map *m, uint32_t pair)
{
    return m->room > 0 ? m->slots[slot_of(m, pair)].number - 1 : COPSE_NO_PAIR;
}

/* At most half of the slots are used. */
static bool byte_pairs_grow(struct copse_pair_map *m)
{
    struct copse_pair_map grown = { .mem = m->mem,
                                    .count = m->count,
                                    .room = m->room > 0 ? 2 * m->room : 64 };
    if (2 * (m->count + 1) <= m->room)
        return true;
    grown.slots = copse__alloc(m->mem, grown.room, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < m->room; i++)
        if (m->slots[i].number != 0)
            grown.slots[slot_of(&grown, m->slots[i].pair)] = m->slots[i];
    copse__free(m->mem, m->slots);
    *m = grown;
    return true;
}

bool copse__pair_add(struct copse_pair_map *m, uint32_t pair, uint32_t number)
{
    if (!byte_pairs_grow(m))
        return false;
    m->slots[slot_of(m, pair)] = (struct copse_pair_slot){ pair, number + 1 };
    m->count++;
    return true;
}

void copse__pair_map_fini(struct copse_pair_map *m)
{
    copse__free(m->mem, m->slots);
}

/* ---- words ---- */

enum byte_class { LINE_END, SPACE, LETTER, DIGIT, OTHER };

static enum byte_class class_of(unsigned char c)
{
    if (c >= 128 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return LETTER;
    if (c >= '0' && c <= '9')
        return DIGIT;
    return c == '\n' ? LINE_END : c == ' ' || (c >= '\t' && c <= '\r') ? SPACE : OTHER;
}

size_t copse__word_size(const unsigned char *p, size_t left)
{
    enum byte_class class = class_of(p[0]);
    size_t size = 1;
    if (class == LINE_END)
        return 1;
    if (p[0] == ' ' && left > 1 && class_of(p[1]) > SPACE)
        class = class_of(p[1]);
    while (size < left && size < COPSE_BPE_BYTES && class_of(p[size]) == class)
        size++;
    /* the last space belongs to the next word */
    return class == SPACE && size > 1 && size < left && p[size - 1] == ' ' &&
                   class_of(p[size]) > SPACE
               ? size - 1
               : size;
}

size_t copse__join(uint16_t *tokens, size_t count, uint32_t pair, uint16_t joined)
{
    size_t n = 0;
    for (size_t i = 0; i < count; n++) {
        const bool is_pair = i + 1 < count && copse__pair(tokens[i], tokens[i + 1]) == pair;
        tokens[n] = is_pair ? joined : tokens[i];
        i += is_pair ? 2 : 1;
    }
    return n;
}

/* ---- the merges of a schema ---- */

static bool map_merges(const struct copse_schema_parts *p, struct copse_pair_map *m)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < p->merge_count; i++)
        ok = copse__pair_add(m, copse__pair(p->merges[i].first, p->merges[i].second), 256 + i);
    return ok;
}

/* Merge `i` joins two tokens that exist, and its token is not longer than a word; sizes[]: of the
   tokens before it. */
static copse_status check_merge(const struct copse_schema_parts *p, uint32_t i, uint8_t *sizes)
{
    const struct copse_merge m = p->merges[i];
    if (m.first >= 256 + i || m.second >= 256 + i)
        return copse_fail(COPSE_ERR_FORMAT,
                          "schema: merge %u joins the tokens %u and %u, and there are %u before it",
                          i, m.first, m.second, 256 + i);
    const uint32_t size = (uint32_t)sizes[m.first] + sizes[m.second];
    sizes[256 + i] = (uint8_t)COPSE_MIN(size, 255u);
    return size <= COPSE_BPE_BYTES
               ? COPSE_OK
               : copse_fail(COPSE_ERR_FORMAT,
                            "schema: merge %u makes a token of %u bytes; %d is the most", i, size,
                            COPSE_BPE_BYTES);
}

static copse_status check_merges(const struct copse_schema_parts *p, uint8_t *sizes,
                                 struct copse_pair_map *seen)
{
    memset(sizes, 1, 256);
    for (uint32_t i = 0; i < p->merge_count; i++) {
        const uint32_t pair = copse__pair(p->merges[i].first, p->merges[i].second);
        COPSE_TRY(check_merge(p, i, sizes));
        const uint32_t before = copse__pair_find(seen, pair);
        if (before != COPSE_NO_PAIR)
            return copse_fail(COPSE_ERR_FORMAT, "schema: the merges %u and %u join the same tokens",
                              before, i);
        if (!copse__pair_add(seen, pair, i))
            return copse_no_memory("schema");
    }
    return COPSE_OK;
}

copse_status copse__byte_pairs_check(struct copse_mem *mem, const struct copse_schema_parts *p)
{
    struct copse_pair_map seen = { .mem = mem };
    if (p->classes || !p->is_numbered || p->outputs > COPSE_NAMED_CLASSES_MAX ||
        p->outputs != 256 + p->merge_count)
        return copse_fail(
            COPSE_ERR_FORMAT,
            "schema: the \"classes\" of a text of byte pairs are numbered, 256 and one for each "
            "merge, at most %u",
            COPSE_NAMED_CLASSES_MAX);
    uint8_t *sizes = copse__alloc(mem, p->outputs, 1);
    const copse_status s = sizes ? check_merges(p, sizes, &seen) : copse_no_memory("schema");
    copse__free(mem, sizes);
    copse__pair_map_fini(&seen);
    return s;
}

/* ---- the tokens of a text ---- */

/* Merges in their order: a merge makes no pair that an earlier merge joins. */
static size_t encode_word(const struct copse_pair_map *m, const unsigned char *word, size_t size,
                          uint16_t *tokens)
{
    for (size_t i = 0; i < size; i++)
        tokens[i] = word[i];
    for (size_t count = size;;) {
        uint32_t best = COPSE_NO_PAIR, pair = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            const uint32_t token = copse__pair_find(m, copse__pair(tokens[i], tokens[i + 1]));
            if (token < best) {
                best = token;
                pair = copse__pair(tokens[i], tokens[i + 1]);
            }
        }
        if (best == COPSE_NO_PAIR)
            return count;
        count = copse__join(tokens, count, pair, (uint16_t)best);
    }
}

/* `to` has room for a token for each byte; returns how many there are. */
static size_t encode_text(const struct copse_pair_map *m, const struct copse_text *t,
                          copse_type type, void *to)
{
    uint16_t tokens[COPSE_BPE_BYTES];
    size_t n = 0;
    for (size_t at = 0; at < t->size;) {
        const unsigned char *word = (const unsigned char *)t->bytes + at;
        const size_t size = copse__word_size(word, t->size - at),
                     count = encode_word(m, word, size, tokens);
        for (size_t i = 0; i < count; i++, n++) {
            if (type == COPSE_U8)
                ((uint8_t *)to)[n] = (uint8_t)tokens[i];
            else
                ((int32_t *)to)[n] = tokens[i];
        }
        at += size;
    }
    return n;
}

/* An array takes over the tokens in `to`. */
static copse_status make_array(copse_context *ctx, void *to, size_t count,
                               const struct copse_schema_parts *p, copse_array **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    const copse_type type = p->type == COPSE_U8 ? COPSE_U8 : COPSE_I32;
    void *fitted = copse__resize(mem, to, count, copse_type_size(type));
    to = fitted ? fitted : to;
    const copse_status s = copse__array_create(ctx, type, 1, &count, to, out);
    if (s != COPSE_OK)
        copse__free(mem, to);
    return s;
}

copse_status copse__byte_pairs_encode(copse_context *ctx, struct copse_text *t,
                                      const struct copse_schema_parts *p, copse_array **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    struct copse_pair_map m = { .mem = mem };
    *out = NULL;
    if (t->size == 0)
        return copse_fail(COPSE_ERR_FORMAT, "text: %s is empty", t->name);
    void *to = copse__alloc(mem, t->size, p->type == COPSE_U8 ? 1 : sizeof(int32_t));
    copse_status s = COPSE_OK;
    if (!to || !map_merges(p, &m)) {
        copse__free(mem, to);
        s = copse_no_memory("text: %s", t->name);
    } else {
        s = make_array(ctx, to, encode_text(&m, t, p->type, to), p, out);
    }
    copse__pair_map_fini(&m);
    return s;
}

/* ---- tokens ---- */

int64_t copse__byte_pairs_line_end(const struct copse_schema_parts *p)
{
    (void)p; /* a word of its own: no merge joins it */
    return '\n';
}

size_t copse__byte_pairs_text(const struct copse_schema_parts *p, uint32_t token,
                              char to[COPSE_TOKEN_BYTES])
{
    /* a stack of tokens to be written; each has at least one byte */
    uint32_t open[COPSE_BPE_BYTES];
    size_t count = 1, size = 0;
    open[0] = token;
    while (count > 0) {
        const uint32_t t = open[--count];
        if (t < 256) {
            to[size++] = (char)(unsigned char)t;
            continue;
        }
        open[count++] = p->merges[t - 256].second;
        open[count++] = p->merges[t - 256].first;
    }
    return size;
}
