/* SPDX-License-Identifier: MIT */
/* The order of launches within a segment. A device that runs launches at the same time needs a
   barrier only before a launch that uses memory of another one. Launches that do not depend on each
   other are placed next to each other, so that one barrier serves all of them. Each result depends
   on the same launches as before, so no bit changes. */
#include "core/device/backend.h"
#include "core/graph/recorder.h"

enum {
    WINDOW = 24,       /* launches ahead of the first one that waits, at most */
    MOST_ACCESSES = 64 /* between two barriers: a backend may remember no more */
};

/* Bytes that a launch reads or writes. */
struct access {
    const void *buffer;  /* fixed memory; NULL: an allocation */
    uint32_t allocation; /* COPSE_NOWHERE: the step buffer, which no launch writes */
    uint64_t begin, end;
    bool is_write;
};
#define COPSE_NOWHERE UINT32_MAX

struct schedule {
    struct copse_recorder *r;
    struct access *accesses; /* COPSE_MAX_BINDINGS for each launch */
    uint32_t *order, *time;  /* launches in their new order, and when each is done */
    bool *is_done;
    struct copse_allocation *before; /* as they are without this pass */
    uint32_t times;
};

/* ---- accesses ---- */

static bool writes_argument(const struct copse_launch *x, uint32_t i)
{
    if (x->kind == COPSE_LAUNCH_KERNEL)
        return copse__row(x->id)->args[i].is_written;
    /* the destination of a copy; the scratch memory and the result of a product */
    return i + 1 == x->arg_count || (x->kind == COPSE_LAUNCH_GEMM && i == COPSE_GEMM_SCRATCH);
}

static void fix_access(const struct copse_binding *b, const struct copse_operand *o,
                       struct access *a)
{
    a->buffer = b->buffer ? b->buffer : (const void *)b; /* of an exchange that is only measured */
    a->begin = b->offset + 4 * o->first;
    a->end = o->count ? a->begin + 4 * o->count : b->buffer ? b->offset + b->size : UINT64_MAX;
}

static struct access access_of(const struct copse_recorder *r, const struct copse_launch *x,
                               uint32_t i)
{
    const struct copse_operand *o = &x->args[i];
    struct access a = { .allocation = COPSE_NOWHERE, .is_write = writes_argument(x, i) };
    if (o->kind == COPSE_OPERAND_STEP)
        return a;
    a.begin = 4 * o->first;
    a.end = o->count ? a.begin + 4 * o->count : UINT64_MAX;
    if (o->kind == COPSE_OPERAND_SCRATCH) {
        a.allocation = r->scratch.at[o->scratch];
    } else if (!o->tensor) {
        const size_t placements = r->params->placement_count;
        fix_access(o->scratch < placements ? &r->params->placements[o->scratch].at
                                           : &r->all_reduces.at[o->scratch - placements].operand,
                   o, &a);
    } else {
        const struct copse_home *h = &r->homes[copse__root(o->tensor)->id];
        if (h->kind == COPSE_HOME_FIXED)
            fix_access(&h->fixed, o, &a);
        else
            a.allocation = h->allocation;
    }
    a.end = a.end < UINT64_MAX - 16 ? (a.end + 15) / 16 * 16 : a.end; /* as it is bound */
    return a;
}

static bool schedule_conflicts(const struct access *a, const struct access *b)
{
    return (a->is_write || b->is_write) && a->buffer == b->buffer &&
           a->allocation == b->allocation && a->begin < b->end && b->begin < a->end;
}

/* ---- the order ---- */

/* Launches up to `end` that may follow the same barrier: those among the first `window` that wait
   which conflict neither with one that was taken nor with an earlier one that still waits. */
static void take_group(struct schedule *s, uint32_t from, uint32_t end, uint32_t window,
                       uint32_t *at)
{
    const struct access *seen[WINDOW * COPSE_MAX_BINDINGS];
    uint32_t seen_count = 0, looked_at = 0, accesses = 0;
    for (uint32_t i = from; i < end && looked_at < window; i++) {
        if (s->is_done[i])
            continue;
        const struct access *list = &s->accesses[(size_t)i * COPSE_MAX_BINDINGS];
        const uint32_t count = s->r->launches.at[i].arg_count;
        bool must_wait = accesses + count > MOST_ACCESSES;
        for (uint32_t a = 0; a < count && !must_wait; a++)
            for (uint32_t k = 0; k < seen_count && !must_wait; k++)
                must_wait = schedule_conflicts(&list[a], seen[k]);
        for (uint32_t a = 0; a < count; a++)
            seen[seen_count++] = &list[a];
        looked_at++;
        if (must_wait)
            continue;
        accesses += count;
        s->is_done[i] = true;
        s->order[*at] = i;
        s->time[(*at)++] = s->times;
    }
}

static void order_segment(struct schedule *s, uint32_t from, uint32_t end, uint32_t window)
{
    for (uint32_t at = from; at < end; s->times++) {
        while (s->is_done[from])
            from++;
        take_group(s, from, end, window, &at); /* takes at least the first one */
    }
}

/* The launches of each segment; cuts are its last nodes. */
static void order_all(struct schedule *s, uint32_t window)
{
    const struct copse_recorder *r = s->r;
    const uint32_t count = (uint32_t)r->launches.count;
    uint32_t from = 0;
    s->times = 0;
    memset(s->is_done, 0, count * sizeof *s->is_done);
    for (uint32_t b = 0; b < r->segment_count; b++) {
        uint32_t end = from;
        while (end < count && (b + 1 == r->segment_count || r->launches.at[end].node <= r->cuts[b]))
            end++;
        order_segment(s, from, end, window);
        from = end;
    }
}

/* ---- lifetimes in the new order ---- */

/* Leaves keep their memory during the whole program. */
static bool is_kept(const struct copse_recorder *r, const struct copse_allocation *a)
{
    return a->last >= r->graph->nodes.count;
}

static void set_lifetimes(struct schedule *s)
{
    struct copse_recorder *r = s->r;
    for (size_t i = 0; i < r->allocations.count; i++) {
        struct copse_allocation *a = &r->allocations.at[i];
        const bool keep = is_kept(r, &s->before[i]);
        a->first = keep ? 0 : UINT32_MAX;
        a->last = keep ? s->times : 0;
    }
    for (size_t i = 0; i < r->launches.count; i++)
        for (uint32_t k = 0; k < r->launches.at[s->order[i]].arg_count; k++) {
            const struct access *x = &s->accesses[(size_t)s->order[i] * COPSE_MAX_BINDINGS + k];
            if (x->buffer || x->allocation == COPSE_NOWHERE)
                continue;
            struct copse_allocation *a = &r->allocations.at[x->allocation];
            a->first = COPSE_MIN(a->first, s->time[i]);
            a->last = COPSE_MAX(a->last, s->time[i]);
        }
    for (size_t i = 0; i < r->allocations.count; i++) /* of no launch: a result without elements */
        r->allocations.at[i].first =
            COPSE_MIN(r->allocations.at[i].first, r->allocations.at[i].last);
}

/* ---- the pass ---- */

static copse_status apply_order(struct schedule *s)
{
    struct copse_recorder *r = s->r;
    const size_t count = r->launches.count;
    struct copse_launch *sorted = copse__alloc(r->mem, count, sizeof *sorted);
    r->node_at = copse__alloc(r->mem, s->times, sizeof *r->node_at);
    if (!sorted || !r->node_at) {
        copse__free(r->mem, sorted);
        return copse_no_memory("program: its order");
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = r->launches.at[s->order[i]];
        r->node_at[s->time[i]] = sorted[i].node;
    }
    memcpy(r->launches.at, sorted, count * sizeof *sorted);
    copse__free(r->mem, sorted);
    r->times = s->times;
    return COPSE_OK;
}

/* A narrower window often needs less memory. */
static copse_status choose_order(struct schedule *s)
{
    struct copse_recorder *r = s->r;
    uint64_t bytes;
    for (uint32_t window = WINDOW; window > 1; window /= 2) {
        order_all(s, window);
        set_lifetimes(s);
        COPSE_TRY(copse__bytes_needed(r, r->allocations.at, &bytes));
        if (bytes <= r->most_bytes)
            return apply_order(s);
    }
    memcpy(r->allocations.at, s->before, r->allocations.count * sizeof *s->before);
    return COPSE_OK;
}

/* Runs with portable bits have one order, so that their launches can be compared. A slice has one
   command. */
bool copse__schedule_helps(const struct copse_recorder *r)
{
    const copse_device *dev = r->lowering.dev;
    return dev->backend->overlaps && !dev->is_portable && !r->params->is_sliced &&
           r->launches.count > 1;
}

void copse__schedule_none(struct copse_recorder *r)
{
    copse__free(r->mem, r->node_at); /* of a lowering before this one */
    r->node_at = NULL;
    r->times = (uint32_t)r->graph->nodes.count;
}

copse_status copse__schedule(struct copse_recorder *r)
{
    struct schedule s = { .r = r };
    const size_t count = r->launches.count;
    s.accesses = copse__alloc(r->mem, count, COPSE_MAX_BINDINGS * sizeof *s.accesses);
    s.order = copse__alloc(r->mem, count, sizeof *s.order);
    s.time = copse__alloc(r->mem, count, sizeof *s.time);
    s.is_done = copse__alloc(r->mem, count, sizeof *s.is_done);
    s.before = copse__alloc(r->mem, r->allocations.count, sizeof *s.before);
    copse_status status = s.accesses && s.order && s.time && s.is_done && s.before
                              ? COPSE_OK
                              : copse_no_memory("program: its order");
    if (status == COPSE_OK) {
        memcpy(s.before, r->allocations.at, r->allocations.count * sizeof *s.before);
        for (size_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < r->launches.at[i].arg_count; k++)
                s.accesses[i * COPSE_MAX_BINDINGS + k] = access_of(r, &r->launches.at[i], k);
        status = choose_order(&s);
    }
    copse__free(r->mem, s.accesses);
    copse__free(r->mem, s.order);
    copse__free(r->mem, s.time);
    copse__free(r->mem, s.is_done);
    copse__free(r->mem, s.before);
    return status;
}
