/* SPDX-License-Identifier: MIT */
/* Parts of a run of a row exchange: a rank's list, recorded commands, copies between queues. */
#include "core/reduce/row/row_exchange_internal.h"

copse_status copse__row_exchange_give(copse_row_exchange *x, uint32_t rank,
                                      const struct copse_binding *rows,
                                      const struct copse_binding *sums, uint32_t count)
{
    copse_queue *q = x->ranks[rank].queue;
    const size_t bytes = COPSE_WORD_BYTES * (size_t)count;
    if (count > x->room)
        return copse_fail(COPSE_ERR_INTERNAL, "exchange: %u rows of '%s', there is room for %u",
                          count, x->params.name, x->room);
    if (count > 0) {
        COPSE_TRY(copse_queue_copy(q, rows->buffer, rows->offset, x->rows[rank], 0, bytes));
        COPSE_TRY(copse_queue_copy(q, sums->buffer, sums->offset, x->terms[rank], 0,
                                   copse__row_bytes(x, count)));
    }
    if (count == x->room)
        return COPSE_OK;
    if (x->params.rule.measures > 0) /* all elements are measured */
        COPSE_TRY(copse_queue_fill(q, x->terms[rank], copse__row_bytes(x, count),
                                   copse__row_bytes(x, x->room - count), 0));
    return copse_queue_fill(q, x->rows[rank], bytes, COPSE_WORD_BYTES * (size_t)(x->room - count),
                            x->params.rows);
}

copse_status copse__row_play(copse_row_exchange *x, struct copse_segment *segment, uint32_t rank)
{
    const bool is_other = x->other.segment == segment;
    COPSE_TRY(copse_note(is_other ? x->other.replay(x->other.user, rank, segment)
                                  : copse__segment_replay(segment),
                         "while starting work of rank %u", rank));
    return copse_note(copse_queue_submit(x->ranks[rank].queue, NULL),
                      "while starting work of rank %u", rank);
}

copse_status copse__row_send(copse_row_exchange *x, const struct copse_copies *copies)
{
    if (copies->list.count == 0)
        return COPSE_OK;
    COPSE_TRY(copse__copies_send(x->reducer, copies, 0, copies->list.count));
    return copse__reducer_submit(x->reducer);
}
