/* SPDX-License-Identifier: MIT */
/* Different texts of a column of a table, found by hash. */
#ifndef COPSE_DATA_DICTIONARY_H
#define COPSE_DATA_DICTIONARY_H

#include "core/base/base.h"

struct copse_dictionary_entry {
    const char *text;
    size_t size;
    size_t count;     /* of its occurrences */
    const char *path; /* of its first occurrence: file and row */
    size_t row;
};

struct copse_dictionary {
    struct copse_arena *arena; /* of the texts; set before the first use; it may be shared */
    struct {
        struct copse_dictionary_entry *at;
        size_t count, room;
    } entries;
    uint32_t *slots; /* entry + 1, 0: empty; open addressing */
    size_t slot_count;
};

/* The entry of a text, or NULL. */
struct copse_dictionary_entry *copse__dictionary_find(const struct copse_dictionary *d,
                                                      const char *text, size_t size);
/* Count an occurrence; false without memory. */
bool copse__dictionary_add(struct copse_dictionary *d, const char *text, size_t size,
                           const char *path, size_t row);
void copse__dictionary_fini(struct copse_dictionary *d);

#endif
