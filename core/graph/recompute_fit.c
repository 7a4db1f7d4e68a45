/* SPDX-License-Identifier: MIT */
/* Which results of the forward pass are recomputed: those of marked segments; and, where a program
   needs more memory than its budget, those between cuts (cuts.h). For several lengths of a segment
   the cuts are placed, and as few segments as possible, from the first one on, are recomputed; the
   choice with the least recomputation is taken. If no length is enough, segments are divided into
   parts, for several lengths of a part. */
#include "core/graph/cuts.h"
#include "core/graph/recorder.h"

/* of segments: from the bytes of all results down, each a factor of sqrt(2) smaller */
#define LENGTHS 24

struct fit {
    const struct copse_program_params *params;
    struct copse_cuts cuts;
    struct choice {
        uint64_t lengths[COPSE_CUT_LEVELS]; /* of segments, of parts; 0: segments have no parts */
        size_t segments, bytes;
        uint64_t work; /* bytes that are read and written again */
        bool is_set;
    } best;
    uint64_t tried[COPSE_CUT_LEVELS]; /* hashes of the newest cuts */
};

/* ---- one choice ---- */

/* Memory and work of a choice whose cuts are placed. If it needs more than `limit`, `bytes` may be
   less than its buffers have. */
static copse_status try_choice(struct fit *f, size_t limit, struct choice *c)
{
    struct copse_arena arena = { .mem = &f->cuts.g->ctx->base.mem };
    struct copse_program_memory memory;
    struct copse_recomputed r;
    copse__cuts_choose(&f->cuts, c->segments);
    copse_status s = copse__recompute(f->cuts.g, copse__cuts_dropped(&f->cuts), &arena, &r);
    if (s == COPSE_OK) {
        c->work = r.bytes;
        s = copse__program_measure(f->params, limit, &memory);
        c->bytes = memory.bytes;
        copse__recompute_undo(f->cuts.g, &r);
    }
    copse__arena_fini(&arena);
    return s;
}

static copse_status take_best(struct fit *f)
{
    const struct choice *c = &f->best;
    struct copse_recomputed r;
    copse__cuts_place(&f->cuts, COPSE_CUTS_OUTER, c->lengths[COPSE_CUTS_OUTER]);
    copse__cuts_place(&f->cuts, COPSE_CUTS_INNER, c->lengths[COPSE_CUTS_INNER]);
    copse__cuts_choose(&f->cuts, c->segments);
    COPSE_TRY(copse__recompute(f->cuts.g, copse__cuts_dropped(&f->cuts), &f->cuts.g->arena, &r));
    copse__recompute_keep(f->cuts.g, &r);
    return COPSE_OK;
}

/* ---- all choices ---- */

/* A choice with all segments of its lengths recomputed. */
typedef copse_status visit_fn(struct fit *f, struct choice *c);

/* The i-th length. */
static uint64_t length_of(const struct fit *f, int i)
{
    uint64_t length = f->cuts.all;
    while (i-- > 0)
        length = length * 5 / 7;
    return length;
}

/* Place cuts; false: none, or those of the length before. */
static bool recompute_fit_place(struct fit *f, enum copse_cut_level level, uint64_t length)
{
    copse__cuts_place(&f->cuts, level, length);
    const size_t count = f->cuts.cuts[level].count;
    const uint64_t hash = copse__hash(COPSE_HASH_START, f->cuts.cuts[level].at,
                                      count * sizeof *f->cuts.cuts[level].at);
    const bool is_new = count > 0 && hash != f->tried[level];
    f->tried[level] = hash;
    return is_new;
}

static copse_status visit_segments(struct fit *f, visit_fn *visit)
{
    for (int i = 0; i < LENGTHS; i++) {
        struct choice c = { .lengths = { length_of(f, i) }, .is_set = true };
        if (recompute_fit_place(f, COPSE_CUTS_OUTER, c.lengths[0])) {
            c.segments = f->cuts.cuts[COPSE_CUTS_OUTER].count;
            COPSE_TRY(visit(f, &c));
        }
    }
    return COPSE_OK;
}

static copse_status visit_parts(struct fit *f, visit_fn *visit)
{
    f->tried[COPSE_CUTS_OUTER] = 0;
    for (int i = 0; i < LENGTHS; i++) {
        const uint64_t outer = length_of(f, i);
        if (!recompute_fit_place(f, COPSE_CUTS_OUTER, outer))
            continue;
        f->tried[COPSE_CUTS_INNER] = 0;
        for (int k = i + 2; k < LENGTHS; k++) {
            struct choice c = { .lengths = { outer, length_of(f, k) }, .is_set = true };
            c.segments = f->cuts.cuts[COPSE_CUTS_OUTER].count;
            if (recompute_fit_place(f, COPSE_CUTS_INNER, c.lengths[1]))
                COPSE_TRY(visit(f, &c));
        }
    }
    return COPSE_OK;
}

/* The least memory. */
static copse_status visit_least(struct fit *f, struct choice *c)
{
    COPSE_TRY(try_choice(f, f->best.is_set ? f->best.bytes : SIZE_MAX, c));
    if (!f->best.is_set || c->bytes < f->best.bytes)
        f->best = *c;
    return COPSE_OK;
}

static copse_status find_least(struct fit *f)
{
    f->best.is_set = false;
    COPSE_TRY(visit_segments(f, visit_least));
    return visit_parts(f, visit_least);
}

/* The least work, with the fewest segments, among those that keep the budget. */
static copse_status visit_budget(struct fit *f, struct choice *c)
{
    const size_t budget = f->params->budget;
    size_t low = 0;
    COPSE_TRY(try_choice(f, budget, c));
    if (c->bytes > budget)
        return COPSE_OK;
    while (c->segments - low > 1) { /* c->segments are enough, `low` are not */
        struct choice fewer = *c;
        fewer.segments = low + (c->segments - low) / 2;
        COPSE_TRY(try_choice(f, budget, &fewer));
        if (fewer.bytes > budget)
            low = fewer.segments;
        else
            *c = fewer;
    }
    if (!f->best.is_set || c->work < f->best.work)
        f->best = *c;
    return COPSE_OK;
}

/* ---- the budget ---- */

static copse_status recompute_marked(struct fit *f)
{
    struct copse_recomputed r;
    if (!copse__cuts_choose_marked(&f->cuts))
        return COPSE_OK;
    COPSE_TRY(copse__recompute(f->cuts.g, copse__cuts_dropped(&f->cuts), &f->cuts.g->arena, &r));
    copse__recompute_keep(f->cuts.g, &r);
    return COPSE_OK;
}

static copse_status keep_budget(struct fit *f)
{
    struct copse_program_memory without;
    COPSE_TRY(copse__program_measure(f->params, SIZE_MAX, &without));
    if (without.bytes <= f->params->budget)
        return COPSE_OK;
    COPSE_TRY(visit_segments(f, visit_budget));
    if (!f->best.is_set)
        COPSE_TRY(visit_parts(f, visit_budget));
    if (!f->best.is_set) {
        COPSE_TRY(find_least(f));
        return copse_fail(COPSE_ERR_NO_DEVICE_MEMORY,
                          "program: its values need %zu bytes, and %zu bytes where the results of "
                          "the forward pass are computed "
                          "again; the memory budget leaves %zu",
                          without.bytes,
                          f->best.is_set ? COPSE_MIN(f->best.bytes, without.bytes) : without.bytes,
                          f->params->budget);
    }
    COPSE_TRY(take_best(f));
    copse__log(&f->cuts.g->ctx->base.log, COPSE_LOG_DEBUG,
               "program: %zu bytes are over the budget of %zu: %zu of %zu segments are recomputed, "
               "with %zu inner cuts, %llu bytes "
               "read and written",
               without.bytes, f->params->budget, f->best.segments,
               f->cuts.cuts[COPSE_CUTS_OUTER].count, f->cuts.cuts[COPSE_CUTS_INNER].count,
               (unsigned long long)f->best.work);
    return COPSE_OK;
}

static copse_status use_least(struct fit *f)
{
    struct copse_program_memory without;
    COPSE_TRY(copse__program_measure(f->params, SIZE_MAX, &without));
    COPSE_TRY(find_least(f));
    return f->best.is_set && f->best.bytes < without.bytes ? take_best(f) : COPSE_OK;
}

static copse_status recompute_fit_run(const struct copse_program_params *params,
                                      copse_status (*fn)(struct fit *f))
{
    struct copse_program_params plain = *params;
    plain.is_plain = true; /* what fits so fits at all */
    struct fit f = { .params = &plain };
    copse_status s = copse__cuts_init(&f.cuts, params);
    if (s == COPSE_OK)
        s = fn(&f);
    copse__cuts_fini(&f.cuts);
    return s;
}

copse_status copse__recompute_fit(const struct copse_program_params *params)
{
    if (copse__forward_count(params->graph) == 0)
        return COPSE_OK;
    if (params->graph->segments > 0)
        COPSE_TRY(recompute_fit_run(params, recompute_marked));
    return params->budget > 0 ? recompute_fit_run(params, keep_budget) : COPSE_OK;
}

copse_status copse__recompute_least(const struct copse_program_params *params)
{
    if (copse__forward_count(params->graph) == 0)
        return COPSE_OK;
    if (params->graph->segments > 0)
        COPSE_TRY(recompute_fit_run(params, recompute_marked));
    return recompute_fit_run(params, use_least);
}
