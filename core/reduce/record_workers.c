/* SPDX-License-Identifier: MIT */
/* From moves between workers to steps. Each worker sums its own ranks' gradients on its devices; sums
 * are read to host memory and sent to the workers that own them, which add the workers' sums up, update
 * and send the new values to everybody. Sums for others come first, so that they are under way while
 * this worker computes what is its own.
 */
#include "core/reduce/record.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "exchange: no memory for a bucket");
}

static uint32_t this_worker(const struct copse_recorder *r)
{
    return r->x->workers.worker;
}

/* ---- the shares of a round ---- */

static struct copse_share *shares_of(const struct copse_recorder *r)
{
    return r->bucket->shares.at + r->bucket->shares.count - r->x->workers.count;
}

copse_status copse__across_begin(struct copse_recorder *r, uint64_t count)
{
    const uint32_t workers = r->x->workers.count;
    for (uint32_t v = 0; v < workers; v++)
        if (!COPSE_PUSH(r->x->mem, &r->bucket->shares, ((struct copse_share){ 0, 0 })))
            return no_memory();
    struct copse_share *shares = shares_of(r);
    for (size_t i = 0; i < r->schedule->slices.count; i++) {
        const struct copse_slice *slice = &r->schedule->slices.at[i];
        struct copse_share *share = &shares[slice->worker];
        if (share->size == 0)
            share->offset = (size_t)(4 * (slice->first - r->round));
        share->size += (size_t)(4 * slice->count);
    }
    COPSE_TRY(copse__across_room(r->x, (size_t)(4 * count), shares[this_worker(r)].size));
    return copse__record_step(
        r, &(struct copse_exchange_step){ .kind = COPSE_STEP_BEGIN,
                                          .way = (r->half != COPSE_HALF_UPDATE ? COPSE_WAY_SUMS : 0) |
                                                 (r->half != COPSE_HALF_SUM ? COPSE_WAY_VALUES : 0),
                                          .first = r->bucket->shares.count - workers,
                                          .count = (size_t)count,
                                          .move = r->schedule->moves.at[0] });
}

copse_status copse__across_scratch(struct copse_recorder *r, const size_t *bytes)
{
    size_t rows[COPSE_MAX_REPLICAS] = { 0 };
    for (size_t i = 0; i < r->schedule->moves.count; i++) {
        const struct copse_move *m = &r->schedule->moves.at[i];
        if (m->kind == COPSE_MOVE_JOIN)
            rows[m->dst] = (size_t)(4 * copse__record_row(m)) * (r->x->workers.count + 1);
    }
    for (uint32_t rank = 0; rank < r->x->rank_count; rank++) {
        r->join_at[rank] = copse__round_up(bytes[rank], COPSE_ALIGNMENT);
        if (bytes[rank] + rows[rank] > 0)
            COPSE_TRY(copse__scratch_grow(r->x, rank, r->join_at[rank] + rows[rank]));
    }
    return COPSE_OK;
}

struct copse_binding copse__across_row(const struct copse_recorder *r, const struct copse_move *m,
                                       uint32_t worker)
{
    return (struct copse_binding){ r->x->scratch[m->dst],
                                   r->join_at[m->dst] +
                                       (size_t)(4 * copse__record_row(m)) * worker,
                                   (size_t)(4 * m->count) };
}

/* The sums of all workers become one, behind them. */
copse_status copse__across_join(struct copse_recorder *r, const struct copse_move *m)
{
    const uint32_t workers = r->x->workers.count;
    const uint64_t row = copse__record_row(m);
    if (r->x->rank_count == 1)
        COPSE_TRY(copse__record_copy(r, m, copse__record_gradients(r, m->dst, m),
                                     copse__across_row(r, m, this_worker(r))));
    r->total[m->slice] = copse__across_row(r, m, workers);
    if (r->half == COPSE_HALF_SUM)
        COPSE_TRY(copse__record_hold(r, m, &r->total[m->slice]));
    const struct copse_tree_sum t = {
        .parts = { r->x->scratch[m->dst], r->join_at[m->dst], (size_t)(4 * row) * workers },
        .sum = r->total[m->slice],
        .rows = workers,
        .stride = (uint32_t)row,
        .count = m->count,
    };
    return copse__record_tree(r, m, &t);
}

/* ---- crossings ---- */

static copse_status cross(struct copse_recorder *r, uint32_t rank, struct copse_binding at,
                          size_t offset)
{
    const struct copse_crossing c = { rank, at, offset };
    return COPSE_PUSH(r->x->mem, &r->bucket->crossings, c) ? COPSE_OK : no_memory();
}

/* Where a range stands in the blocks that hold a whole round. */
static size_t place(const struct copse_recorder *r, const struct copse_move *m)
{
    return (size_t)(4 * (m->first - r->round));
}

static copse_status step(struct copse_recorder *r, int kind, uint32_t way, uint32_t worker,
                         size_t first, const struct copse_move *m)
{
    struct copse_exchange_step s = { .kind = kind,
                                     .way = way,
                                     .worker = worker,
                                     .rank = m->dst,
                                     .first = first,
                                     .count = r->bucket->crossings.count - first,
                                     .move = *m };
    return copse__record_step(r, &s);
}

/* Read, for a worker or for all. */
static copse_status read_out(struct copse_recorder *r, const struct copse_move *moves, size_t count)
{
    const bool is_sum = moves->kind == COPSE_MOVE_PUSH;
    const size_t first = r->bucket->crossings.count;
    for (size_t i = 0; i < count; i++) {
        const struct copse_move *m = &moves[i];
        struct copse_binding from = copse__record_values(r, m->src, m);
        if (is_sum)
            from = r->x->rank_count > 1 ? r->total[m->slice] : copse__record_gradients(r, m->src, m);
        COPSE_TRY(cross(r, m->src, from, place(r, m)));
    }
    return step(r, COPSE_STEP_READ, is_sum ? 0 : 1, 0, first, moves);
}

static copse_status ship(struct copse_recorder *r, uint32_t way, const struct copse_move *m)
{
    const uint32_t workers = r->x->workers.count;
    const struct copse_share *shares = shares_of(r);
    for (uint32_t i = 1; i < workers; i++) { /* each begins with another one */
        const uint32_t v = (this_worker(r) + i) % workers;
        if (shares[way == 0 ? v : this_worker(r)].size > 0)
            COPSE_TRY(step(r, COPSE_STEP_SHIP, way, v, r->bucket->crossings.count, m));
    }
    return COPSE_OK;
}

/* What came is written, worker by worker. */
static copse_status take_in(struct copse_recorder *r, const struct copse_move *moves, size_t count)
{
    const uint32_t workers = r->x->workers.count;
    const bool is_sum = moves->kind == COPSE_MOVE_PULL;
    const struct copse_share *shares = shares_of(r);
    const struct copse_share *own = &shares[this_worker(r)];
    for (uint32_t i = 1; i < workers; i++) {
        const uint32_t v = (this_worker(r) + i) % workers;
        const size_t first = r->bucket->crossings.count;
        for (size_t k = 0; k < count; k++) {
            const struct copse_move *m = &moves[k];
            if (m->worker != v)
                continue;
            COPSE_TRY(is_sum ? cross(r, m->dst, copse__across_row(r, m, v),
                                     v * own->size + place(r, m) - own->offset)
                             : cross(r, m->dst, copse__record_values(r, m->dst, m), place(r, m)));
        }
        if (r->bucket->crossings.count > first)
            COPSE_TRY(step(r, COPSE_STEP_TAKE, is_sum ? 0 : 1, v, first, moves));
    }
    return COPSE_OK;
}

/* Sums are sent behind the last read; whoever owns nothing of the round has no PULL and sends before the
   values come. */
copse_status copse__across_phase(struct copse_recorder *r, const struct copse_move *moves,
                                 size_t count)
{
    const bool owns_none = shares_of(r)[this_worker(r)].size == 0;
    switch (moves->kind) {
    case COPSE_MOVE_PUSH:
        return read_out(r, moves, count);
    case COPSE_MOVE_PULL:
        COPSE_TRY(ship(r, 0, moves));
        return take_in(r, moves, count);
    case COPSE_MOVE_PUBLISH:
        COPSE_TRY(read_out(r, moves, count));
        return ship(r, 1, moves);
    case COPSE_MOVE_ADOPT:
        if (owns_none && r->half != COPSE_HALF_UPDATE)
            COPSE_TRY(ship(r, 0, moves));
        return r->half == COPSE_HALF_SUM ? COPSE_OK : take_in(r, moves, count);
    default:
        return copse_fail(COPSE_ERR_INTERNAL, "exchange: move %d does not cross workers",
                          (int)moves->kind);
    }
}
