/* SPDX-License-Identifier: MIT */
/* Different texts of a column of a table, found by hash. */
#include "core/data/reader/dictionary.h"

/* The slot of a text: its own or an empty one. There are slots. */
static size_t slot_of(const struct copse_dictionary *d, const char *text, size_t size)
{
    size_t i = (size_t)copse__hash(COPSE_HASH_START, text, size) & (d->slot_count - 1);

    for (; d->slots[i] != 0; i = (i + 1) & (d->slot_count - 1)) {
        const struct copse_dictionary_entry *e = &d->entries.at[d->slots[i] - 1];
        if (e->size == size && memcmp(e->text, text, size) == 0)
            break;
    }
    return i;
}

struct copse_dictionary_entry *copse__dictionary_find(const struct copse_dictionary *d,
                                                      const char *text, size_t size)
{
    if (d->slot_count == 0)
        return NULL;
    const uint32_t slot = d->slots[slot_of(d, text, size)];
    return slot > 0 ? &d->entries.at[slot - 1] : NULL;
}

/* At most half of the slots are used. */
static bool dictionary_grow(struct copse_dictionary *d)
{
    const size_t count = d->slot_count > 0 ? 2 * d->slot_count : 16;

    if (2 * (d->entries.count + 1) <= d->slot_count)
        return true;
    uint32_t *slots = copse__alloc(d->arena->mem, count, sizeof *slots);
    if (slots == NULL)
        return false;
    copse__free(d->arena->mem, d->slots);
    d->slots = slots;
    d->slot_count = count;
    for (size_t i = 0; i < d->entries.count; i++)
        d->slots[slot_of(d, d->entries.at[i].text, d->entries.at[i].size)] = (uint32_t)i + 1;
    return true;
}

bool copse__dictionary_add(struct copse_dictionary *d, const char *text, size_t size,
                           const char *path, size_t row)
{
    struct copse_dictionary_entry *found = copse__dictionary_find(d, text, size);

    if (found != NULL) {
        found->count++;
        return true;
    }
    char *copy = copse__arena_alloc(d->arena, size + 1, 1);
    if (copy == NULL || !dictionary_grow(d))
        return false;
    memcpy(copy, text, size);
    const struct copse_dictionary_entry entry = { copy, size, 1, path, row };
    if (!COPSE_PUSH(d->arena->mem, &d->entries, entry))
        return false;
    d->slots[slot_of(d, text, size)] = (uint32_t)d->entries.count;
    return true;
}

void copse__dictionary_fini(struct copse_dictionary *d)
{
    if (d->arena == NULL)
        return;
    copse__free(d->arena->mem, d->entries.at);
    copse__free(d->arena->mem, d->slots);
    d->entries.at = NULL;
    d->slots = NULL;
    d->entries.count = d->entries.room = d->slot_count = 0;
}
