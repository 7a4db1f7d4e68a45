/* SPDX-License-Identifier: MIT */
/* The merges of a text: repeatedly, the most frequent pair of tokens becomes a token. The different
   words of the text are counted first. Each pair has a list of its words, and a heap finds the most
   frequent pair, so a merge costs the words that have the pair and no pass over the text. */
#include "core/data/reader/dictionary.h"
#include "core/data/text/byte_pairs.h"

/* A pair of neighbouring tokens within words. */
struct pair {
    uint32_t pair;
    uint64_t count; /* of its places in the text; in "aaa" the pair "aa" has two */
    struct {
        uint32_t *at; /* words that had the pair when they were added */
        size_t count, room;
    } words;
};

/* A pair may be in the heap several times: one entry has its count or a larger one. */
struct entry {
    uint64_t count;
    uint32_t pair, number;
};

struct learner {
    struct copse_mem *mem;
    struct copse_dictionary words;
    uint16_t *tokens; /* of all words, one after another */
    size_t *begin;    /* [words] in `tokens` */
    uint8_t *sizes;   /* [words] tokens */
    struct {
        struct pair *at;
        size_t count, room;
    } pairs;
    struct copse_pair_map numbers; /* in `pairs` */
    struct {
        struct entry *at;
        size_t count, room;
    } heap;
};

/* ---- the heap: the most frequent pair first, of equal ones that with the smaller number ---- */

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static bool byte_pairs_learn_push(struct learner *l, uint32_t number)
{
    const struct entry e = { l->pairs.at[number].count, l->pairs.at[number].pair, number };
    if (!COPSE_PUSH(l->mem, &l->heap, e))
        return false;
    size_t i = l->heap.count - 1;
    for (; i > 0 && is_before(&e, &l->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap.at[i] = l->heap.at[(i - 1) / 2];
    l->heap.at[i] = e;
    return true;
}

static struct entry byte_pairs_learn_pop(struct learner *l)
{
    const struct entry top = l->heap.at[0], last = l->heap.at[--l->heap.count];
    size_t i = 0;
    for (size_t child = 1; child < l->heap.count; child = 2 * i + 1) {
        child += child + 1 < l->heap.count && is_before(&l->heap.at[child + 1], &l->heap.at[child]);
        if (!is_before(&l->heap.at[child], &last))
            break;
        l->heap.at[i] = l->heap.at[child];
        i = child;
    }
    l->heap.at[i] = last;
    return top;
}

/* The most frequent pair; COPSE_NO_PAIR: none occurs twice. False without memory. */
static bool find_best(struct learner *l, uint32_t *number)
{
    *number = COPSE_NO_PAIR;
    while (l->heap.count > 0) {
        const struct entry e = byte_pairs_learn_pop(l);
        const uint64_t now = l->pairs.at[e.number].count;
        if (e.count == now) {
            *number = now >= 2 ? e.number : COPSE_NO_PAIR;
            return true;
        }
        if (now >= 2 && e.count > now && !byte_pairs_learn_push(l, e.number))
            return false;
    }
    return true;
}

/* ---- words ---- */

static bool count_words(struct learner *l, const struct copse_text *t)
{
    for (size_t at = 0, size; at < t->size; at += size) {
        size = copse__word_size((const unsigned char *)t->bytes + at, t->size - at);
        if (!copse__dictionary_add(&l->words, t->bytes + at, size, NULL, 0))
            return false;
    }
    return true;
}

/* Add the places of each pair of a word to its count, or subtract them (`sign` 1 or -1). */
static bool count_pairs(struct learner *l, uint32_t word, int sign)
{
    const uint16_t *tokens = l->tokens + l->begin[word];
    const uint64_t times = l->words.entries.at[word].count;
    for (size_t i = 0; i + 1 < l->sizes[word]; i++) {
        const uint32_t pair = copse__pair(tokens[i], tokens[i + 1]);
        uint32_t number = copse__pair_find(&l->numbers, pair);
        if (number == COPSE_NO_PAIR) {
            const struct pair new = { .pair = pair };
            number = (uint32_t)l->pairs.count;
            if (!COPSE_PUSH(l->mem, &l->pairs, new) || !copse__pair_add(&l->numbers, pair, number))
                return false;
        }
        l->pairs.at[number].count += sign > 0 ? times : 0 - times;
    }
    return true;
}

/* Add a word to the lists of its pairs from number `first` on. */
static bool list_word(struct learner *l, uint32_t word, uint32_t first)
{
    const uint16_t *tokens = l->tokens + l->begin[word];
    for (size_t i = 0; i + 1 < l->sizes[word]; i++) {
        const uint32_t number =
            copse__pair_find(&l->numbers, copse__pair(tokens[i], tokens[i + 1]));
        struct pair *p = &l->pairs.at[number];
        const bool is_new = p->words.count == 0 || p->words.at[p->words.count - 1] != word;
        if (number >= first && is_new && !COPSE_PUSH(l->mem, &p->words, word))
            return false;
    }
    return true;
}

static bool byte_pairs_learn_begin(struct learner *l, const struct copse_text *t)
{
    size_t at = 0;
    if (!count_words(l, t))
        return false;
    const uint32_t words = (uint32_t)l->words.entries.count;
    for (uint32_t w = 0; w < words; w++)
        at += l->words.entries.at[w].size;
    l->tokens = copse__alloc(l->mem, at, sizeof *l->tokens);
    l->begin = copse__alloc(l->mem, words, sizeof *l->begin);
    l->sizes = copse__alloc(l->mem, words, sizeof *l->sizes);
    bool ok = l->tokens && l->begin && l->sizes;
    at = 0;
    for (uint32_t w = 0; ok && w < words; at += l->sizes[w++]) {
        const struct copse_dictionary_entry *e = &l->words.entries.at[w];
        l->begin[w] = at;
        l->sizes[w] = (uint8_t)e->size;
        for (size_t i = 0; i < e->size; i++)
            l->tokens[at + i] = (unsigned char)e->text[i];
        ok = count_pairs(l, w, 1) && list_word(l, w, 0);
    }
    for (uint32_t i = 0; ok && i < l->pairs.count; i++)
        ok = byte_pairs_learn_push(l, i);
    return ok;
}

/* ---- merges ---- */

/* Join a pair in all words. Only pairs with the new token occur more often than before. */
static bool byte_pairs_learn_join(struct learner *l, uint32_t number, uint16_t token)
{
    const uint32_t pair = l->pairs.at[number].pair, first = (uint32_t)l->pairs.count;
    bool ok = true;
    for (size_t i = 0; ok && i < l->pairs.at[number].words.count; i++) {
        const uint32_t word = l->pairs.at[number].words.at[i];
        ok = count_pairs(l, word, -1);
        l->sizes[word] =
            (uint8_t)copse__join(l->tokens + l->begin[word], l->sizes[word], pair, token);
        ok = ok && count_pairs(l, word, 1) && list_word(l, word, first);
    }
    copse__free(l->mem, l->pairs.at[number].words.at);
    l->pairs.at[number].words.at = NULL;
    l->pairs.at[number].words.count = l->pairs.at[number].words.room = 0;
    for (uint32_t i = first; ok && i < l->pairs.count; i++)
        ok = byte_pairs_learn_push(l, i);
    return ok;
}

static bool learn_pairs(struct learner *l, const struct copse_text *t, struct copse_merge *merges,
                        uint32_t most, uint32_t *count)
{
    bool ok = byte_pairs_learn_begin(l, t);
    for (*count = 0; ok && *count < most; ++*count) {
        uint32_t number;
        ok = find_best(l, &number);
        if (!ok || number == COPSE_NO_PAIR)
            break;
        const uint32_t pair = l->pairs.at[number].pair;
        merges[*count] = (struct copse_merge){ (uint16_t)(pair >> 16), (uint16_t)pair };
        ok = byte_pairs_learn_join(l, number, (uint16_t)(256 + *count));
    }
    return ok;
}

/* The tokens that the words are divided into at the end. */
static bool note_tokens(const struct learner *l, struct copse_arena *arena,
                        struct copse_schema_parts *p)
{
    unsigned char *seen = copse__alloc(l->mem, p->outputs, 1);
    for (size_t w = 0; seen && w < l->words.entries.count; w++)
        for (size_t i = 0; i < l->sizes[w]; i++)
            seen[l->tokens[l->begin[w] + i]] = 1;
    const bool ok = seen && copse__note_unseen(arena, seen, p);
    copse__free(l->mem, seen);
    return ok;
}

static void byte_pairs_learn_end(struct learner *l)
{
    for (size_t i = 0; i < l->pairs.count; i++)
        copse__free(l->mem, l->pairs.at[i].words.at);
    copse__free(l->mem, l->pairs.at);
    copse__free(l->mem, l->heap.at);
    copse__free(l->mem, l->tokens);
    copse__free(l->mem, l->begin);
    copse__free(l->mem, l->sizes);
    copse__pair_map_fini(&l->numbers);
    copse__dictionary_fini(&l->words);
}

copse_status copse__byte_pairs_learn(const struct copse_text *t, struct copse_arena *arena,
                                     struct copse_schema_parts *p)
{
    struct copse_arena texts = { .mem = arena->mem };
    struct learner l = { .mem = arena->mem,
                         .words = { .arena = &texts },
                         .numbers = { .mem = arena->mem } };
    const uint32_t most = p->outputs - 256;
    struct copse_merge *merges = copse__arena_alloc(arena, most, sizeof *merges);
    bool ok = merges && learn_pairs(&l, t, merges, most, &p->merge_count);
    p->merges = merges;
    p->outputs = 256 + p->merge_count;
    p->is_numbered = true;
    ok = ok && note_tokens(&l, arena, p);
    byte_pairs_learn_end(&l);
    copse__arena_fini(&texts);
    return ok ? COPSE_OK : copse_no_memory("text: %s", t->name);
}
