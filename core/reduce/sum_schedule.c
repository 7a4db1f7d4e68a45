/* SPDX-License-Identifier: MIT */
/* Slices, owners and moves of the three schedules, and the bucket plan. See sum_schedule.h. */
#include "core/reduce/sum_schedule.h"

#define MIN_SLICE 1024u /* elements: a smaller slice is not worth a rank's launches */

struct maker {
    struct copse_mem *mem;
    struct copse_schedule *s;
    uint32_t ranks;
};

static bool sum_schedule_move(struct maker *m, enum copse_move_kind kind, uint32_t src,
                              uint32_t dst, uint32_t slice)
{
    const struct copse_slice *s = &m->s->slices.at[slice];
    return COPSE_PUSH(m->mem, &m->s->moves,
                      ((struct copse_move){ kind, m->s->phases, src, dst, s->first, s->count, slice,
                                            s->worker }));
}

/* Even slices in units of COPSE_UNIT elements. The first owners have the larger ones, and the last
   may have none. */
static bool sum_schedule_cut(struct maker *m, uint32_t owners, uint64_t first, uint64_t count)
{
    const uint64_t units = (count + COPSE_UNIT - 1) / COPSE_UNIT;
    uint64_t at = 0;
    for (uint32_t o = 0; o < owners; o++) {
        const uint64_t end =
            COPSE_MIN(count, at + COPSE_UNIT * (units / owners + (o < units % owners)));
        if (end > at && !COPSE_PUSH(m->mem, &m->s->slices,
                                    ((struct copse_slice){ first + at, end - at, o, 0 })))
            return false;
        at = end;
    }
    return true;
}

/* The owner of a slice gathers the gradients of all ranks and sums them at once. */
static bool sum_at_owners(struct maker *m)
{
    const struct copse_schedule *s = m->s;
    for (uint32_t i = 0; i < s->slices.count; i++)
        for (uint32_t r = 0; r < m->ranks; r++)
            if (r != s->slices.at[i].owner &&
                !sum_schedule_move(m, COPSE_MOVE_GATHER, r, s->slices.at[i].owner, i))
                return false;
    m->s->phases++;
    for (uint32_t i = 0; i < s->slices.count; i++)
        if (!sum_schedule_move(m, COPSE_MOVE_SUM, s->slices.at[i].owner, s->slices.at[i].owner, i))
            return false;
    m->s->phases++;
    return true;
}

/* Level by level; each pair sums in place. */
static bool sum_by_pairs(struct maker *m)
{
    for (uint32_t width = 1; width < m->ranks; width *= 2)
        for (int kind = 0; kind < 2; kind++) {
            for (uint32_t r = 0; r + width < m->ranks; r += 2 * width)
                if (!sum_schedule_move(m, kind == 0 ? COPSE_MOVE_GATHER : COPSE_MOVE_ACCUMULATE,
                                       r + width, r, 0))
                    return false;
            m->s->phases++;
        }
    return true;
}

static bool update_and_hand(struct maker *m)
{
    const struct copse_schedule *s = m->s;
    for (uint32_t i = 0; i < s->slices.count; i++)
        if (!sum_schedule_move(m, COPSE_MOVE_UPDATE, s->slices.at[i].owner, s->slices.at[i].owner,
                               i))
            return false;
    m->s->phases++;
    for (uint32_t i = 0; m->ranks > 1 && i < s->slices.count; i++)
        for (uint32_t r = 0; r < m->ranks; r++)
            if (r != s->slices.at[i].owner &&
                !sum_schedule_move(m, COPSE_MOVE_BROADCAST, s->slices.at[i].owner, r, i))
                return false;
    m->s->phases += m->ranks > 1;
    return true;
}

static copse_status sum_schedule_check(copse_reduce_algorithm reduction, uint32_t ranks,
                                       uint64_t first)
{
    if (ranks == 0 || ranks > COPSE_MAX_REPLICAS || first % COPSE_UNIT)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "schedule: %u ranks from element %llu: 1 to %d ranks, multiples of %d",
                          ranks, (unsigned long long)first, COPSE_MAX_REPLICAS, COPSE_UNIT);
    if (reduction > COPSE_REDUCE_TO_ONE)
        return copse_fail(COPSE_ERR_ARGUMENT, "schedule: unknown reduction %d", (int)reduction);
    return COPSE_OK;
}

static uint32_t owners_of(copse_reduce_algorithm reduction, uint32_t ranks, uint64_t count)
{
    const bool is_sharded = reduction == COPSE_REDUCE_AUTO || reduction == COPSE_REDUCE_SHARDED;
    const uint64_t slices = is_sharded ? (count + MIN_SLICE - 1) / MIN_SLICE : 1;
    return (uint32_t)COPSE_MIN(slices, ranks);
}

copse_status copse__schedule_make(struct copse_mem *mem, copse_reduce_algorithm reduction,
                                  uint32_t ranks, uint64_t first, uint64_t count,
                                  struct copse_schedule *out)
{
    *out = (struct copse_schedule){ .phases = 0 };
    COPSE_TRY(sum_schedule_check(reduction, ranks, first));
    if (count == 0)
        return COPSE_OK;

    struct maker m = { mem, out, ranks };
    bool ok = sum_schedule_cut(&m, owners_of(reduction, ranks, count), first, count);
    if (ok && ranks > 1)
        ok = reduction == COPSE_REDUCE_TREE ? sum_by_pairs(&m) : sum_at_owners(&m);
    if (ok && update_and_hand(&m))
        return COPSE_OK;
    copse__schedule_fini(mem, out);
    return copse_fail(COPSE_ERR_NO_MEMORY, "schedule: no memory for %u ranks", ranks);
}

/* ---- across workers ---- */

/* Owners become ranks within their workers. */
static void assign_workers(struct maker *m, const struct copse_workers *w)
{
    for (size_t i = 0; i < m->s->slices.count; i++) {
        struct copse_slice *slice = &m->s->slices.at[i];
        while (slice->owner >= w->rank_counts[slice->worker])
            slice->owner -= w->rank_counts[slice->worker++];
    }
}

/* Partial sums over this worker of the slices that ranks of `worker` own: owner r's slice is summed
   by local rank r % ranks. `turn` counts the turns, so that no rank sums two slices at once. */
static bool sum_here(struct maker *m, const struct copse_workers *w, uint32_t worker, uint32_t turn,
                     bool *is_over)
{
    const struct copse_schedule *s = m->s;
    bool has_any = false;
    *is_over = true;
    for (int step = 0; step < 3; step++) {
        for (uint32_t i = 0; i < s->slices.count; i++) {
            const struct copse_slice *slice = &s->slices.at[i];
            const uint32_t summer = slice->owner % m->ranks;
            if (slice->worker != worker || slice->owner / m->ranks != turn)
                continue;
            has_any = true;
            if (step == 0)
                for (uint32_t r = 0; r < m->ranks; r++)
                    if (r != summer && !sum_schedule_move(m, COPSE_MOVE_GATHER, r, summer, i))
                        return false;
            if (step == 1 && m->ranks > 1 &&
                !sum_schedule_move(m, COPSE_MOVE_SUM, summer, summer, i))
                return false;
            if (step == 2 && worker != w->worker &&
                !sum_schedule_move(m, COPSE_MOVE_PUSH, summer, summer, i))
                return false;
        }
        m->s->phases++;
    }
    *is_over = !has_any;
    return true;
}

/* This worker's slices: receive the other workers' sums, join them, update, and send the new
   values. */
static bool finish_own(struct maker *m, const struct copse_workers *w)
{
    static const enum copse_move_kind kinds[] = { COPSE_MOVE_PULL, COPSE_MOVE_JOIN,
                                                  COPSE_MOVE_UPDATE, COPSE_MOVE_PUBLISH,
                                                  COPSE_MOVE_BROADCAST };
    const struct copse_schedule *s = m->s;
    for (size_t k = 0; k < COPSE_COUNT(kinds); k++) {
        const bool is_pull = kinds[k] == COPSE_MOVE_PULL,
                   is_broadcast = kinds[k] == COPSE_MOVE_BROADCAST;
        for (uint32_t i = 0; i < s->slices.count; i++) {
            const uint32_t owner = s->slices.at[i].owner;
            if (s->slices.at[i].worker != w->worker)
                continue;
            for (uint32_t v = 0; is_pull && v < w->count; v++) {
                if (v == w->worker)
                    continue;
                if (!sum_schedule_move(m, COPSE_MOVE_PULL, owner, owner, i))
                    return false;
                m->s->moves.at[m->s->moves.count - 1].worker = v;
            }
            for (uint32_t r = 0; is_broadcast && r < m->ranks; r++)
                if (r != owner && !sum_schedule_move(m, COPSE_MOVE_BROADCAST, owner, r, i))
                    return false;
            if (!is_pull && !is_broadcast && !sum_schedule_move(m, kinds[k], owner, owner, i))
                return false;
        }
        m->s->phases++;
    }
    return true;
}

static bool adopt_others(struct maker *m, const struct copse_workers *w)
{
    const struct copse_schedule *s = m->s;
    for (uint32_t i = 0; i < s->slices.count; i++)
        for (uint32_t r = 0; s->slices.at[i].worker != w->worker && r < m->ranks; r++)
            if (!sum_schedule_move(m, COPSE_MOVE_ADOPT, r, r, i))
                return false;
    m->s->phases++;
    return true;
}

copse_status copse__schedule_make_workers(struct copse_mem *mem, copse_reduce_algorithm reduction,
                                          const struct copse_workers *w, uint64_t first,
                                          uint64_t count, struct copse_schedule *out)
{
    uint32_t all = 0;
    *out = (struct copse_schedule){ .phases = 0 };
    for (uint32_t v = 0; v < w->count; v++)
        all += COPSE_MIN(w->rank_counts[v], COPSE_MAX_REPLICAS + 1u);
    COPSE_TRY(sum_schedule_check(reduction, all, first));
    if (count == 0)
        return COPSE_OK;

    struct maker m = { mem, out, w->rank_counts[w->worker] };
    bool ok = sum_schedule_cut(&m, owners_of(reduction, all, count), first, count);
    if (ok)
        assign_workers(&m, w);
    for (uint32_t i = 1; ok && i <= w->count; i++) { /* this worker's own slices are last */
        bool is_over = false;
        for (uint32_t turn = 0; ok && !is_over; turn++)
            ok = sum_here(&m, w, (w->worker + i) % w->count, turn, &is_over);
    }
    if (ok && finish_own(&m, w) && adopt_others(&m, w))
        return COPSE_OK;
    copse__schedule_fini(mem, out);
    return copse_fail(COPSE_ERR_NO_MEMORY, "schedule: no memory for %u ranks", all);
}

void copse__schedule_fini(struct copse_mem *mem, struct copse_schedule *s)
{
    copse__free(mem, s->slices.at);
    copse__free(mem, s->moves.at);
    *s = (struct copse_schedule){ .phases = 0 };
}

/* A bucket ends with the variable that fills it, so that a small variable before a large one gets
   no bucket of its own. */
uint32_t copse__bucket_plan(const uint64_t *sizes, size_t count, uint64_t bucket_elements,
                            size_t *cuts)
{
    uint32_t buckets = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += sizes[i];
        if (sum < bucket_elements && i + 1 < count)
            continue;
        cuts[buckets++] = i + 1;
        sum = 0;
    }
    return buckets;
}
