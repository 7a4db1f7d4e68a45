/* SPDX-License-Identifier: MIT */
/* First pass of a program: which nodes are needed, the lifetime of values, and the ends of
   segments. */
#include "core/graph/recorder.h"

const struct copse_placement *copse__placement_find(const struct copse_placement *list,
                                                    size_t count, const copse_tensor *t)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].tensor == t)
            return &list[i];
    return NULL;
}

const struct copse_placement *copse__placement_of(const struct copse_recorder *r,
                                                  const copse_tensor *t)
{
    return copse__placement_find(r->params->placements, r->params->placement_count, t);
}

static void note_use(struct copse_recorder *r, const copse_tensor *t, uint32_t at)
{
    uint32_t *last = &r->last_use[copse__root(t)->id];
    *last = COPSE_MAX(*last, at);
}

void copse__lifetimes(struct copse_recorder *r)
{
    const struct copse_program_params *p = r->params;
    copse_graph *g = r->graph;
    for (size_t i = 0; i < p->placement_count; i++)
        r->needed[p->placements[i].tensor->id] = true;
    for (size_t n = g->nodes.count; n-- > 0;)
        for (uint32_t i = 0; r->needed[n] && i < g->nodes.at[n]->in_count; i++)
            r->needed[g->nodes.at[n]->in[i]->id] = true;
    memset(r->last_use, 0, g->nodes.count * sizeof *r->last_use);
    for (size_t n = 0; n < g->nodes.count; n++) {
        if (!r->needed[n])
            continue;
        const copse_tensor *t = g->nodes.at[n];
        note_use(r, t, (uint32_t)n);
        for (uint32_t i = 0; i < t->in_count; i++)
            note_use(r, t->in[i], r->place[n]);
    }
    for (size_t i = 0; i < p->placement_count; i++) /* a copied placement reads its root */
        note_use(r, p->placements[i].tensor, p->placements[i].tensor->id);
}

/* The locations of the nodes that are summed over replicas. If an operand has no later reader, it
   is computed at that location, because the exchange overwrites it. */
copse_status copse__all_reduces_find(struct copse_recorder *r)
{
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        if (!r->needed[n] || !t->op->crosses)
            continue;
        const copse_tensor *x = t->in[0];
        struct copse_recorder_all_reduce c = { .node = t };
        if (!r->params->all_reduce)
            return copse_fail(
                COPSE_ERR_UNSUPPORTED,
                "program: %s needs the other replicas, which only a step of a trainer and "
                "copse_strategy_map have",
                t->op->name);
        COPSE_TRY(r->params->all_reduce(r->params->user, t, (uint32_t)r->all_reduces.count,
                                        &c.operand, &c.result));
        c.is_direct = copse__root(x) == x && !copse__is_leaf(x) && !x->op->crosses &&
                      !copse__placement_of(r, x) && r->last_use[x->id] == n;
        if (!COPSE_PUSH(r->mem, &r->all_reduces, c))
            return copse_no_memory("program");
    }
    return COPSE_OK;
}

/* A bucket ends after its placements and after the last reader of every variable that its exchange
   updates; the last bucket ends after all nodes. */
static void end_buckets(struct copse_recorder *r, uint32_t buckets)
{
    const struct copse_program_params *p = r->params;
    for (size_t i = 0; i < p->placement_count; i++) {
        const copse_tensor *t = p->placements[i].tensor;
        uint32_t *end = &r->ends[p->placements[i].bucket];
        *end = COPSE_MAX(*end, t->id + t->op->crosses);
    }
    for (uint32_t n = 0; p->bucket_of && n < r->graph->nodes.count; n++) {
        const copse_tensor *leaf = r->graph->nodes.at[n];
        if (!r->needed[n] || !leaf->variable)
            continue;
        const uint32_t bucket = p->bucket_of(p->user, leaf->variable);
        if (bucket < buckets)
            r->ends[bucket] = COPSE_MAX(r->ends[bucket], r->last_use[n]);
    }
    for (uint32_t b = 1; b < buckets; b++)
        r->ends[b] = COPSE_MAX(r->ends[b], r->ends[b - 1]);
    r->ends[buckets - 1] = UINT32_MAX;
}

/* Segments end with buckets and at exchanges, in the order of the nodes. */
copse_status copse__segments_cut(struct copse_recorder *r)
{
    const uint32_t buckets = COPSE_MAX(r->params->bucket_count, 1);
    r->segment_count = buckets + (uint32_t)r->all_reduces.count;
    r->crossings = copse__alloc(r->mem, r->segment_count, sizeof *r->crossings);
    r->ends = copse__alloc(r->mem, buckets, sizeof *r->ends);
    r->cuts = copse__alloc(r->mem, r->segment_count, sizeof *r->cuts);
    if (!r->crossings || !r->ends || !r->cuts)
        return copse_fail(COPSE_ERR_NO_MEMORY, "program: no memory for %u segments",
                          r->segment_count);
    end_buckets(r, buckets);
    for (uint32_t i = 0, b = 0, c = 0; i < r->segment_count; i++) {
        const bool is_all_reduce =
            c < r->all_reduces.count && r->all_reduces.at[c].node->id <= r->ends[b];
        r->cuts[i] = is_all_reduce ? r->all_reduces.at[c].node->id : r->ends[b];
        r->crossings[i] = is_all_reduce ? c : COPSE_NO_ALL_REDUCE;
        c += is_all_reduce;
        b += !is_all_reduce;
    }
    return COPSE_OK;
}
