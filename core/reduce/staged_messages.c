/* SPDX-License-Identifier: MIT */
/* Staged messages: read to host memory and written to their targets, with one read of every source ahead. */
#include "core/reduce/exchange_internal.h"

copse_status copse__rank_wait_unless(copse_exchange *x, uint32_t rank, uint64_t ticket, const char *what,
                                     const atomic_bool *stop)
{
    if (x->busy)
        COPSE_TRY(x->busy(x->busy_user));
    const copse_status s = copse__queue_wait_unless(x->ranks[rank].queue, ticket, stop);
    const char *id = copse__rank_device(x, rank)->info.id;
    return copse_note(s, "while waiting for rank %u on %s (%s)", rank, id, what);
}

copse_status copse__rank_wait(copse_exchange *x, uint32_t rank, uint64_t ticket, const char *what)
{
    return copse__rank_wait_unless(x, rank, ticket, what, NULL);
}

static unsigned char *half_of(const copse_exchange *x, uint32_t rank, size_t index)
{
    return x->staging[rank] + index % 2 * x->params.message_bytes;
}

static copse_status start_read(copse_exchange *x, const struct copse_message *m, size_t index)
{
    copse_queue *queue = x->ranks[m->src].queue;
    COPSE_TRY(copse_queue_read(queue, m->from.buffer, m->from.offset, half_of(x, m->src, index),
                               m->from.size));
    return copse_queue_submit(queue, &x->read[m->src][index % 2]);
}

/* A message that is not its source's last is submitted at once, so that devices write while others are read. */
static copse_status write(copse_exchange *x, const struct copse_bucket *b,
                          const struct copse_message *m, size_t index, bool *is_open, bool is_last)
{
    for (size_t t = m->first; t < m->first + m->count; t++) {
        const struct copse_target *to = &b->targets.at[t];
        copse_queue *queue = x->ranks[to->rank].queue;
        COPSE_TRY(copse_queue_write(queue, to->to.buffer, to->to.offset, half_of(x, m->src, index),
                                    to->to.size));
        if (!is_last)
            COPSE_TRY(copse_queue_submit(queue, NULL));
        is_open[to->rank] = is_last;
    }
    return COPSE_OK;
}

/* Every source is read on its own: message i goes through half i % 2 of its staging memory. The
   read of message i + 1 starts before message i is written; that half is free, because message
   i - 1 was written by then. */
copse_status copse__messages_send(copse_exchange *x, const struct copse_bucket *b, size_t first,
                                  size_t count)
{
    size_t begin[COPSE_MAX_REPLICAS], end[COPSE_MAX_REPLICAS] = { 0 };
    bool is_open[COPSE_MAX_REPLICAS] = { false };
    const struct copse_message *messages = b->messages.at;
    for (size_t i = first; i < first + count; i++) {
        const uint32_t src = messages[i].src;
        if (end[src] == 0) {
            begin[src] = i;
            COPSE_TRY(start_read(x, &messages[i], 0));
        }
        end[src] = i + 1;
    }
    for (size_t index = 0, left = count; left > 0; index++)
        for (uint32_t src = 0; src < x->rank_count; src++) {
            if (end[src] == 0 || begin[src] + index >= end[src])
                continue;
            const struct copse_message *m = &messages[begin[src] + index];
            const bool is_last = begin[src] + index + 1 == end[src];
            COPSE_TRY(copse__rank_wait(x, src, x->read[src][index % 2], "reading its part"));
            if (!is_last)
                COPSE_TRY(start_read(x, m + 1, index + 1));
            COPSE_TRY(write(x, b, m, index, is_open, is_last));
            left--;
        }
    for (uint32_t rank = 0; rank < x->rank_count; rank++)
        if (is_open[rank])
            COPSE_TRY(copse_queue_submit(x->ranks[rank].queue, NULL));
    return COPSE_OK;
}
