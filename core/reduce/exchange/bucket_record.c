/* SPDX-License-Identifier: MIT */
/* From schedules to recordings: a bucket becomes a list of steps, so that a run decides nothing.
   exchange.c explains why the recorded waits are enough. */
#include "core/reduce/exchange/bucket_record.h"

/* The pending commands of each rank become one segment. */
static copse_status play_pending(struct copse_recorder *r)
{
    for (uint32_t rank = 0; rank < r->x->rank_count; rank++) {
        if (r->pending[rank].count == 0)
            continue;
        struct copse_exchange_step step = { .kind = COPSE_STEP_PLAY,
                                            .rank = rank,
                                            .move = r->pending[rank].move };
        COPSE_TRY(copse__segment_create(r->x->ranks[rank].queue, r->pending[rank].at,
                                        r->pending[rank].count, &step.segment));
        const copse_status s = copse__record_step(r, &step);
        if (s) {
            copse__segment_release(&step.segment);
            return s;
        }
        r->pending[rank].count = 0;
        r->has_played[rank] = true;
    }
    return COPSE_OK;
}

/* ---- memory ---- */

static uint32_t inbox_rows(const struct copse_recorder *r)
{
    return r->piece->is_shared ? 0 : r->x->rank_count;
}

/* Staged: the row in which src's message to dst arrives. Pairs are added one by one and need only
   one row. */
static struct copse_binding bucket_record_inbox(const struct copse_recorder *r,
                                                const struct copse_move *m)
{
    const bool is_by_pairs =
        r->x->params.reduction == COPSE_REDUCE_TREE && !copse__has_workers(r->x);
    const uint64_t row = is_by_pairs ? 0 : m->src;
    return (struct copse_binding){ r->x->reducer->inbox[m->dst], copse__record_row_bytes(m) * row,
                                   copse__record_bytes(m) };
}

/* The inbox of a chunk is allocated before its commands are recorded. */
static copse_status make_room(struct copse_recorder *r)
{
    size_t most[COPSE_MAX_REPLICAS] = { 0 };
    for (size_t i = 0; i < r->schedule->moves.count; i++) {
        const struct copse_move *m = &r->schedule->moves.at[i];
        uint64_t rows = 0;
        if (m->kind == COPSE_MOVE_SUM)
            rows = inbox_rows(r) + 1;
        else if (m->kind == COPSE_MOVE_ACCUMULATE && !r->piece->is_shared)
            rows = 1;
        most[m->dst] = COPSE_MAX(most[m->dst], copse__record_row_bytes(m) * rows);
    }
    if (r->rule->is_summed)
        return COPSE_OK;
    if (copse__has_workers(r->x))
        return copse__record_workers_inbox(r, most);
    for (uint32_t rank = 0; rank < r->x->rank_count; rank++)
        if (most[rank] > 0)
            COPSE_TRY(copse__reducer_inbox(r->x->reducer, rank, most[rank]));
    return COPSE_OK;
}

/* ---- commands ---- */

/* Shared: the contributions are read in place. Staged: from the inbox, own one included. */
static copse_status bucket_record_sum(struct copse_recorder *r, const struct copse_move *m)
{
    const struct copse_exchange *x = r->x;
    const uint64_t row = copse__record_row(m);
    struct copse_binding *total = &r->total[m->slice];
    struct copse_tree_sum t = {
        .terms = { x->reducer->inbox[m->dst], 0, copse__record_row_bytes(m) * x->rank_count },
        .rows = x->rank_count,
        .stride = (uint32_t)row,
        .count = m->count,
    };
    if (r->piece->is_shared) {
        t.base = (uint32_t)m->first;
        t.stride = (uint32_t)r->piece->elements;
        t.terms =
            (struct copse_binding){ r->piece->gradients[m->dst], 0,
                                    COPSE_WORD_BYTES * (size_t)r->piece->elements * x->rank_count };
    } else {
        COPSE_TRY(copse__record_copy(r, m, copse__record_gradients(r, m->dst, m),
                                     bucket_record_inbox(r, m)));
    }
    *total = (struct copse_binding){ x->reducer->inbox[m->dst],
                                     copse__record_row_bytes(m) * inbox_rows(r),
                                     copse__record_bytes(m) };
    if (copse__has_workers(x) && m->worker == x->workers.worker)
        *total = copse__record_workers_row(r, m, m->worker);
    if (r->half == COPSE_HALF_SUM && !copse__has_workers(x))
        COPSE_TRY(copse__record_keep(r, &r->bucket->sums, m, copse__record_bytes(m), total));
    t.sum = *total;
    return copse__record_tree(r, m, &t);
}

static copse_status bucket_record_accumulate(struct copse_recorder *r, const struct copse_move *m)
{
    struct copse_command c;
    struct copse_binding from = bucket_record_inbox(r, m);
    if (r->piece->is_shared) {
        from = copse__record_gradients(r, m->src, m);
        from.buffer = r->piece->gradients[m->dst]; /* as the destination's device sees it */
    }
    COPSE_TRY(copse__accumulate_command(copse__rank_device(r->x, m->dst), r->x->rank_count, from,
                                        copse__record_gradients(r, m->dst, m), m->count, &c));
    return copse__record_command(r, m, &c);
}

static struct copse_binding sums_of(const struct copse_recorder *r, const struct copse_move *m)
{
    const copse_buffer *kept =
        r->half == COPSE_HALF_UPDATE ? copse__kept(&r->bucket->sums, m) : NULL;
    if (kept)
        return (struct copse_binding){ (copse_buffer *)kept, 0, copse__record_bytes(m) };
    return r->total[m->slice].buffer ? r->total[m->slice] : copse__record_gradients(r, m->dst, m);
}

/* Made by the first half that is recorded. */
static copse_status make_slots(struct copse_recorder *r, const struct copse_move *m,
                               struct copse_binding *out)
{
    copse_exchange *x = r->x;
    const struct copse_exchange_rule *rule = r->rule;
    const bool is_new = !copse__kept(&r->bucket->slots, m);
    const uint64_t words =
        rule->slot_words ? rule->slot_words(rule->user, m->count) : rule->slots * m->count;
    COPSE_TRY(copse__record_keep(r, &r->bucket->slots, m, COPSE_WORD_BYTES * (size_t)words, out));
    if (!is_new)
        return COPSE_OK;
    x->slot_bytes[m->dst] += copse_buffer_size(out->buffer);
    if (rule->slot_words)
        return copse_queue_fill(x->ranks[m->dst].queue, out->buffer, 0, out->size, 0);
    const size_t each = copse__record_bytes(m);
    for (uint32_t k = 0; k < rule->slots; k++) {
        uint32_t word;
        memcpy(&word, &rule->starts[k], sizeof word);
        COPSE_TRY(copse_queue_fill(x->ranks[m->dst].queue, out->buffer, k * each, each, word));
    }
    return COPSE_OK;
}

/* Room for measures at the move's destination. */
static copse_status make_measures(struct copse_recorder *r, const struct copse_move *m,
                                  struct copse_update *u)
{
    const size_t bytes = COPSE_MEASURE_BYTES * (size_t)(copse__record_row(m) / COPSE_UNIT);
    const size_t at = copse__measure_at(m->count);
    struct copse_binding all;
    COPSE_TRY(
        copse__record_keep(r, &r->bucket->measures, m, (r->rule->measures - 1) * at + bytes, &all));
    for (uint32_t k = 0; k < r->rule->measures; k++)
        u->measures[k] = (struct copse_binding){ all.buffer, k * at, bytes };
    return COPSE_OK;
}

static copse_status bucket_record_measure(struct copse_recorder *r, const struct copse_move *m,
                                          const struct copse_update *u)
{
    struct copse_command c[COPSE_MEASURES];
    COPSE_TRY(r->rule->measure(r->rule->user, copse__rank_device(r->x, m->dst), u, c));
    for (uint32_t k = 0; k < r->rule->measures; k++)
        COPSE_TRY(copse__record_command(r, m, &c[k]));
    return COPSE_OK;
}

static copse_status bucket_record_call(
    struct copse_recorder *r, const struct copse_move *m, const struct copse_update *u,
    copse_status (*fn)(void *, copse_device *, const struct copse_update *, struct copse_command *))
{
    struct copse_command c;
    if (!fn)
        return COPSE_OK;
    COPSE_TRY(fn(r->rule->user, copse__rank_device(r->x, m->dst), u, &c));
    return copse__record_command(r, m, &c);
}

static copse_status bucket_record_update(struct copse_recorder *r, const struct copse_move *m)
{
    struct copse_update u = {
        .values = copse__record_values(r, m->dst, m),
        .gradients = sums_of(r, m),
        .step = r->x->ranks[m->dst].step,
        .count = m->count,
    };
    if (r->half != COPSE_HALF_BOTH)
        COPSE_TRY(make_measures(r, m, &u));
    if (r->rule->slots > 0)
        COPSE_TRY(make_slots(r, m, &u.slots));
    if (r->half == COPSE_HALF_SUM)
        return bucket_record_measure(r, m, &u);
    COPSE_TRY(bucket_record_call(r, m, &u, r->rule->before));
    COPSE_TRY(bucket_record_call(r, m, &u, r->rule->update));
    return bucket_record_call(r, m, &u, r->rule->behind);
}

static copse_status bucket_record_broadcast(struct copse_recorder *r, const struct copse_move *m)
{
    struct copse_binding from = copse__record_values(r, m->src, m);
    from.buffer = r->piece->values[m->dst]; /* as the destination's device sees it */
    return copse__record_copy(r, m, from, copse__record_values(r, m->dst, m));
}

static copse_status bucket_record_emit(struct copse_recorder *r, const struct copse_move *m)
{
    switch (m->kind) {
    case COPSE_MOVE_GATHER:
    case COPSE_MOVE_PUSH:
    case COPSE_MOVE_PULL:
    case COPSE_MOVE_PUBLISH:
    case COPSE_MOVE_ADOPT:
        return COPSE_OK;
    case COPSE_MOVE_JOIN:
        return copse__record_workers_join(r, m);
    case COPSE_MOVE_SUM:
        return bucket_record_sum(r, m);
    case COPSE_MOVE_ACCUMULATE:
        return bucket_record_accumulate(r, m);
    case COPSE_MOVE_UPDATE:
        return bucket_record_update(r, m);
    case COPSE_MOVE_BROADCAST:
        return r->piece->is_shared ? bucket_record_broadcast(r, m) : COPSE_OK;
    }
    return copse_fail(COPSE_ERR_INTERNAL, "exchange: there is no move %d", (int)m->kind);
}

/* ---- transfers between ranks ---- */

/* Shared: the host waits for every source of the phase that has another queue, once. */
static copse_status await_sources(struct copse_recorder *r, const struct copse_move *moves,
                                  size_t count)
{
    bool is_seen[COPSE_MAX_REPLICAS] = { false };
    for (size_t i = 0; i < count; i++) {
        const uint32_t src = moves[i].src;
        const bool is_gradient = copse__has_workers(r->x) && moves[i].kind == COPSE_MOVE_GATHER;
        if (copse__is_same_queue(r->x, src, moves[i].dst) || is_seen[src] ||
            (is_gradient && r->is_ready[src]))
            continue;
        is_seen[src] = true;
        r->is_ready[src] = true;
        COPSE_TRY(copse__record_step(r, &(struct copse_exchange_step){
                                            .kind = r->has_played[src] && !is_gradient
                                                        ? COPSE_STEP_AWAIT_LAST
                                                        : COPSE_STEP_AWAIT_READY,
                                            .rank = src,
                                            .move = moves[i],
                                        }));
    }
    return COPSE_OK;
}

static bool is_local(const struct copse_recorder *r, const struct copse_move *m)
{
    return copse__is_same_queue(r->x, m->src, m->dst);
}

static struct copse_binding source_of(const struct copse_recorder *r, const struct copse_move *m)
{
    return m->kind == COPSE_MOVE_BROADCAST ? copse__record_values(r, m->src, m)
                                           : copse__record_gradients(r, m->src, m);
}

static struct copse_binding target_of(const struct copse_recorder *r, const struct copse_move *m)
{
    return m->kind == COPSE_MOVE_BROADCAST ? copse__record_values(r, m->dst, m)
                                           : bucket_record_inbox(r, m);
}

/* One view to those ranks that have another queue. The moves differ in their destination only. */
static copse_status add_copy(struct copse_recorder *r, const struct copse_move *moves, size_t count)
{
    const struct copse_view from = { moves->src, source_of(r, moves), NULL };
    struct copse_view to[COPSE_MAX_REPLICAS];
    size_t targets = 0, fill = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_local(r, &moves[i]))
            to[targets++] = (struct copse_view){ moves[i].dst, target_of(r, &moves[i]), NULL };
    return targets == 0 ||
                   copse__copies_add(r->x->mem, &r->bucket->copies, r->x->reducer->message_bytes,
                                     &fill, &from, to, targets)
               ? COPSE_OK
               : copse__record_no_memory();
}

/* Staged: copies through host memory first; ranks with the source's queue copy when they play. */
static copse_status bucket_record_send(struct copse_recorder *r, const struct copse_move *moves,
                                       size_t count)
{
    struct copse_exchange_step step = { .kind = COPSE_STEP_SEND,
                                        .rank = moves->src,
                                        .first = r->bucket->copies.list.count,
                                        .move = *moves };
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1;
             end < count && moves[end].src == moves[i].src && moves[end].slice == moves[i].slice;)
            end++;
        COPSE_TRY(add_copy(r, &moves[i], end - i));
    }
    step.count = r->bucket->copies.list.count - step.first;
    if (step.count > 0)
        COPSE_TRY(copse__record_step(r, &step));
    for (size_t i = 0; i < count; i++)
        if (is_local(r, &moves[i]))
            COPSE_TRY(
                copse__record_copy(r, &moves[i], source_of(r, &moves[i]), target_of(r, &moves[i])));
    return COPSE_OK;
}

/* ---- chunks ---- */

/* Whether moves of this kind belong to the half that is recorded. */
static bool is_due(const struct copse_recorder *r, enum copse_move_kind kind)
{
    switch (kind) {
    case COPSE_MOVE_GATHER: /* shared: the wait for copies of the last values, of all ranks */
        return r->half != COPSE_HALF_UPDATE && (r->piece->is_shared || !r->rule->is_summed);
    case COPSE_MOVE_UPDATE: /* SUM: measure */
    case COPSE_MOVE_ADOPT:  /* SUM: a worker that owns nothing sends its sums here */
        return true;
    case COPSE_MOVE_BROADCAST:
        return r->half != COPSE_HALF_SUM && !r->rule->stays;
    case COPSE_MOVE_PUBLISH:
        return r->half != COPSE_HALF_SUM;
    default:
        return r->half != COPSE_HALF_UPDATE && !r->rule->is_summed;
    }
}

static copse_status record_phases(struct copse_recorder *r)
{
    const struct copse_move *moves = r->schedule->moves.at;
    const size_t count = r->schedule->moves.count;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && moves[end].phase == moves[i].phase;)
            end++;
        if (!is_due(r, moves[i].kind))
            continue;
        if (moves[i].kind == COPSE_MOVE_GATHER || moves[i].kind == COPSE_MOVE_BROADCAST) {
            COPSE_TRY(play_pending(r));
            COPSE_TRY(r->piece->is_shared ? await_sources(r, &moves[i], end - i)
                                          : bucket_record_send(r, &moves[i], end - i));
        } else if (moves[i].kind >= COPSE_MOVE_PUSH && moves[i].kind != COPSE_MOVE_JOIN) {
            COPSE_TRY(play_pending(r));
            COPSE_TRY(copse__record_workers_phase(r, &moves[i], end - i));
        }
        for (size_t m = i; m < end; m++)
            COPSE_TRY(bucket_record_emit(r, &moves[m]));
    }
    return play_pending(r);
}

static copse_status record_chunk(struct copse_recorder *r, uint64_t first, uint64_t count)
{
    struct copse_mem *mem = r->x->mem;
    struct copse_schedule schedule;
    const copse_reduce_algorithm how = r->x->params.reduction;
    COPSE_TRY(copse__has_workers(r->x)
                  ? copse__schedule_make_workers(mem, how, &r->x->workers, first, count, &schedule)
                  : copse__schedule_make(mem, how, r->x->rank_count, first, count, &schedule));
    r->schedule = &schedule;
    r->chunk = first;
    r->total = copse__alloc(mem, schedule.slices.count, sizeof *r->total);
    memset(r->has_played, 0, sizeof r->has_played);
    memset(r->is_ready, 0, sizeof r->is_ready);
    copse_status s = r->total ? make_room(r) : copse__record_no_memory();
    if (!s && copse__has_workers(r->x))
        s = copse__record_workers_begin(r, count);
    if (!s)
        s = record_phases(r);
    copse__free(mem, r->total);
    copse__schedule_fini(mem, &schedule);
    return s;
}

static bool is_one_slice(const copse_exchange *x)
{
    return x->params.reduction == COPSE_REDUCE_TREE || x->params.reduction == COPSE_REDUCE_TO_ONE;
}

/* Most elements whose rows fit every device's bindings. */
static uint64_t chunk_elements(const copse_exchange *x, const struct copse_piece *p, uint32_t slots)
{
    uint32_t ranks = x->rank_count;
    if (copse__has_workers(x)) { /* the same result on all workers */
        const struct copse_workers *w = &x->workers;
        uint32_t most = 0;
        ranks = 0;
        for (uint32_t v = 0; v < w->count; v++) {
            most = COPSE_MAX(most, w->rank_counts[v]);
            ranks += w->rank_counts[v];
        }
        return COPSE_MIN(COPSE_MOST_ROWS, x->messages.group->binding_bytes) / COPSE_WORD_BYTES /
               (most + w->count + 3) / COPSE_UNIT * COPSE_UNIT * (is_one_slice(x) ? 1 : ranks);
    }
    const uint64_t rows = p->is_shared || x->rank_count == 1 ? 1 : x->rank_count + 1;
    const uint64_t row =
        copse__reducer_binding_bytes(x->reducer) / COPSE_WORD_BYTES / COPSE_MAX(rows, slots);
    return row / COPSE_UNIT * COPSE_UNIT * (is_one_slice(x) ? 1 : ranks);
}

static copse_status record_half(struct copse_recorder *r, enum copse_half half, uint64_t first,
                                uint64_t count)
{
    const uint64_t most = chunk_elements(r->x, r->piece, r->rule->slots);
    copse_status s = COPSE_OK;
    r->half = half;
    for (uint64_t at = 0; at < count && !s; at += most)
        s = record_chunk(r, first + at, COPSE_MIN(count - at, most));
    if (half != COPSE_HALF_UPDATE)
        r->bucket->half = r->bucket->steps.count;
    return s;
}

copse_status copse__exchange_bucket(copse_exchange *x, uint32_t piece, uint64_t first,
                                    uint64_t count, const struct copse_exchange_rule *rule,
                                    uint32_t *bucket)
{
    if (piece >= x->pieces.count || first > x->pieces.at[piece].elements ||
        count > x->pieces.at[piece].elements - first)
        return copse_fail(COPSE_ERR_ARGUMENT, "exchange: elements %llu to %llu are not in piece %u",
                          (unsigned long long)first, (unsigned long long)(first + count), piece);

    if (rule->slots > COPSE_EXCHANGE_SLOTS || !rule->update)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "exchange: %u slots: 0 to %u and an update are needed", rule->slots,
                          COPSE_EXCHANGE_SLOTS);
    if (rule->measures > COPSE_MEASURES || (rule->measures > 0 && !rule->measure))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "exchange: %u measures: 0 to %u and their commands are needed",
                          rule->measures, COPSE_MEASURES);

    copse_status s = COPSE_OK;
    struct copse_bucket b = { .is_used = true };
    struct copse_recorder *r = copse__alloc(x->mem, 1, sizeof *r);
    if (!r)
        return copse__record_no_memory();
    r->x = x;
    r->piece = &x->pieces.at[piece];
    r->bucket = &b;
    r->rule = rule;
    s = record_half(r, rule->measures > 0 ? COPSE_HALF_SUM : COPSE_HALF_BOTH, first, count);
    if (!s && rule->measures > 0)
        s = record_half(r, COPSE_HALF_UPDATE, first, count);
    for (uint32_t rank = 0; rank < x->rank_count; rank++)
        copse__free(x->mem, r->pending[rank].at);
    copse__free(x->mem, r);
    size_t at = 0;
    while (at < x->buckets.count && x->buckets.at[at].is_used)
        at++;
    if (!s && at == x->buckets.count && !COPSE_PUSH(x->mem, &x->buckets, b))
        s = copse__record_no_memory();
    if (s) {
        copse__bucket_fini(x, &b);
        return copse_note(s, "while recording the exchange of %llu elements",
                          (unsigned long long)count);
    }
    x->buckets.at[at] = b;
    *bucket = (uint32_t)at;
    return COPSE_OK;
}

static void kept_fini(copse_exchange *x, struct copse_kept *list)
{
    for (size_t i = 0; i < list->count; i++)
        copse_buffer_release(&list->at[i].buffer);
    copse__free(x->mem, list->at);
}

void copse__bucket_fini(copse_exchange *x, struct copse_bucket *b)
{
    for (size_t i = 0; i < b->steps.count; i++)
        copse__segment_release(&b->steps.at[i].segment);
    kept_fini(x, &b->slots);
    kept_fini(x, &b->measures);
    kept_fini(x, &b->sums);
    copse__copies_fini(x->mem, &b->copies);
    copse__free(x->mem, b->host_copies.at);
    copse__free(x->mem, b->worker_slices.at);
    copse__free(x->mem, b->steps.at);
}
