/* SPDX-License-Identifier: MIT */
/* A kernel cache in memory, outside of contexts: its entries outlive contexts, can be counted, and
   can be damaged. */
#ifndef COPSE_KEPT_H
#define COPSE_KEPT_H

#include "tests/rig/rig.h"

struct kept {
    char key[128];
    unsigned char *bytes;
    size_t size;
};
static struct kept kept[256];
static size_t kept_count;
static const char *kept_prefix = ""; /* of keys; other keys are ignored */

static inline size_t find_kept(const char *key)
{
    size_t i = 0;
    while (i < kept_count && strcmp(kept[i].key, key) != 0)
        i++;
    return i;
}

static inline void get_kept(void *user, const char *key,
                            void (*take)(void *to, const void *bytes, size_t size), void *to)
{
    const size_t i = find_kept(key);
    (void)user;
    if (i < kept_count)
        take(to, kept[i].bytes, kept[i].size);
}

/* Entry i is a copy of these bytes, followed by 256 zeros. */
static inline void set_kept(size_t i, const void *bytes, size_t size)
{
    unsigned char *copy = calloc(size + 256, 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    free(kept[i].bytes);
    kept[i].bytes = copy;
    kept[i].size = size;
}

/* The current content of entry i; the caller frees the bytes. */
static inline struct kept copy_of_kept(size_t i)
{
    struct kept copy = kept[i];
    copy.bytes = calloc(copy.size + 256, 1);
    if (!copy.bytes)
        abort();
    memcpy(copy.bytes, kept[i].bytes, copy.size);
    return copy;
}

static inline void restore_kept(size_t i, const struct kept *from)
{
    set_kept(i, from->bytes, from->size);
}

static inline void keep(void *user, const char *key, const void *bytes, size_t size)
{
    const size_t i = find_kept(key);
    (void)user;
    if (strncmp(key, kept_prefix, strlen(kept_prefix)) != 0 || i >= sizeof kept / sizeof *kept ||
        strlen(key) >= sizeof kept->key)
        return;
    strcpy(kept[i].key, key);
    set_kept(i, bytes, size);
    kept_count += i == kept_count;
}

static inline void drop_kept(void)
{
    for (size_t i = 0; i < kept_count; i++)
        free(kept[i].bytes);
    memset(kept, 0, sizeof kept);
    kept_count = 0;
}

#endif
