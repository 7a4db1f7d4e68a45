/* SPDX-License-Identifier: MIT */
/* Copies between ranks through host memory. See reducer.h. */
#include "core/reduce/reducer.h"

/* ---- one copy ---- */

copse_status copse__reducer_read(copse_reducer *x, uint32_t rank, const struct copse_binding *from,
                                 void *to)
{
    x->is_open[rank] = true;
    x->read[rank] = UINT64_MAX; /* until it is submitted */
    return copse_queue_read(x->queues[rank], from->buffer, from->offset, to, from->size);
}

copse_status copse__reducer_write(copse_reducer *x, uint32_t rank, const struct copse_binding *to,
                                  const void *from)
{
    x->is_open[rank] = true;
    return copse_queue_write(x->queues[rank], to->buffer, to->offset, from, to->size);
}

static copse_status write_to(copse_reducer *x, const struct copse_view *to, const void *from)
{
    if (to->rank != COPSE_HOST)
        return copse__reducer_write(x, to->rank, &to->at, from);
    memcpy(to->host, from, to->at.size);
    return COPSE_OK;
}

copse_status copse__reducer_copy(copse_reducer *x, const struct copse_view *from,
                                 const struct copse_view *to, size_t count)
{
    struct copse_view staged[COPSE_MAX_REPLICAS + 1];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (from->rank == COPSE_HOST) {
            COPSE_TRY(write_to(x, &to[i], from->host));
        } else if (copse__reducer_is_local(x, from->rank, to[i].rank)) {
            x->is_open[to[i].rank] = true;
            COPSE_TRY(copse_queue_copy(x->queues[to[i].rank], from->at.buffer, from->at.offset,
                                       to[i].at.buffer, to[i].at.offset, from->at.size));
        } else {
            staged[n++] = to[i];
        }
    }
    if (n > 0 && !copse__copies_add(x->mem, &x->copies, x->message_bytes, &x->fill[from->rank],
                                    from, staged, n))
        return copse_fail(COPSE_ERR_NO_MEMORY, "reduction: no memory for a list of copies");
    return COPSE_OK;
}

/* ---- through host memory ---- */

/* The copies of one source: those of message `index` are [begin, next). */
struct source {
    size_t begin, next, end, index;
};

static unsigned char *half_of(const copse_reducer *x, uint32_t rank, size_t index)
{
    return x->staging[rank].at + index % 2 * x->message_bytes;
}

/* Copies of one source need not be neighbours. */
static size_t of_source(const struct copse_copies *c, uint32_t rank, size_t i, size_t end)
{
    while (i < end && c->list.at[i].from.rank != rank)
        i++;
    return i;
}

/* Read the message that begins with copy s->next, which then is the first of the message after it.
   Neighbours in memory are read at once. */
static copse_status start_read(copse_reducer *x, const struct copse_copies *c, uint32_t rank,
                               struct source *s, size_t index)
{
    const struct copse_copy *copy = &c->list.at[s->next];
    struct copse_binding from = copy->from.at;
    size_t to = 0;
    for (bool is_last = false; !is_last;) {
        s->next = of_source(c, rank, s->next + 1, s->end);
        copy = &c->list.at[s->next];
        is_last = s->next >= s->end || copy->offset == 0;
        if (!is_last && copy->from.at.buffer == from.buffer &&
            copy->from.at.offset == from.offset + from.size) {
            from.size += copy->from.at.size;
            continue;
        }
        COPSE_TRY(copse_queue_read(x->queues[rank], from.buffer, from.offset,
                                   half_of(x, rank, index) + to, from.size));
        to += from.size;
        if (!is_last)
            from = copy->from.at;
    }
    return copse__reducer_submit_rank(x, rank, &x->staged[rank][index % 2]);
}

/* A message that is not its source's last is submitted at once, so that devices write while others
   are read. */
static copse_status write_message(copse_reducer *x, const struct copse_copies *c, uint32_t rank,
                                  const struct source *s, size_t end, bool is_last)
{
    bool is_target[COPSE_MAX_REPLICAS] = { false };
    uint64_t ticket;
    for (size_t i = s->begin; i < end; i = of_source(c, rank, i + 1, end)) {
        const struct copse_copy *copy = &c->list.at[i];
        for (size_t t = copy->first; t < copy->first + copy->count; t++) {
            const struct copse_view *to = &c->targets.at[t];
            COPSE_TRY(write_to(x, to, half_of(x, rank, s->index) + copy->offset));
            if (to->rank != COPSE_HOST)
                is_target[to->rank] = true;
        }
    }
    for (uint32_t r = 0; r < x->ranks && !is_last; r++)
        if (is_target[r])
            COPSE_TRY(copse__reducer_submit_rank(x, r, &ticket));
    return COPSE_OK;
}

/* Every source is read on its own: message i goes through half i % 2 of its staging memory. The
   read of message i + 1 starts before message i is written; that half is free, because message i -
   1 was written by then. */
static copse_status next_message(copse_reducer *x, const struct copse_copies *c, uint32_t rank,
                                 struct source *s)
{
    const size_t end = s->next;
    const bool is_last = end >= s->end;
    COPSE_TRY(copse__reducer_wait(x, rank, x->staged[rank][s->index % 2],
                                  "reading its contribution", NULL));
    if (!is_last)
        COPSE_TRY(start_read(x, c, rank, s, s->index + 1));
    COPSE_TRY(write_message(x, c, rank, s, end, is_last));
    s->begin = end;
    s->index++;
    return COPSE_OK;
}

copse_status copse__copies_send(copse_reducer *x, const struct copse_copies *c, size_t first,
                                size_t count)
{
    struct source sources[COPSE_MAX_REPLICAS] = { { 0, 0, 0, 0 } };
    for (size_t i = first + count; i-- > first;) {
        struct source *s = &sources[c->list.at[i].from.rank];
        s->end = COPSE_MAX(s->end, i + 1);
        s->begin = s->next = i;
    }
    for (uint32_t rank = 0; rank < x->ranks; rank++)
        if (sources[rank].end > 0) {
            COPSE_TRY(copse__reducer_staging(x, rank));
            COPSE_TRY(start_read(x, c, rank, &sources[rank], 0));
        }
    for (bool is_any = count > 0; is_any;) {
        is_any = false;
        for (uint32_t rank = 0; rank < x->ranks; rank++)
            if (sources[rank].begin < sources[rank].end) {
                COPSE_TRY(next_message(x, c, rank, &sources[rank]));
                is_any = true;
            }
    }
    return COPSE_OK;
}

copse_status copse__reducer_send(copse_reducer *x)
{
    COPSE_TRY(copse__copies_send(x, &x->copies, 0, x->copies.list.count));
    x->copies.list.count = x->copies.targets.count = 0;
    memset(x->fill, 0, sizeof x->fill);
    return COPSE_OK;
}
