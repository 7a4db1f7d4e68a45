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
    for (size_t n = 0; n < f->forward; n++) {
        const copse_tensor *t = f->g->nodes.at[n];
        f->bytes[n] = copse__root(t) == t && !f->stays[n] ? bytes_of(t) : 0;
        f->last[n] = (uint32_t)n;
        for (uint32_t i = 0; i < t->in_count; i++)
            f->last[copse__root(t->in[i])->id] = (uint32_t)n;
    }
    for (size_t n = 0; n < f->forward; n++) {
        f->crosses[n] = 0;
        for (size_t k = 0; k <= n; k++)
            f->crosses[n] += f->last[k] > n ? f->bytes[k] : 0;
    }
}

/* Cuts so that the results of a segment have about `length` bytes: each at the place that the fewest bytes cross, in the
   second half of its segment. */
static void place_cuts(struct fit *f, uint64_t length)
{
    uint64_t sum = 0;
    size_t best = SIZE_MAX;
    f->cut_count = 0;
    for (size_t n = 0; n < f->forward; n++) {
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

/* ---- the budget ---- */

struct choice {
    uint64_t length, work;
    size_t segments;
    bool fits;
};

/* Memory and work where the first `segments` segments are recomputed. */
static copse_status try_choice(struct fit *f, size_t segments, size_t *bytes, uint64_t *work)
{
    struct copse_arena arena = { .mem = f->mem };
    struct copse_recomputed r;
    choose(f, segments);
    copse_status s = copse__recompute(f->g, f->drop, &arena, &r);
    if (s == COPSE_OK) {
        *work = r.bytes;
        s = copse__program_measure(f->params, bytes);
        copse__recompute_undo(f->g, &r);
    }
    copse__arena_fini(&arena);
    return s;
}

/* The fewest segments of this length that are enough. */
static copse_status try_length(struct fit *f, uint64_t length, struct choice *best, size_t *least)
{
    size_t bytes, low = 0, high;
    uint64_t work;
    place_cuts(f, length);
    if (f->cut_count == 0)
        return COPSE_OK;
    COPSE_TRY(try_choice(f, high = f->cut_count, &bytes, &work));
    *least = COPSE_MIN(*least, bytes);
    if (bytes > f->params->budget)
        return COPSE_OK;
    while (high - low > 1) { /* `high` segments are enough, `low` are not */
        const size_t middle = low + (high - low) / 2;
        uint64_t some;
        COPSE_TRY(try_choice(f, middle, &bytes, &some));
        if (bytes > f->params->budget) {
            low = middle;
        } else {
            high = middle;
            work = some;
        }
    }
    if (!best->fits || work < best->work)
        *best = (struct choice){ length, work, high, true };
    return COPSE_OK;
}

static copse_status keep_budget(struct fit *f)
{
    struct choice best = { .fits = false };
    struct copse_recomputed r;
    size_t without, least;
    uint64_t all = 0, length;
    COPSE_TRY(copse__program_measure(f->params, &without));
    if (without <= f->params->budget)
        return COPSE_OK;
    least = without;
    find_lifetimes(f);
    for (size_t n = 0; n < f->forward; n++)
        all += f->bytes[n];
    length = all;
    for (int i = 0; i < LENGTHS && length > 0; i++, length = length * 5 / 7)
        COPSE_TRY(try_length(f, length, &best, &least));
    if (!best.fits)
        return copse_fail(COPSE_ERR_NO_DEVICE_MEMORY,
                          "program: its values need %zu bytes, and %zu bytes where the results of the forward pass are computed "
                          "again; the memory budget leaves %zu", without, least, f->params->budget);
    place_cuts(f, best.length);
    choose(f, best.segments);
    COPSE_TRY(copse__recompute(f->g, f->drop, &f->g->arena, &r));
    copse__recompute_keep(f->g, &r);
    copse__log(&f->g->ctx->base.log, COPSE_LOG_DEBUG,
               "program: %zu bytes are over the budget of %zu: %zu of %zu segments are recomputed, %llu bytes read and written",
               without, f->params->budget, best.segments, f->cut_count, (unsigned long long)r.bytes);
    return COPSE_OK;
}

copse_status copse__recompute_fit(const struct copse_program_params *params)
{
    struct fit f;
    copse_status s = COPSE_OK;
    if (copse__forward_count(params->graph) == 0)
        return COPSE_OK;
    if (params->graph->segments > 0) {
        s = init(&f, params);
        if (s == COPSE_OK)
            s = recompute_marked(&f);
        fini(&f);
    }
    if (s != COPSE_OK || params->budget == 0)
        return s;
    s = init(&f, params);
    if (s == COPSE_OK)
        s = keep_budget(&f);
    fini(&f);
    return s;
}
