/* SPDX-License-Identifier: MIT */
/* Which results of the forward pass are recomputed: those of marked segments; and, where a program needs more memory than
   its budget, those between cuts. A cut is a place in the forward pass that few bytes cross: what crosses it is kept. For
   several lengths of a segment the cuts are placed, and as few segments as possible, from the first one on, are
   recomputed; the choice with the least recomputation is taken. */
#include "core/graph/recorder.h"
#include "core/graph/recompute.h"
#include "core/graph/type.h"

#define LENGTHS 24 /* of segments: from the bytes of all results down, each a factor of sqrt(2) smaller */

struct fit {
    const struct copse_program_params *params;
    copse_graph *g;
    struct copse_mem *mem;
    size_t forward;    /* nodes */
    uint64_t *bytes;   /* by node of the forward pass: of its result; 0: a leaf or a view */
    uint64_t *crosses; /* the bytes that cross the place behind a node */
    uint32_t *last;    /* by root: the last node of the forward pass that reads it, or UINT32_MAX: it is kept anyway */
    bool *stays;       /* by root: no choice drops it */
    bool *kept;        /* by root, of the choice at hand */
    bool *drop;        /* by node, of the choice at hand */
    uint64_t lengths[LENGTHS]; /* of segments, bytes; 0 behind the last */
    uint32_t *cuts;    /* nodes that cuts are behind */
    size_t cut_count;
};

static uint64_t bytes_of(const copse_tensor *t)
{
    return copse__type_room(t->type, copse__elements(t->shape));
}

static copse_status no_memory(void)
{
    return copse_no_memory("recomputation");
}

/* What no choice drops: leaves, results of exchanges, and what the program leaves in memory of its caller. */
static bool must_stay(const struct fit *f, const copse_tensor *root)
{
    return copse__is_leaf(root) || root->op->crosses || root->is_backward ||
           copse__placement_find(f->params->placements, f->params->placement_count, root) != NULL;
}

static void fini(struct fit *f)
{
    copse__free(f->mem, f->bytes);
    copse__free(f->mem, f->last);
    copse__free(f->mem, f->stays);
}

static copse_status init(struct fit *f, const struct copse_program_params *params)
{
    copse_graph *g = params->graph;
    *f = (struct fit){ .params = params, .g = g, .mem = &g->ctx->base.mem, .forward = copse__forward_count(g) };
    f->bytes = copse__alloc(f->mem, f->forward, 2 * sizeof *f->bytes);
    f->last = copse__alloc(f->mem, f->forward, 2 * sizeof *f->last);
    f->stays = copse__alloc(f->mem, f->forward, 3 * sizeof *f->stays);
    if (!f->bytes || !f->last || !f->stays)
        return no_memory();
    f->crosses = f->bytes + f->forward;
    f->cuts = f->last + f->forward;
    f->kept = f->stays + f->forward;
    f->drop = f->kept + f->forward;
    for (size_t n = 0; n < f->forward; n++)
        f->stays[n] = must_stay(f, g->nodes.at[n]);
    return COPSE_OK;
}

/* Drop the nodes before `end` whose roots are not kept. */
static void drop_before(struct fit *f, size_t end)
{
    for (size_t n = 0; n < f->forward; n++) {
        const copse_tensor *root = copse__root(f->g->nodes.at[n]);
        f->drop[n] = n < end && !f->kept[root->id] && !f->stays[root->id];
    }
}

/* ---- marked segments ---- */

static copse_status recompute_marked(struct fit *f)
{
    struct copse_recomputed r;
    bool is_any = false;
    for (size_t n = 0; n < f->forward; n++)
        f->kept[n] = f->g->nodes.at[n]->segment == 0;
    for (size_t n = 0; n < f->forward; n++) {
        const copse_tensor *t = f->g->nodes.at[n];
        is_any |= t->segment > 0;
        for (uint32_t i = 0; i < t->in_count; i++) /* read outside of its segment */
            if (t->in[i]->segment > 0 && t->in[i]->segment != t->segment)
                f->kept[copse__root(t->in[i])->id] = true;
    }
    if (!is_any)
        return COPSE_OK;
    drop_before(f, f->forward);
    COPSE_TRY(copse__recompute(f->g, f->drop, &f->g->arena, &r));
    copse__recompute_keep(f->g, &r);
    return COPSE_OK;
}

/* ---- cuts ---- */

static void find_lifetimes(struct fit *f)
{
    uint64_t all = 0;
    for (size_t n = 0; n < f->forward; n++) {
        const copse_tensor *t = f->g->nodes.at[n];
        f->bytes[n] = copse__root(t) == t && !f->stays[n] ? bytes_of(t) : 0;
        all += f->bytes[n];
        f->last[n] = (uint32_t)n;
        for (uint32_t i = 0; i < t->in_count; i++)
            f->last[copse__root(t->in[i])->id] = (uint32_t)n;
    }
    for (size_t n = 0; n < f->forward; n++) {
        f->crosses[n] = 0;
        for (size_t k = 0; k <= n; k++)
            f->crosses[n] += f->last[k] > n ? f->bytes[k] : 0;
    }
    for (int i = 0; i < LENGTHS; i++, all = all * 5 / 7)
        f->lengths[i] = all;
}

/* Cuts so that the results of a segment have about `length` bytes: each at the place that the fewest bytes cross, in the
   second half of its segment. */
static void place_cuts(struct fit *f, uint64_t length)
{
    uint64_t sum = 0;
    size_t best = SIZE_MAX;
    f->cut_count = 0;
    for (size_t n = 0; n < f->forward && length > 0; n++) {
        sum += f->bytes[n];
        if (sum >= length / 2 && (best == SIZE_MAX || f->crosses[n] <= f->crosses[best]))
            best = n;
        if (sum <= length || n + 1 == f->forward)
            continue;
        f->cuts[f->cut_count++] = (uint32_t)best;
        n = best;
        sum = 0;
        best = SIZE_MAX;
    }
}

/* Recompute the first `count` segments. */
static void choose(struct fit *f, size_t count)
{
    for (size_t n = 0; n < f->forward; n++) {
        f->kept[n] = false;
        for (size_t c = 0; c < count && !f->kept[n]; c++)
            f->kept[n] = n <= f->cuts[c] && f->last[n] > f->cuts[c];
    }
    drop_before(f, count > 0 ? f->cuts[count - 1] + (size_t)1 : 0);
}

/* ---- choices ---- */

struct choice {
    uint64_t length, work;
    size_t segments, bytes;
    bool is_set;
};

/* Memory and work of a choice. If it needs more than `limit`, `bytes` may be less than its buffers have. */
static copse_status try_choice(struct fit *f, size_t limit, struct choice *c)
{
    struct copse_arena arena = { .mem = f->mem };
    struct copse_program_memory memory;
    struct copse_recomputed r;
    choose(f, c->segments);
    copse_status s = copse__recompute(f->g, f->drop, &arena, &r);
    if (s == COPSE_OK) {
        c->work = r.bytes;
        s = copse__program_measure(f->params, limit, &memory);
        c->bytes = memory.bytes;
        copse__recompute_undo(f->g, &r);
    }
    copse__arena_fini(&arena);
    return s;
}

static copse_status take_choice(struct fit *f, const struct choice *c)
{
    struct copse_recomputed r;
    place_cuts(f, c->length);
    choose(f, c->segments);
    COPSE_TRY(copse__recompute(f->g, f->drop, &f->g->arena, &r));
    copse__recompute_keep(f->g, &r);
    return COPSE_OK;
}

/* The choice with the least memory. */
static copse_status find_least(struct fit *f, struct choice *best)
{
    best->bytes = SIZE_MAX;
    for (int i = 0; i < LENGTHS; i++) {
        struct choice c = { .length = f->lengths[i], .is_set = true };
        place_cuts(f, c.length);
        c.segments = f->cut_count;
        if (c.segments > 0)
            COPSE_TRY(try_choice(f, best->bytes, &c));
        if (c.segments > 0 && c.bytes < best->bytes)
            *best = c;
    }
    return COPSE_OK;
}

/* The fewest segments of this length that keep the budget. */
static copse_status try_length(struct fit *f, uint64_t length, struct choice *best)
{
    const size_t budget = f->params->budget;
    struct choice c = { .length = length, .is_set = true };
    size_t low = 0;
    place_cuts(f, length);
    c.segments = f->cut_count;
    if (c.segments == 0)
        return COPSE_OK;
    COPSE_TRY(try_choice(f, budget, &c));
    if (c.bytes > budget)
        return COPSE_OK;
    while (c.segments - low > 1) { /* c.segments are enough, `low` are not */
        struct choice fewer = c;
        fewer.segments = low + (c.segments - low) / 2;
        COPSE_TRY(try_choice(f, budget, &fewer));
        if (fewer.bytes > budget)
            low = fewer.segments;
        else
            c = fewer;
    }
    if (!best->is_set || c.work < best->work)
        *best = c;
    return COPSE_OK;
}

/* ---- the budget ---- */

static copse_status too_much(struct fit *f, size_t without)
{
    struct choice least = { .is_set = false };
    COPSE_TRY(find_least(f, &least));
    return copse_fail(COPSE_ERR_NO_DEVICE_MEMORY,
                      "program: its values need %zu bytes, and %zu bytes where the results of the forward pass are computed "
                      "again; the memory budget leaves %zu", without, COPSE_MIN(least.bytes, without), f->params->budget);
}

static copse_status keep_budget(struct fit *f)
{
    struct choice best = { .is_set = false };
    struct copse_program_memory without;
    COPSE_TRY(copse__program_measure(f->params, SIZE_MAX, &without));
    if (without.bytes <= f->params->budget)
        return COPSE_OK;
    find_lifetimes(f);
    for (int i = 0; i < LENGTHS; i++)
        COPSE_TRY(try_length(f, f->lengths[i], &best));
    if (!best.is_set)
        return too_much(f, without.bytes);
    COPSE_TRY(take_choice(f, &best));
    copse__log(&f->g->ctx->base.log, COPSE_LOG_DEBUG,
               "program: %zu bytes are over the budget of %zu: %zu of %zu segments are recomputed, %llu bytes read and written",
               without.bytes, f->params->budget, best.segments, f->cut_count, (unsigned long long)best.work);
    return COPSE_OK;
}

static copse_status use_least(struct fit *f)
{
    struct choice best = { .is_set = false };
    struct copse_program_memory without;
    COPSE_TRY(copse__program_measure(f->params, SIZE_MAX, &without));
    find_lifetimes(f);
    COPSE_TRY(find_least(f, &best));
    return best.bytes < without.bytes ? take_choice(f, &best) : COPSE_OK;
}

static copse_status run(const struct copse_program_params *params, copse_status (*fn)(struct fit *f))
{
    struct fit f;
    copse_status s = init(&f, params);
    if (s == COPSE_OK)
        s = fn(&f);
    fini(&f);
    return s;
}

copse_status copse__recompute_fit(const struct copse_program_params *params)
{
    if (copse__forward_count(params->graph) == 0)
        return COPSE_OK;
    if (params->graph->segments > 0)
        COPSE_TRY(run(params, recompute_marked));
    return params->budget > 0 ? run(params, keep_budget) : COPSE_OK;
}

copse_status copse__recompute_least(const struct copse_program_params *params)
{
    if (copse__forward_count(params->graph) == 0)
        return COPSE_OK;
    if (params->graph->segments > 0)
        COPSE_TRY(run(params, recompute_marked));
    return run(params, use_least);
}
