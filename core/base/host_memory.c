/* SPDX-License-Identifier: MIT */
/* Checked host memory on top of the application's callback: arrays, aligned blocks, arenas. */
#include "core/base/base.h"

#define ARENA_ALIGN       16
#define ARENA_BLOCK_BYTES ((size_t)16 * 1024)

bool copse__mul(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

bool copse__add(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b)
        return false;
    *out = a + b;
    return true;
}

void *copse__resize(struct copse_mem *m, void *block, size_t count, size_t size)
{
    size_t bytes;
    if (!copse__mul(count, size, &bytes))
        return NULL;

    atomic_fetch_add_explicit(&m->calls, 1, memory_order_relaxed);
    void *p = m->resize(m->user, block, COPSE_MAX(bytes, 1));
    if (p && !block)
        atomic_fetch_add_explicit(&m->live, 1, memory_order_relaxed);
    return p;
}

void *copse__alloc(struct copse_mem *m, size_t count, size_t size)
{
    void *p = copse__resize(m, NULL, count, size);
    if (p)
        memset(p, 0, COPSE_MAX(count * size, 1));
    return p;
}

void copse__free(struct copse_mem *m, void *block)
{
    if (!block)
        return;
    atomic_fetch_sub_explicit(&m->live, 1, memory_order_relaxed);
    m->resize(m->user, block, 0);
}

char *copse__strdup(struct copse_mem *m, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = copse__resize(m, NULL, size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* The word before the aligned part holds the start of the allocation. */
void *copse__alloc_aligned(struct copse_mem *m, size_t size, size_t alignment)
{
    size_t bytes;
    if (!copse__add(size, alignment + sizeof(void *), &bytes))
        return NULL;
    unsigned char *whole = copse__alloc(m, bytes, 1);
    if (!whole)
        return NULL;

    const uintptr_t first = (uintptr_t)whole + sizeof(void *);
    unsigned char *p = whole + (copse__round_up(first, alignment) - (uintptr_t)whole);
    memcpy(p - sizeof whole, &whole, sizeof whole);
    return p;
}

void copse__free_aligned(struct copse_mem *m, void *block)
{
    void *whole;
    if (!block)
        return;
    memcpy(&whole, (unsigned char *)block - sizeof whole, sizeof whole);
    copse__free(m, whole);
}

/* `at` is the address of a typed pointer: memcpy respects the aliasing rules. */
bool copse__grow(struct copse_mem *m, void **at, size_t *room, size_t want, size_t size)
{
    size_t more = *room <= SIZE_MAX / 2 ? *room * 2 : want;
    more = COPSE_MAX(COPSE_MAX(more, want), 8);

    void *block;
    memcpy(&block, at, sizeof block);
    block = copse__resize(m, block, more, size);
    if (!block)
        return false;
    memcpy(at, &block, sizeof block);
    *room = more;
    return true;
}

struct copse_arena_block {
    struct copse_arena_block *next;
    size_t used, room; /* bytes after the header */
};
#define ARENA_HEADER \
    ((sizeof(struct copse_arena_block) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN)

void *copse__arena_alloc(struct copse_arena *a, size_t count, size_t size)
{
    size_t bytes, total;
    if (!copse__mul(count, size, &bytes) || !copse__add(bytes, ARENA_ALIGN + ARENA_HEADER, &total))
        return NULL;
    bytes = copse__round_up(COPSE_MAX(bytes, 1), ARENA_ALIGN);

    struct copse_arena_block *block = a->blocks;
    if (!block || block->room - block->used < bytes) {
        const size_t room = COPSE_MAX(bytes, ARENA_BLOCK_BYTES - ARENA_HEADER);
        block = copse__alloc(a->mem, ARENA_HEADER + room, 1);
        if (!block)
            return NULL;
        block->room = room;
        block->next = a->blocks;
        a->blocks = block;
    }
    void *p = (unsigned char *)block + ARENA_HEADER + block->used;
    block->used += bytes;
    return p;
}

char *copse__arena_strdup(struct copse_arena *a, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = copse__arena_alloc(a, size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

void copse__arena_fini(struct copse_arena *a)
{
    for (struct copse_arena_block *block = a->blocks, *next; block; block = next) {
        next = block->next;
        copse__free(a->mem, block);
    }
    a->blocks = NULL;
}
