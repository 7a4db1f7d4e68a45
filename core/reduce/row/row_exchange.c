/* SPDX-License-Identifier: MIT */
/* Creation and runs of a row exchange. The waits are those of the exchange (exchange.c): a copy
   between queues is read in its source's queue, behind the work that computed it, and written in
   its target's queue, ahead of the work that reads it. */
#include "core/reduce/row/row_exchange_internal.h"

/* ---- life ---- */

static copse_status row_exchange_check(const struct copse_row_exchange_params *p)
{
    if (p->rows == 0 || p->width == 0 || p->rule.behind || !p->rule.update ||
        p->rule.slots > COPSE_EXCHANGE_SLOTS)
        return copse_fail(COPSE_ERR_INTERNAL,
                          "exchange: no rows of '%s' can be exchanged with this rule", p->name);
    return COPSE_OK;
}

static copse_status make_slots(copse_row_exchange *x)
{
    const uint64_t words = (uint64_t)x->params.rows * x->params.width;
    x->slot_stride = copse__round_up(COPSE_WORD_BYTES * (size_t)words, COPSE_ALIGNMENT);
    if (x->params.rule.slots == 0 || x->owner == COPSE_ROW_NO_OWNER)
        return COPSE_OK;
    copse_queue *q = x->ranks[x->owner].queue;
    const struct copse_buffer_params params = { .size = x->params.rule.slots * x->slot_stride };
    COPSE_TRY(copse_note(copse_buffer_create(q->dev, &params, &x->slots),
                         "while making the slots of '%s'", x->params.name));
    for (uint32_t k = 0; k < x->params.rule.slots; k++) {
        uint32_t word;
        memcpy(&word, &x->params.rule.starts[k], sizeof word);
        COPSE_TRY(copse_queue_fill(q, x->slots, k * x->slot_stride, x->slot_stride, word));
    }
    return COPSE_OK;
}

static copse_status row_exchange_init(copse_row_exchange *x,
                                      const struct copse_row_exchange_params *p)
{
    copse_queue *queues[COPSE_MAX_REPLICAS];
    x->params.ctx = copse_context_retain(p->ctx);
    x->params.ranks = x->ranks;
    x->params.values = x->values;
    x->all = p->group->ranks;
    x->owner = p->group->first == 0 ? 0 : COPSE_ROW_NO_OWNER;
    x->is_one_queue = p->group->workers == 1;
    for (uint32_t r = 0; r < p->rank_count; r++) {
        x->ranks[r] = p->ranks[r];
        x->values[r] = p->values[r];
        copse_buffer_retain(x->ranks[r].step.buffer);
        copse_buffer_retain(x->values[r].buffer);
        queues[r] = x->ranks[r].queue;
        x->is_one_queue &= queues[r] == queues[0];
    }
    if (p->group->workers > 1)
        x->messages = (struct copse_worker_messages){ .group = p->group,
                                                      .what = { "rows of gradients", "new rows" } };
    COPSE_TRY(copse__reducer_create(p->ctx, queues, p->rank_count, p->message_bytes, &x->reducer));
    return make_slots(x);
}

copse_status copse__row_exchange_create(const struct copse_row_exchange_params *p,
                                        copse_row_exchange **out)
{
    *out = NULL;
    COPSE_TRY(row_exchange_check(p));
    copse_row_exchange *x = copse__alloc(&p->ctx->base.mem, 1, sizeof *x);
    COPSE_TRY(copse_need_memory(x, "exchange"));
    x->params = *p;
    x->mem = &p->ctx->base.mem;
    const copse_status s = row_exchange_init(x, p);
    if (s)
        copse__row_exchange_release(&x);
    *out = x;
    return s;
}

void copse__row_exchange_release(copse_row_exchange **at)
{
    copse_row_exchange *x = *at;
    if (!x)
        return;
    *at = NULL;
    const bool is_idle = !x->reducer || copse__reducer_drain(x->reducer);
    if (x->messages.group)
        copse__row_workers_fini(x);
    copse__row_record_fini(x);
    if (is_idle) { /* a device that does not answer may still write there */
        copse__free_aligned(x->mem, x->lists.at);
        copse__free_aligned(x->mem, x->new_rows.at);
        copse__free_aligned(x->mem, x->measures.at);
    }
    copse__free_aligned(x->mem, x->others.at);
    copse_buffer_release(&x->slots);
    for (uint32_t r = 0; r < x->params.rank_count; r++) {
        copse_buffer_release(&x->ranks[r].step.buffer);
        copse_buffer_release(&x->values[r].buffer);
    }
    copse__reducer_release(&x->reducer);
    copse_context *ctx = x->params.ctx;
    copse__free(x->mem, x);
    copse_context_release(&ctx);
}

/* ---- lists ---- */

copse_status copse__row_exchange_reserve(copse_row_exchange *x, uint32_t count)
{
    const uint32_t room = (uint32_t)copse__round_up(count, COPSE_UNIT);
    copse_status s = room > x->room ? copse__row_record_lists(x, room) : COPSE_OK;
    /* else all workers decide how long the lists are */
    if (!s && !copse__row_has_workers(x) && x->each != x->room)
        s = copse__row_record_join(x, x->room);
    return copse_note(s, "while making memory for %u rows of '%s'", count, x->params.name);
}

/* ---- runs ---- */

/* From the update on. */
static copse_status row_exchange_spread(copse_row_exchange *x)
{
    COPSE_TRY(copse__row_send(x, &x->spread));
    for (uint32_t r = 0; r < x->params.rank_count; r++)
        if (x->adopt[r])
            COPSE_TRY(copse__row_play(x, x->adopt[r], r));
    x->has_newest = true;
    return COPSE_OK;
}

static copse_status row_exchange_run(copse_row_exchange *x, const uint64_t *ready,
                                     const atomic_bool *stop)
{
    for (uint32_t r = 0; r < x->params.rank_count; r++)
        if (!copse__row_is_local(x, r))
            COPSE_TRY(
                copse__reducer_wait(x->reducer, r, ready[r], "computing its gradients", stop));
    COPSE_TRY(copse__row_send(x, &x->gather));
    COPSE_TRY(copse__row_play(x, copse__row_first(x), x->owner));
    return x->params.rule.measures > 0 ? COPSE_OK : row_exchange_spread(x);
}

copse_status copse__row_exchange_run(copse_row_exchange *x, const uint64_t *ready,
                                     copse_busy_fn *busy, void *user, const atomic_bool *stop)
{
    x->reducer->busy = busy;
    x->reducer->user = user;
    x->has_newest = false;
    if (copse__row_has_workers(x))
        return copse_note(copse__row_workers_run(x), "in the exchange of rows of '%s'",
                          x->params.name);
    if (x->room == 0) /* no loss depends on the variable */
        return COPSE_OK;
    return copse_note(row_exchange_run(x, ready, stop), "in the exchange of rows of '%s'",
                      x->params.name);
}

static copse_status row_exchange_finish(copse_row_exchange *x)
{
    COPSE_TRY(copse__row_play(x, x->update, x->owner));
    return row_exchange_spread(x);
}

copse_status copse__row_exchange_finish(copse_row_exchange *x)
{
    x->reducer->busy = NULL;
    if (x->each == 0)
        return COPSE_OK;
    return copse_note(copse__row_has_workers(x) ? copse__row_workers_finish(x)
                                                : row_exchange_finish(x),
                      "in the exchange of rows of '%s'", x->params.name);
}

copse_status copse__row_exchange_queue(copse_row_exchange *x)
{
    if (!x->is_one_queue)
        return copse_fail(COPSE_ERR_INTERNAL, "exchange: rows of '%s' need the host",
                          x->params.name);
    return x->room == 0 ? COPSE_OK : copse__segment_replay(x->update);
}

/* ---- measures ---- */

copse_status copse__row_exchange_read_measures(copse_row_exchange *x)
{
    copse_buffer *measures = x->join.measures;
    return measures ? copse_queue_read(x->ranks[x->owner].queue, measures, 0, x->measures.at,
                                       copse_buffer_size(measures))
                    : COPSE_OK;
}

const float *copse__row_exchange_measures(const copse_row_exchange *x, size_t *count)
{
    *count = x->join.measures ? copse_buffer_size(x->join.measures) / COPSE_MEASURE_BYTES : 0;
    return (const float *)(const void *)x->measures.at;
}

copse_status copse__row_exchange_write_factor(copse_row_exchange *x, float factor)
{
    copse_buffer *measures = x->join.measures;
    uint32_t word;
    memcpy(&word, &factor, sizeof word);
    return measures ? copse_queue_fill(x->ranks[x->owner].queue, measures, 0,
                                       copse_buffer_size(measures), word)
                    : COPSE_OK;
}

/* ---- what is replayed ---- */

copse_status copse__row_exchange_visit(const copse_row_exchange *x, copse_replay_fn *visit,
                                       void *user)
{
    if (x->sum)
        COPSE_TRY(visit(user, x->owner, x->sum));
    if (x->update)
        COPSE_TRY(visit(user, x->owner, x->update));
    for (uint32_t r = 0; r < x->params.rank_count; r++)
        if (x->adopt[r])
            COPSE_TRY(visit(user, r, x->adopt[r]));
    return COPSE_OK;
}

copse_status copse__row_exchange_newest(copse_row_exchange *x, uint32_t rank,
                                        struct copse_binding *out)
{
    *out = (struct copse_binding){ .buffer = NULL };
    if (!x->has_newest || x->all == 1)
        return COPSE_OK;
    *out = x->newest[rank].bindings[2];
    return copse__queue_encode(x->ranks[rank].queue, &x->newest[rank]);
}

void copse__row_exchange_replay_by(copse_row_exchange *x, const struct copse_segment *segment,
                                   copse_replay_fn *replay, void *user)
{
    x->other.segment = segment;
    x->other.replay = replay;
    x->other.user = user;
}

/* ---- properties ---- */

bool copse__row_exchange_is_new(const copse_row_exchange *x)
{
    return x->is_new;
}

void copse__row_exchange_checked(copse_row_exchange *x)
{
    x->is_new = false;
}

bool copse__row_exchange_has(const copse_row_exchange *x, const copse_buffer *buffer)
{
    const struct copse_row_join *j = &x->join;
    const copse_buffer *const of_owner[] = { j->rows,   j->terms, j->places,   j->leads, j->sums,
                                             j->values, j->slots, j->measures, x->slots };
    bool has = false;
    for (size_t i = 0; i < COPSE_COUNT(of_owner); i++)
        has |= buffer == of_owner[i];
    for (uint32_t r = 0; r < x->params.rank_count; r++)
        has |= buffer == x->rows[r] || buffer == x->terms[r] || buffer == x->leads[r] ||
               buffer == x->news[r];
    return has && buffer;
}

bool copse__row_exchange_slots(const copse_row_exchange *x, struct copse_slice_memory *memory,
                               size_t *stride)
{
    *memory = (struct copse_slice_memory){ x->owner, x->slots, 0,
                                           (uint64_t)x->params.rows * x->params.width };
    *stride = x->slot_stride;
    return x->slots;
}

struct copse_row_exchange_size copse__row_exchange_size(const copse_row_exchange *x)
{
    return x->size;
}
