/* SPDX-License-Identifier: MIT */
/* From moves between workers to steps. Each worker sums the gradients of its own ranks on its
 * devices, reads the sums to host memory and sends them to the workers that own them. An owner sums
 * the partial sums of all workers, updates, and sends the new values to all. Sums for other workers
 * are first, so that they are sent while this worker computes its own.
 */
#include "core/reduce/exchange/bucket_record.h"

static uint32_t this_worker(const struct copse_recorder *r)
{
    return r->x->workers.worker;
}

static bool sends_sums(const struct copse_recorder *r)
{
    return r->half != COPSE_HALF_UPDATE && !r->rule->is_summed;
}

/* ---- the slices of a chunk, by worker ---- */

static struct copse_worker_slice *slices_of(const struct copse_recorder *r)
{
    return r->bucket->worker_slices.at + r->bucket->worker_slices.count - r->x->workers.count;
}

copse_status copse__record_workers_begin(struct copse_recorder *r, uint64_t count)
{
    const uint32_t workers = r->x->workers.count;
    for (uint32_t v = 0; v < workers; v++)
        if (!COPSE_PUSH(r->x->mem, &r->bucket->worker_slices,
                        ((struct copse_worker_slice){ 0, 0 })))
            return copse__record_no_memory();
    struct copse_worker_slice *slices = slices_of(r);
    for (size_t i = 0; i < r->schedule->slices.count; i++) {
        const struct copse_slice *slice = &r->schedule->slices.at[i];
        struct copse_worker_slice *all = &slices[slice->worker];
        if (all->size == 0)
            all->offset = COPSE_WORD_BYTES * (size_t)(slice->first - r->chunk);
        all->size += COPSE_WORD_BYTES * (size_t)slice->count;
    }
    COPSE_TRY(copse__exchange_workers_room(r->x, COPSE_WORD_BYTES * (size_t)count,
                                           slices[this_worker(r)].size));
    return copse__record_step(
        r, &(struct copse_exchange_step){
               .kind = COPSE_STEP_BEGIN,
               .message_kind = (sends_sums(r) ? COPSE_MESSAGE_SUMS : 0) |
                               (r->half != COPSE_HALF_SUM ? COPSE_MESSAGE_VALUES : 0),
               .first = r->bucket->worker_slices.count - workers,
               .count = (size_t)count,
               .move = r->schedule->moves.at[0] });
}

copse_status copse__record_workers_inbox(struct copse_recorder *r, const size_t *bytes)
{
    size_t rows[COPSE_MAX_REPLICAS] = { 0 };
    for (size_t i = 0; i < r->schedule->moves.count; i++) {
        const struct copse_move *m = &r->schedule->moves.at[i];
        if (m->kind == COPSE_MOVE_JOIN)
            rows[m->dst] = copse__record_row_bytes(m) * (r->x->workers.count + 1);
    }
    for (uint32_t rank = 0; rank < r->x->rank_count; rank++) {
        r->join_at[rank] = copse__round_up(bytes[rank], COPSE_ALIGNMENT);
        if (bytes[rank] + rows[rank] > 0)
            COPSE_TRY(copse__reducer_inbox(r->x->reducer, rank, r->join_at[rank] + rows[rank]));
    }
    return COPSE_OK;
}

struct copse_binding copse__record_workers_row(const struct copse_recorder *r,
                                               const struct copse_move *m, uint32_t worker)
{
    return (struct copse_binding){ r->x->reducer->inbox[m->dst],
                                   r->join_at[m->dst] + copse__record_row_bytes(m) * worker,
                                   copse__record_bytes(m) };
}

/* Sum the rows of all workers into the row after them. */
copse_status copse__record_workers_join(struct copse_recorder *r, const struct copse_move *m)
{
    const uint32_t workers = r->x->workers.count;
    const uint64_t row = copse__record_row(m);
    if (r->x->rank_count == 1)
        COPSE_TRY(copse__record_copy(r, m, copse__record_gradients(r, m->dst, m),
                                     copse__record_workers_row(r, m, this_worker(r))));
    r->total[m->slice] = copse__record_workers_row(r, m, workers);
    if (r->half == COPSE_HALF_SUM)
        COPSE_TRY(copse__record_keep(r, &r->bucket->sums, m, copse__record_bytes(m),
                                     &r->total[m->slice]));
    const struct copse_tree_sum t = {
        .terms = { r->x->reducer->inbox[m->dst], r->join_at[m->dst],
                   copse__record_row_bytes(m) * workers },
        .sum = r->total[m->slice],
        .rows = workers,
        .stride = (uint32_t)row,
        .count = m->count,
    };
    return copse__record_tree(r, m, &t);
}

/* ---- copies to host memory and back ---- */

static copse_status add_host_copy(struct copse_recorder *r, uint32_t rank, struct copse_binding at,
                                  size_t offset)
{
    const struct copse_host_copy c = { rank, at, offset };
    return COPSE_PUSH(r->x->mem, &r->bucket->host_copies, c) ? COPSE_OK : copse__record_no_memory();
}

/* Offset of a move's elements in the host memory of a chunk. */
static size_t offset_of(const struct copse_recorder *r, const struct copse_move *m)
{
    return COPSE_WORD_BYTES * (size_t)(m->first - r->chunk);
}

static copse_status bucket_record_workers_step(struct copse_recorder *r, int kind,
                                               uint32_t message_kind, uint32_t worker, size_t first,
                                               const struct copse_move *m)
{
    struct copse_exchange_step s = { .kind = kind,
                                     .message_kind = message_kind,
                                     .worker = worker,
                                     .rank = m->dst,
                                     .first = first,
                                     .count = r->bucket->host_copies.count - first,
                                     .move = *m };
    return copse__record_step(r, &s);
}

/* Reads to host memory, for one worker or for all. */
static copse_status record_reads(struct copse_recorder *r, const struct copse_move *moves,
                                 size_t count)
{
    const bool is_sum = moves->kind == COPSE_MOVE_PUSH;
    const size_t first = r->bucket->host_copies.count;
    for (size_t i = 0; i < count; i++) {
        const struct copse_move *m = &moves[i];
        struct copse_binding from = copse__record_values(r, m->src, m);
        if (is_sum)
            from =
                r->x->rank_count > 1 ? r->total[m->slice] : copse__record_gradients(r, m->src, m);
        COPSE_TRY(add_host_copy(r, m->src, from, offset_of(r, m)));
    }
    return bucket_record_workers_step(
        r, COPSE_STEP_READ, is_sum ? COPSE_KIND_SUMS : COPSE_KIND_RESULTS, 0, first, moves);
}

static copse_status record_sends(struct copse_recorder *r, uint32_t message_kind,
                                 const struct copse_move *m)
{
    const struct copse_worker_slice *slices = slices_of(r);
    bool is_any = false;
    /* of results the own slice, of sums those of the others */
    for (uint32_t v = 0; v < r->x->workers.count; v++)
        is_any |=
            slices[v].size > 0 && (v == this_worker(r)) == (message_kind == COPSE_KIND_RESULTS);
    return is_any ? bucket_record_workers_step(r, COPSE_STEP_WORKER_SEND, message_kind, 0,
                                               r->bucket->host_copies.count, m)
                  : COPSE_OK;
}

/* Received slices are written to the devices, worker by worker. */
static copse_status record_receives(struct copse_recorder *r, const struct copse_move *moves,
                                    size_t count)
{
    const uint32_t workers = r->x->workers.count;
    const bool is_sum = moves->kind == COPSE_MOVE_PULL;
    const struct copse_worker_slice *slices = slices_of(r);
    const struct copse_worker_slice *own = &slices[this_worker(r)];
    for (uint32_t i = 1; i < workers; i++) {
        const uint32_t v = (this_worker(r) + i) % workers;
        const size_t first = r->bucket->host_copies.count;
        for (size_t k = 0; k < count; k++) {
            const struct copse_move *m = &moves[k];
            if (m->worker != v)
                continue;
            COPSE_TRY(is_sum ? add_host_copy(r, m->dst, copse__record_workers_row(r, m, v),
                                             v * own->size + offset_of(r, m) - own->offset)
                             : add_host_copy(r, m->dst, copse__record_values(r, m->dst, m),
                                             offset_of(r, m)));
        }
        if (r->bucket->host_copies.count > first)
            COPSE_TRY(bucket_record_workers_step(r, COPSE_STEP_WORKER_RECV,
                                                 is_sum ? COPSE_KIND_SUMS : COPSE_KIND_RESULTS, v,
                                                 first, moves));
    }
    return COPSE_OK;
}

/* Sums are sent after the last read. A worker that owns nothing of the chunk has no PULL; it sends
   them before it receives values. */
copse_status copse__record_workers_phase(struct copse_recorder *r, const struct copse_move *moves,
                                         size_t count)
{
    const bool owns_none = slices_of(r)[this_worker(r)].size == 0;
    switch (moves->kind) {
    case COPSE_MOVE_PUSH:
        return record_reads(r, moves, count);
    case COPSE_MOVE_PULL:
        COPSE_TRY(record_sends(r, COPSE_KIND_SUMS, moves));
        return record_receives(r, moves, count);
    case COPSE_MOVE_PUBLISH:
        COPSE_TRY(record_reads(r, moves, count));
        return record_sends(r, COPSE_KIND_RESULTS, moves);
    case COPSE_MOVE_ADOPT:
        if (owns_none && sends_sums(r))
            COPSE_TRY(record_sends(r, COPSE_KIND_SUMS, moves));
        return r->half == COPSE_HALF_SUM ? COPSE_OK : record_receives(r, moves, count);
    default:
        return copse_fail(COPSE_ERR_INTERNAL, "exchange: move %d does not cross workers",
                          (int)moves->kind);
    }
}
