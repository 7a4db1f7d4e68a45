/* SPDX-License-Identifier: MIT */
/* Blocks of one size, allocated in groups that are never freed one by one. */
#include "core/base/handles.h"

#define ALIGNMENT 16

struct copse_handle {          /* in front of each block */
    struct copse_handle *next; /* the next younger returned block */
};

struct copse_handle_room {
    struct copse_handle_room *next;
};

static struct copse_handle *first_use(struct copse_handles *h, size_t stride)
{
    unsigned char *at = (unsigned char *)h->rooms + ALIGNMENT;
    return (struct copse_handle *)(void *)(at + (COPSE_HANDLES - h->fresh--) * stride);
}

static bool add_room(struct copse_handles *h, struct copse_mem *mem, size_t stride)
{
    struct copse_handle_room *room = copse__alloc(mem, 1, ALIGNMENT + COPSE_HANDLES * stride);
    if (!room)
        return false;
    atomic_fetch_sub_explicit(&mem->live, 1, memory_order_relaxed);
    room->next = h->rooms;
    h->rooms = room;
    h->fresh = COPSE_HANDLES;
    return true;
}

void *copse__handle_take(struct copse_handles *h, struct copse_mem *mem, size_t size)
{
    const size_t stride = copse__round_up(ALIGNMENT + size, ALIGNMENT);
    struct copse_handle *b = h->oldest;
    if (h->fresh == 0 && h->idle < COPSE_HANDLES_IDLE && !add_room(h, mem, stride))
        return NULL;
    if (h->fresh > 0) {
        b = first_use(h, stride);
    } else {
        h->oldest = b->next; /* not the last block */
        h->idle--;
    }
    b->next = NULL;
    return memset((unsigned char *)b + ALIGNMENT, 0, size);
}

bool copse__handle_is(const struct copse_handles *h, size_t size, const void *block)
{
    const size_t stride = copse__round_up(ALIGNMENT + size, ALIGNMENT);
    for (const struct copse_handle_room *room = h->rooms; room; room = room->next) {
        const uintptr_t first = (uintptr_t)room + ALIGNMENT + ALIGNMENT, at = (uintptr_t)block;
        const size_t used = COPSE_HANDLES - (room == h->rooms ? h->fresh : 0);
        if (at >= first && at - first < used * stride && (at - first) % stride == 0)
            return true;
    }
    return false;
}

void copse__handle_give(struct copse_handles *h, void *block)
{
    struct copse_handle *b = (struct copse_handle *)(void *)((unsigned char *)block - ALIGNMENT);
    b->next = NULL;
    if (h->newest)
        h->newest->next = b;
    else
        h->oldest = b;
    h->newest = b;
    h->idle++;
}

void copse__handles_fini(struct copse_handles *h, struct copse_mem *mem)
{
    for (struct copse_handle_room *room = h->rooms, *next; room; room = next) {
        next = room->next;
        mem->resize(mem->user, room, 0); /* not counted as a live block */
    }
    *h = (struct copse_handles){ 0 };
}
