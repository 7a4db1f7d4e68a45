/* SPDX-License-Identifier: MIT */
/* Cuts of the forward pass, and the results that they drop: see cuts.h. */
#include "core/graph/cuts.h"
#include "core/graph/recorder.h"
#include "core/graph/type.h"

#define NO_CUT UINT32_MAX

/* What no choice drops: leaves, results of exchanges, and what the program leaves in memory of its
   caller. */
static bool must_stay(const struct copse_program_params *params, const copse_tensor *root)
{
    return copse__is_leaf(root) || root->op->crosses || root->is_backward ||
           copse__placement_find(params->placements, params->placement_count, root) != NULL;
}

static void find_lifetimes(struct copse_cuts *c)
{
    uint64_t crossing = 0;
    for (size_t n = 0; n < c->forward; n++) {
        const copse_tensor *t = c->g->nodes.at[n];
        c->bytes[n] = copse__root(t) == t && !c->stays[n]
                          ? copse__type_room(t->type, copse__elements(t->shape))
                          : 0;
        c->all += c->bytes[n];
        c->last[n] = (uint32_t)n;
        for (uint32_t i = 0; i < t->in_count; i++)
            c->last[copse__root(t->in[i])->id] = (uint32_t)n;
    }
    for (size_t n = 0; n < c->forward; n++) /* ends of lifetimes */
        c->crosses[c->last[n]] += c->bytes[n];
    for (size_t n = 0; n < c->forward; n++) {
        crossing += c->bytes[n] - c->crosses[n];
        c->crosses[n] = crossing;
    }
}

copse_status copse__cuts_init(struct copse_cuts *c, const struct copse_program_params *params)
{
    struct copse_mem *mem = &params->graph->ctx->base.mem;
    *c = (struct copse_cuts){ .g = params->graph, .forward = copse__forward_count(params->graph) };
    c->bytes = copse__alloc(mem, c->forward, 2 * sizeof *c->bytes);
    c->last = copse__alloc(mem, c->forward, (2 + COPSE_CUT_LEVELS) * sizeof *c->last);
    c->stays = copse__alloc(mem, c->forward, 2 * sizeof *c->stays);
    if (!c->bytes || !c->last || !c->stays)
        return copse_no_memory("recomputation");
    c->crosses = c->bytes + c->forward;
    c->part = c->last + c->forward;
    for (uint32_t i = 0; i < COPSE_CUT_LEVELS; i++)
        c->cuts[i].at = c->part + (1 + i) * c->forward;
    c->drop = c->stays + c->forward;
    for (size_t n = 0; n < c->forward; n++)
        c->stays[n] = must_stay(params, c->g->nodes.at[n]);
    find_lifetimes(c);
    return COPSE_OK;
}

void copse__cuts_fini(struct copse_cuts *c)
{
    struct copse_mem *mem = &c->g->ctx->base.mem;
    copse__free(mem, c->bytes);
    copse__free(mem, c->last);
    copse__free(mem, c->stays);
}

/* Between the nodes `first` and `end`. */
static void place_between(struct copse_cuts *c, enum copse_cut_level level, uint64_t length,
                          size_t first, size_t end)
{
    uint64_t sum = 0;
    size_t best = SIZE_MAX;
    for (size_t n = first; n < end; n++) {
        sum += c->bytes[n];
        if (sum >= length / 2 && (best == SIZE_MAX || c->crosses[n] <= c->crosses[best]))
            best = n;
        if (sum <= length || n + 1 == end)
            continue;
        c->cuts[level].at[c->cuts[level].count++] = (uint32_t)best;
        n = best;
        sum = 0;
        best = SIZE_MAX;
    }
}

void copse__cuts_place(struct copse_cuts *c, enum copse_cut_level level, uint64_t length)
{
    size_t first = 0;
    c->cuts[COPSE_CUTS_INNER].count = 0;
    if (level == COPSE_CUTS_OUTER)
        c->cuts[COPSE_CUTS_OUTER].count = 0;
    if (length == 0)
        return;
    for (size_t i = 0; level == COPSE_CUTS_INNER && i < c->cuts[COPSE_CUTS_OUTER].count; i++) {
        const size_t end = c->cuts[COPSE_CUTS_OUTER].at[i] + (size_t)1;
        place_between(c, level, length, first, end);
        first = end;
    }
    place_between(c, level, length, first, c->forward);
}

/* Views are dropped with their roots. */
static void choose_views(struct copse_cuts *c)
{
    for (size_t n = 0; n < c->forward; n++) {
        const uint32_t root = copse__root(c->g->nodes.at[n])->id;
        c->drop[n] = c->drop[root];
        c->part[n] = c->part[root];
    }
}

void copse__cuts_choose(struct copse_cuts *c, size_t segments)
{
    const size_t outer_count = c->cuts[COPSE_CUTS_OUTER].count;
    size_t outer = segments, inner = c->cuts[COPSE_CUTS_INNER].count;
    /* the first cut that is not before the node, of the outer ones and of all */
    uint32_t outer_next = NO_CUT, next = NO_CUT;
    for (size_t n = c->forward; n-- > 0;) {
        if (inner > 0 && c->cuts[COPSE_CUTS_INNER].at[inner - 1] == n) {
            inner--;
            const bool is_behind =
                outer_count == 0 || n > c->cuts[COPSE_CUTS_OUTER].at[outer_count - 1];
            next = (uint32_t)n;
            if (is_behind && segments == outer_count)
                outer_next = (uint32_t)n;
        }
        if (outer > 0 && c->cuts[COPSE_CUTS_OUTER].at[outer - 1] == n) {
            outer--;
            outer_next = next = (uint32_t)n;
        }
        c->drop[n] = !c->stays[n] && outer_next != NO_CUT && c->last[n] <= outer_next;
        c->part[n] = c->drop[n] && c->last[n] <= next ? next + 1 : 0;
    }
    choose_views(c);
}

bool copse__cuts_choose_marked(struct copse_cuts *c)
{
    bool is_any = false;
    for (size_t n = 0; n < c->forward; n++) {
        const copse_tensor *t = c->g->nodes.at[n];
        c->drop[n] = t->segment > 0 && !c->stays[n];
        c->part[n] = 0;
        is_any |= t->segment > 0;
    }
    for (size_t n = 0; n < c->forward; n++) {
        const copse_tensor *t = c->g->nodes.at[n];
        for (uint32_t i = 0; i < t->in_count; i++) /* read outside of its segment */
            if (t->in[i]->segment > 0 && t->in[i]->segment != t->segment)
                c->drop[copse__root(t->in[i])->id] = false;
    }
    choose_views(c);
    return is_any;
}
