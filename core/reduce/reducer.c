/* SPDX-License-Identifier: MIT */
/* The reducer: queues, memory and waits. See reducer.h. */
#include "core/reduce/reducer.h"

#define MESSAGE_BYTES ((size_t)1 << 20)

/* ---- lists of copies ---- */

bool copse__copies_add(struct copse_mem *mem, struct copse_copies *c, size_t message_bytes,
                       size_t *fill, const struct copse_view *from, const struct copse_view *to,
                       size_t count)
{
    for (size_t at = 0, size; at < from->at.size; at += size) {
        if (*fill == message_bytes)
            *fill = 0;
        size = COPSE_MIN(from->at.size - at, message_bytes - *fill);
        const struct copse_copy copy = {
            .from = { from->rank, { from->at.buffer, from->at.offset + at, size }, NULL },
            .offset = *fill,
            .first = c->targets.count,
            .count = count,
        };
        if (!COPSE_RESERVE(mem, &c->targets, c->targets.count + count) ||
            !COPSE_PUSH(mem, &c->list, copy))
            return false;
        for (size_t i = 0; i < count; i++)
            c->targets.at[c->targets.count++] =
                (struct copse_view){ to[i].rank,
                                     { to[i].at.buffer, to[i].at.offset + at, size },
                                     to[i].at.buffer ? NULL : to[i].host + at };
        *fill += size;
    }
    return true;
}

void copse__copies_fini(struct copse_mem *mem, struct copse_copies *c)
{
    copse__free(mem, c->list.at);
    copse__free(mem, c->targets.at);
    *c = (struct copse_copies){ .list = { NULL, 0, 0 } };
}

/* ---- life ---- */

copse_status copse__reducer_create(copse_context *ctx, copse_queue *const *queues, uint32_t count,
                                   size_t message_bytes, copse_reducer **out)
{
    copse_reducer *x = copse__alloc(&ctx->base.mem, 1, sizeof *x);
    *out = x;
    if (!x)
        return copse_no_memory("reduction");
    x->ctx = copse_context_retain(ctx);
    x->mem = &ctx->base.mem;
    x->ranks = count;
    x->message_bytes =
        copse__round_up(message_bytes ? message_bytes : MESSAGE_BYTES, COPSE_ALIGNMENT);
    for (uint32_t r = 0; r < count; r++)
        x->queues[r] = copse_queue_retain(queues[r]);
    return COPSE_OK;
}

bool copse__reducer_drain(copse_reducer *x)
{
    bool is_stuck = false;
    for (uint32_t r = 0; r < x->ranks; r++) {
        is_stuck = copse_queue_finish(x->queues[r]) == COPSE_ERR_TIMEOUT || is_stuck;
        x->is_open[r] = false;
        x->read[r] = x->fill[r] = 0;
    }
    x->copies.list.count = x->copies.targets.count = 0;
    if (!is_stuck)
        return true;
    copse__log(&x->ctx->base.log, COPSE_LOG_ERROR,
               "reduction: a device hangs, the host memory it writes to is not freed");
    memset(x->staging, 0, sizeof x->staging);
    return false;
}

void copse__reducer_release(copse_reducer **at)
{
    copse_reducer *x = *at;
    if (!x)
        return;
    *at = NULL;
    for (uint32_t r = 0; r < x->ranks; r++) {
        copse_buffer_release(&x->inbox[r]);
        copse__free_aligned(x->mem, x->staging[r].at);
        copse_queue_release(&x->queues[r]);
    }
    copse__copies_fini(x->mem, &x->copies);
    copse_context *ctx = x->ctx;
    copse__free(x->mem, x);
    copse_context_release(&ctx);
}

/* ---- memory ---- */

uint64_t copse__reducer_binding_bytes(const copse_reducer *x)
{
    uint64_t bytes = COPSE_MOST_ROWS;
    for (uint32_t r = 0; r < x->ranks; r++) {
        const struct copse_limits *l = x->queues[r]->dev->limits;
        bytes = COPSE_MIN(bytes, COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes));
    }
    return bytes;
}

copse_status copse__reducer_inbox(copse_reducer *x, uint32_t rank, size_t bytes)
{
    copse_buffer *larger;
    if (copse_buffer_size(x->inbox[rank]) >= bytes)
        return COPSE_OK;
    COPSE_TRY(copse_note(copse__buffer_acquire(x->queues[rank]->dev, bytes, &larger),
                         "while making the inbox of rank %u", rank));
    copse_buffer_release(&x->inbox[rank]);
    x->inbox[rank] = larger;
    return COPSE_OK;
}

copse_status copse__reducer_host(copse_reducer *x, struct copse_host_memory *memory, size_t bytes)
{
    if (memory->bytes >= bytes)
        return COPSE_OK;
    unsigned char *larger = copse__alloc_aligned(x->mem, bytes, 4096);
    if (!larger)
        return copse_fail(COPSE_ERR_NO_MEMORY, "reduction: no memory for %zu bytes on the host",
                          bytes);
    copse__free_aligned(x->mem, memory->at);
    *memory = (struct copse_host_memory){ larger, bytes };
    return COPSE_OK;
}

copse_status copse__reducer_staging(copse_reducer *x, uint32_t rank)
{
    return copse__reducer_host(x, &x->staging[rank], 2 * x->message_bytes);
}

/* ---- queues ---- */

bool copse__reducer_is_local(const copse_reducer *x, uint32_t a, uint32_t b)
{
    return a != COPSE_HOST && b != COPSE_HOST && x->queues[a] == x->queues[b];
}

copse_status copse__reducer_wait(copse_reducer *x, uint32_t rank, uint64_t ticket, const char *what,
                                 const atomic_bool *stop)
{
    if (x->busy)
        COPSE_TRY(x->busy(x->user));
    return copse_note(copse__queue_wait_unless(x->queues[rank], ticket, stop),
                      "while waiting for rank %u on %s (%s)", rank, x->queues[rank]->dev->info.id,
                      what);
}

copse_status copse__reducer_submit_rank(copse_reducer *x, uint32_t rank, uint64_t *ticket)
{
    COPSE_TRY(copse_queue_submit(x->queues[rank], ticket));
    x->is_open[rank] = false;
    if (x->read[rank] == UINT64_MAX)
        x->read[rank] = *ticket;
    return COPSE_OK;
}

copse_status copse__reducer_submit(copse_reducer *x)
{
    uint64_t ticket;
    for (uint32_t r = 0; r < x->ranks; r++)
        if (x->is_open[r])
            COPSE_TRY(copse__reducer_submit_rank(x, r, &ticket));
    return COPSE_OK;
}

copse_status copse__reducer_wait_reads(copse_reducer *x, const char *what)
{
    for (uint32_t r = 0; r < x->ranks; r++)
        if (x->read[r] == UINT64_MAX)
            COPSE_TRY(copse__reducer_submit_rank(x, r, &x->read[r]));
    for (uint32_t r = 0; r < x->ranks; r++)
        if (x->read[r]) {
            COPSE_TRY(copse__reducer_wait(x, r, x->read[r], what, NULL));
            x->read[r] = 0;
        }
    return COPSE_OK;
}
