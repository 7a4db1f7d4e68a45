/* SPDX-License-Identifier: MIT */
/* The tables of a tokenizer: tokens by their bytes, and merges by pairs. */
#include "core/language/tokenizer.h"

#include <stdlib.h>

/* ---- maps ---- */

static size_t room_for(size_t count)
{
    size_t room = 16;
    while (room < 2 * count)
        room *= 2;
    return room;
}

static uint64_t mix_bits(uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ull;
    return key ^ key >> 29;
}

static bool has_text(const struct copse_tokenizer *t, uint32_t token, const char *text, size_t size)
{
    return t->tokens[token].size == size && memcmp(t->tokens[token].text, text, size) == 0;
}

/* The slot of these bytes, or the empty one where they belong. */
static uint32_t *text_slot(const struct copse_tokenizer *t, const char *text, size_t size)
{
    size_t i = mix_bits(copse__hash(COPSE_HASH_START, text, size)) & (t->texts.room - 1);
    while (t->texts.slots[i] != COPSE_NO_TOKEN && !has_text(t, t->texts.slots[i], text, size))
        i = (i + 1) & (t->texts.room - 1);
    return &t->texts.slots[i];
}

static struct copse_token_slot *pair_slot(const struct copse_tokenizer *t, uint64_t key)
{
    size_t i = mix_bits(key) & (t->merges.room - 1);
    while (t->merges.slots[i].token != COPSE_NO_TOKEN && t->merges.slots[i].key != key)
        i = (i + 1) & (t->merges.room - 1);
    return &t->merges.slots[i];
}

uint32_t copse__tokenizer_find(const struct copse_tokenizer *t, const char *text, size_t size)
{
    return *text_slot(t, text, size);
}

const struct copse_token_slot *copse__tokenizer_pair(const struct copse_tokenizer *t, uint32_t left,
                                                     uint32_t right)
{
    if (t->merges.room == 0)
        return NULL;
    const struct copse_token_slot *s = pair_slot(t, (uint64_t)left << 32 | right);
    return s->token != COPSE_NO_TOKEN ? s : NULL;
}

/* ---- making ---- */

copse_status copse__tokenizer_begin(struct copse_tokenizer *t)
{
    t->begin = t->unknown = COPSE_NO_TOKEN;
    for (int i = 0; i < 256; i++)
        t->bytes[i] = COPSE_NO_TOKEN;
    t->tokens = copse__alloc(t->mem, t->count, sizeof *t->tokens);
    t->texts.room = room_for(t->count);
    t->texts.slots = copse__alloc(t->mem, t->texts.room, sizeof *t->texts.slots);
    COPSE_TRY(copse_need_memory(t->tokens && t->texts.slots, "tokenizer"));
    for (size_t i = 0; i < t->texts.room; i++)
        t->texts.slots[i] = COPSE_NO_TOKEN;
    return COPSE_OK;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The longest first, of equal ones in the order of the file. */
static copse_status sort_named(struct copse_tokenizer *t)
{
    uint64_t *keys = copse__alloc(t->mem, t->named_count, sizeof *keys);
    if (!keys)
        return copse_no_memory("tokenizer");
    for (uint32_t i = 0; i < t->named_count; i++)
        keys[i] = (uint64_t)(UINT32_MAX - t->tokens[t->named[i]].size) << 32 | t->named[i];
    if (t->named_count > 1)
        qsort(keys, t->named_count, sizeof *keys, by_number);
    for (uint32_t i = 0; i < t->named_count; i++)
        t->named[i] = (uint32_t)keys[i];
    copse__free(t->mem, keys);
    return COPSE_OK;
}

copse_status copse__tokenizer_index(struct copse_tokenizer *t)
{
    size_t named = 0;
    for (uint32_t i = 0; i < t->count; i++)
        named += t->tokens[i].is_named;
    t->named = copse__alloc(t->mem, named, sizeof *t->named);
    COPSE_TRY(copse_need_memory(t->named, "tokenizer"));
    for (uint32_t i = 0; i < t->count; i++) {
        const struct copse_token *token = &t->tokens[i];
        if (token->is_named && token->size > 0) {
            t->named[t->named_count++] = i;
            t->named_first[(unsigned char)token->text[0]] = true;
        }
        if ((token->is_named && !token->is_part) || token->is_special || token->is_byte ||
            token->is_unreachable || token->size == 0)
            continue;
        uint32_t *slot = text_slot(t, token->text, token->size);
        if (*slot != COPSE_NO_TOKEN) /* the first of equal ones counts */
            continue;
        *slot = i;
        if (token->size == 1 && t->bytes[(unsigned char)token->text[0]] == COPSE_NO_TOKEN)
            t->bytes[(unsigned char)token->text[0]] = i;
    }
    COPSE_TRY(sort_named(t));
    return COPSE_OK;
}

copse_status copse__tokenizer_merges(struct copse_tokenizer *t, size_t count)
{
    const size_t room = room_for(count);
    t->merges.slots = copse__alloc(t->mem, room, sizeof *t->merges.slots);
    COPSE_TRY(copse_need_memory(t->merges.slots, "tokenizer"));
    t->merges.room = room;
    for (size_t i = 0; i < room; i++)
        t->merges.slots[i].token = COPSE_NO_TOKEN;
    return COPSE_OK;
}

bool copse__tokenizer_merge(struct copse_tokenizer *t, const char *left, size_t left_size,
                            const char *right, size_t right_size, uint32_t rank)
{
    char both[1024];
    if (left_size + right_size > sizeof both)
        return false;
    memcpy(both, left, left_size);
    memcpy(both + left_size, right, right_size);
    const uint32_t a = copse__tokenizer_find(t, left, left_size),
                   b = copse__tokenizer_find(t, right, right_size),
                   c = copse__tokenizer_find(t, both, left_size + right_size);
    if (a == COPSE_NO_TOKEN || b == COPSE_NO_TOKEN || c == COPSE_NO_TOKEN)
        return false;
    if (t->merges.room == 0)
        return true;
    struct copse_token_slot *s = pair_slot(t, (uint64_t)a << 32 | b);
    if (s->token == COPSE_NO_TOKEN)
        *s = (struct copse_token_slot){ .key = (uint64_t)a << 32 | b, .token = c, .rank = rank };
    return true;
}

void copse__tokenizer_fini(struct copse_tokenizer *t)
{
    copse__free(t->mem, t->tokens);
    copse__free(t->mem, t->named);
    copse__free(t->mem, t->texts.slots);
    copse__free(t->mem, t->merges.slots);
    copse__arena_fini(&t->arena);
}
