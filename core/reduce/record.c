/* SPDX-License-Identifier: MIT */
/* From schedules to recordings: a bucket becomes a list of steps, so that a run decides nothing.
   See exchange.c for why the waits that stand in it are enough. */
#include "core/reduce/exchange_internal.h"

#define PER         32         /* elements of an invocation of the reduction kernels */
#define MAX_SCRATCH (1u << 28) /* bytes: longer ranges are done in rounds */

struct recorder {
    copse_exchange *x;
    const struct copse_piece *piece;
    struct copse_bucket *bucket;
    const struct copse_schedule *schedule;
    struct copse_binding *total; /* by slice: where its owner finds the sum */
    struct {
        struct copse_command *at;
        size_t count, room;
        struct copse_move move;    /* the first of them */
    } pending[COPSE_MAX_REPLICAS]; /* commands that a rank has not played yet */
    bool has_played[COPSE_MAX_REPLICAS];
};

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "exchange: no memory for a bucket");
}

static copse_status push_step(struct recorder *r, const struct copse_exchange_step *step)
{
    return COPSE_PUSH(r->x->mem, &r->bucket->steps, *step) ? COPSE_OK : no_memory();
}

static copse_status push_command(struct recorder *r, const struct copse_move *m,
                                 const struct copse_command *c)
{
    if (r->pending[m->dst].count == 0)
        r->pending[m->dst].move = *m;
    return COPSE_PUSH(r->x->mem, &r->pending[m->dst], *c) ? COPSE_OK : no_memory();
}

/* What the ranks have pending becomes one segment each. */
static copse_status play_pending(struct recorder *r)
{
    for (uint32_t rank = 0; rank < r->x->rank_count; rank++) {
        if (r->pending[rank].count == 0)
            continue;
        struct copse_exchange_step step = { .kind = COPSE_STEP_PLAY,
                                            .rank = rank,
                                            .move = r->pending[rank].move };
        COPSE_TRY(copse__segment_create(r->x->ranks[rank].queue, r->pending[rank].at,
                                        r->pending[rank].count, &step.segment));
        const copse_status s = push_step(r, &step);
        if (s) {
            copse__segment_release(&step.segment);
            return s;
        }
        r->pending[rank].count = 0;
        r->has_played[rank] = true;
    }
    return COPSE_OK;
}

/* ---- ranges ---- */

static uint64_t row_elements(const struct copse_move *m)
{
    return (m->count + COPSE_UNIT - 1) / COPSE_UNIT * COPSE_UNIT;
}

static uint32_t inbox_rows(const struct recorder *r)
{
    return r->piece->is_shared ? 0 : r->x->rank_count;
}

static struct copse_binding values_of(const struct recorder *r, uint32_t rank,
                                      const struct copse_move *m)
{
    return copse__piece_range(r->piece, r->piece->values, rank, m->first, m->count);
}

static struct copse_binding gradients_of(const struct recorder *r, uint32_t rank,
                                         const struct copse_move *m)
{
    return copse__piece_range(r->piece, r->piece->gradients, rank, m->first, m->count);
}

/* Staged: where what src sends to dst arrives. Pairs are added one by one and need one row only. */
static struct copse_binding inbox(const struct recorder *r, const struct copse_move *m)
{
    const uint64_t row = r->x->params.reduction == COPSE_REDUCE_TREE ? 0 : m->src;
    return (struct copse_binding){ r->x->scratch[m->dst], (size_t)(4 * row * row_elements(m)),
                                   (size_t)(4 * m->count) };
}

/* All scratch memory of a round is there before anything that uses it is recorded. */
static copse_status make_room(struct recorder *r)
{
    for (size_t i = 0; i < r->schedule->moves.count; i++) {
        const struct copse_move *m = &r->schedule->moves.at[i];
        uint64_t rows = 0;
        if (m->kind == COPSE_MOVE_SUM)
            rows = inbox_rows(r) + 1;
        else if (m->kind == COPSE_MOVE_ACCUMULATE && !r->piece->is_shared)
            rows = 1;
        if (rows > 0)
            COPSE_TRY(copse__scratch_grow(r->x, m->dst, (size_t)(4 * rows * row_elements(m))));
    }
    return COPSE_OK;
}

/* ---- commands ---- */

static copse_status copy(struct recorder *r, const struct copse_move *m, struct copse_binding from,
                         struct copse_binding to)
{
    return push_command(r, m,
                        &(struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                                 .bindings = { from, to },
                                                 .binding_count = 2 });
}

static copse_status launch(struct recorder *r, const struct copse_move *m, enum copse_kernel_id id,
                           const void *params, const struct copse_binding *bindings)
{
    copse_device *dev = copse__rank_device(r->x, m->dst);
    const int32_t spec[] = { PER, dev->limits->has_wide_vectors, (int32_t)r->x->rank_count };
    struct copse_kernel *k;
    struct copse_command c;
    COPSE_TRY(copse__kernel_get(dev, id, spec, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y * PER;
    COPSE_TRY(copse__dispatch_init(&c, k, bindings, 2, params, (m->count + each - 1) / each, 0));
    return push_command(r, m, &c);
}

/* Shared: the contributions are read where they stand. Staged: from the inbox, own part included.
 */
static copse_status sum(struct recorder *r, const struct copse_move *m)
{
    const struct copse_exchange *x = r->x;
    const uint64_t row = row_elements(m);
    struct copse_params_tree_sum p = { .n = (uint32_t)m->count, .stride = (uint32_t)row };
    struct copse_binding parts = { x->scratch[m->dst], 0, (size_t)(4 * row * x->rank_count) };
    if (r->piece->is_shared) {
        p.base = (uint32_t)m->first;
        p.stride = (uint32_t)r->piece->elements;
        parts = (struct copse_binding){ r->piece->gradients[m->dst], 0,
                                        (size_t)(4 * r->piece->elements * x->rank_count) };
    } else {
        COPSE_TRY(copy(r, m, gradients_of(r, m->dst, m), inbox(r, m)));
    }
    struct copse_binding *total = &r->total[m->slice];
    *total = (struct copse_binding){ x->scratch[m->dst], (size_t)(4 * row * inbox_rows(r)),
                                     (size_t)(4 * m->count) };
    return launch(r, m, COPSE_KERNEL_tree_sum, &p, (struct copse_binding[]){ parts, *total });
}

static copse_status accumulate(struct recorder *r, const struct copse_move *m)
{
    const struct copse_params_accumulate p = { .n = (uint32_t)m->count };
    struct copse_binding from = inbox(r, m);
    if (r->piece->is_shared) {
        from = gradients_of(r, m->src, m);
        from.buffer = r->piece->gradients[m->dst]; /* as the destination's device sees it */
    }
    const struct copse_binding both[] = { from, gradients_of(r, m->dst, m) };
    return launch(r, m, COPSE_KERNEL_accumulate, &p, both);
}

static copse_status make_slots(struct recorder *r, const struct copse_move *m,
                               struct copse_binding *out)
{
    copse_exchange *x = r->x;
    const struct copse_buffer_params params = { .size = (size_t)(4 * x->params.slots * m->count) };
    copse_buffer *buf;
    COPSE_TRY(copse_note(copse_buffer_create(copse__rank_device(x, m->dst), &params, &buf),
                         "while making the optimizer slots of rank %u", m->dst));
    if (!COPSE_PUSH(x->mem, &r->bucket->slots, buf)) {
        copse_buffer_release(&buf);
        return no_memory();
    }
    x->slot_bytes[m->dst] += params.size;
    *out = (struct copse_binding){ buf, 0, params.size };
    return copse_queue_fill(x->ranks[m->dst].queue, buf, 0, params.size, 0);
}

static copse_status update(struct recorder *r, const struct copse_move *m)
{
    copse_exchange *x = r->x;
    struct copse_command c;
    struct copse_update u = {
        .values = values_of(r, m->dst, m),
        .gradients = r->total[m->slice].buffer ? r->total[m->slice] : gradients_of(r, m->dst, m),
        .step = x->ranks[m->dst].step,
        .count = m->count,
    };
    if (x->params.slots > 0)
        COPSE_TRY(make_slots(r, m, &u.slots));
    COPSE_TRY(x->params.update(x->params.user, copse__rank_device(x, m->dst), &u, &c));
    return push_command(r, m, &c);
}

static copse_status hand(struct recorder *r, const struct copse_move *m)
{
    struct copse_binding from = values_of(r, m->src, m);
    from.buffer = r->piece->values[m->dst]; /* as the destination's device sees it */
    return copy(r, m, from, values_of(r, m->dst, m));
}

static copse_status emit(struct recorder *r, const struct copse_move *m)
{
    switch (m->kind) {
    case COPSE_MOVE_GATHER:
        return COPSE_OK;
    case COPSE_MOVE_SUM:
        return sum(r, m);
    case COPSE_MOVE_ACCUMULATE:
        return accumulate(r, m);
    case COPSE_MOVE_UPDATE:
        return update(r, m);
    case COPSE_MOVE_HAND:
        return r->piece->is_shared ? hand(r, m) : COPSE_OK;
    }
    return copse_fail(COPSE_ERR_INTERNAL, "exchange: there is no move %d", (int)m->kind);
}

/* ---- crossing from rank to rank ---- */

/* Shared: the host waits for every source of the phase, once. */
static copse_status await_sources(struct recorder *r, const struct copse_move *moves, size_t count)
{
    bool is_seen[COPSE_MAX_REPLICAS] = { false };
    for (size_t i = 0; i < count; i++) {
        const uint32_t src = moves[i].src;
        if (is_seen[src])
            continue;
        is_seen[src] = true;
        COPSE_TRY(push_step(
            r, &(struct copse_exchange_step){
                   .kind = r->has_played[src] ? COPSE_STEP_AWAIT_LAST : COPSE_STEP_AWAIT_READY,
                   .rank = src,
                   .move = moves[i],
               }));
    }
    return COPSE_OK;
}

/* One range to one or more ranks, in messages. The moves differ in their destination only. */
static copse_status push_messages(struct recorder *r, const struct copse_move *moves, size_t count)
{
    const bool is_hand = moves->kind == COPSE_MOVE_HAND;
    const struct copse_binding from =
        is_hand ? values_of(r, moves->src, moves) : gradients_of(r, moves->src, moves);
    for (size_t at = 0; at < from.size; at += r->x->params.message_bytes) {
        const size_t size = COPSE_MIN(from.size - at, r->x->params.message_bytes);
        const struct copse_message message = {
            .from = { from.buffer, from.offset + at, size },
            .src = moves->src,
            .first = r->bucket->targets.count,
            .count = count,
        };
        if (!COPSE_PUSH(r->x->mem, &r->bucket->messages, message))
            return no_memory();
        for (size_t i = 0; i < count; i++) {
            const struct copse_binding to =
                is_hand ? values_of(r, moves[i].dst, moves) : inbox(r, &moves[i]);
            const struct copse_target target = { moves[i].dst,
                                                 { to.buffer, to.offset + at, size } };
            if (!COPSE_PUSH(r->x->mem, &r->bucket->targets, target))
                return no_memory();
        }
    }
    return COPSE_OK;
}

static copse_status send(struct recorder *r, const struct copse_move *moves, size_t count)
{
    struct copse_exchange_step step = { .kind = COPSE_STEP_SEND,
                                        .rank = moves->src,
                                        .first = r->bucket->messages.count,
                                        .move = *moves };
    for (uint32_t src = 0; src < r->x->rank_count; src++)
        for (size_t i = 0, end; i < count; i = end) {
            for (end = i + 1; end < count && moves[end].src == moves[i].src &&
                              moves[end].slice == moves[i].slice;)
                end++;
            if (moves[i].src == src)
                COPSE_TRY(push_messages(r, &moves[i], end - i));
        }
    step.count = r->bucket->messages.count - step.first;
    return push_step(r, &step);
}

/* ---- rounds ---- */

static copse_status record_phases(struct recorder *r)
{
    const struct copse_move *moves = r->schedule->moves.at;
    const size_t count = r->schedule->moves.count;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && moves[end].phase == moves[i].phase;)
            end++;
        if (moves[i].kind == COPSE_MOVE_GATHER || moves[i].kind == COPSE_MOVE_HAND) {
            COPSE_TRY(play_pending(r));
            COPSE_TRY(r->piece->is_shared ? await_sources(r, &moves[i], end - i)
                                          : send(r, &moves[i], end - i));
        }
        for (size_t m = i; m < end; m++)
            COPSE_TRY(emit(r, &moves[m]));
    }
    return play_pending(r);
}

static copse_status record_round(struct recorder *r, uint64_t first, uint64_t count)
{
    struct copse_mem *mem = r->x->mem;
    struct copse_schedule schedule;
    COPSE_TRY(copse__schedule_make(mem, r->x->params.reduction, r->x->rank_count, first, count,
                                   &schedule));
    r->schedule = &schedule;
    r->total = copse__alloc(mem, schedule.slices.count, sizeof *r->total);
    memset(r->has_played, 0, sizeof r->has_played);
    copse_status s = r->total ? make_room(r) : no_memory();
    if (!s)
        s = record_phases(r);
    copse__free(mem, r->total);
    copse__schedule_fini(mem, &schedule);
    return s;
}

/* Longest range whose rows fit every device's bindings. */
static uint64_t round_elements(const copse_exchange *x, const struct copse_piece *p)
{
    uint64_t bytes = MAX_SCRATCH;
    for (uint32_t r = 0; r < x->rank_count; r++) {
        const struct copse_limits *l = copse__rank_device(x, r)->limits;
        bytes = COPSE_MIN(bytes, COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes));
    }
    const uint64_t rows = p->is_shared || x->rank_count == 1 ? 1 : x->rank_count + 1;
    const uint64_t row = bytes / 4 / COPSE_MAX(rows, x->params.slots);
    const bool is_one_slice =
        x->params.reduction == COPSE_REDUCE_TREE || x->params.reduction == COPSE_REDUCE_TO_ONE;
    return row / COPSE_UNIT * COPSE_UNIT * (is_one_slice ? 1 : x->rank_count);
}

copse_status copse__exchange_bucket(copse_exchange *x, uint32_t piece, uint64_t first,
                                    uint64_t count, uint32_t *bucket)
{
    if (piece >= x->pieces.count || first > x->pieces.at[piece].elements ||
        count > x->pieces.at[piece].elements - first)
        return copse_fail(COPSE_ERR_ARGUMENT, "exchange: elements %llu to %llu are not in piece %u",
                          (unsigned long long)first, (unsigned long long)(first + count), piece);

    copse_status s = COPSE_OK;
    struct copse_bucket b = { .steps = { NULL, 0, 0 } };
    struct recorder *r = copse__alloc(x->mem, 1, sizeof *r);
    if (!r)
        return no_memory();
    r->x = x;
    r->piece = &x->pieces.at[piece];
    r->bucket = &b;
    const uint64_t most = round_elements(x, r->piece);
    for (uint64_t at = 0; at < count && !s; at += most)
        s = record_round(r, first + at, COPSE_MIN(count - at, most));
    for (uint32_t rank = 0; rank < x->rank_count; rank++)
        copse__free(x->mem, r->pending[rank].at);
    copse__free(x->mem, r);
    if (!s && !COPSE_PUSH(x->mem, &x->buckets, b))
        s = no_memory();
    if (s) {
        copse__bucket_fini(x, &b);
        return copse_note(s, "while recording the exchange of %llu elements",
                          (unsigned long long)count);
    }
    *bucket = (uint32_t)x->buckets.count - 1;
    return COPSE_OK;
}

void copse__bucket_fini(copse_exchange *x, struct copse_bucket *b)
{
    for (size_t i = 0; i < b->steps.count; i++)
        copse__segment_release(&b->steps.at[i].segment);
    for (size_t i = 0; i < b->slots.count; i++)
        copse_buffer_release(&b->slots.at[i]);
    copse__free(x->mem, b->steps.at);
    copse__free(x->mem, b->messages.at);
    copse__free(x->mem, b->targets.at);
    copse__free(x->mem, b->slots.at);
}
