/* SPDX-License-Identifier: MIT */
#include "core/graph/recompute.h"

#include "copse/ops/recompute.h"
#include "core/graph/recorder.h"
#include "core/graph/type.h"

void copse_recompute_begin(copse_graph *g)
{
    COPSE_LATCH_VOID(g, copse_need("recompute", g));
    if (g->segment > 0)
        COPSE_LATCH_VOID(g, copse_fail(COPSE_ERR_ARGUMENT, "recompute: a segment is open already: "
                                                           "call copse_recompute_end first"));
    g->segment = ++g->segments;
}

void copse_recompute_end(copse_graph *g)
{
    COPSE_LATCH_VOID(g, copse_need("recompute", g));
    if (g->segment == 0)
        COPSE_LATCH_VOID(g, copse_fail(COPSE_ERR_ARGUMENT, "recompute: no segment is open"));
    g->segment = 0;
}

size_t copse__forward_count(const copse_graph *g)
{
    size_t n = g->is_backward ? g->nodes.count : 0;
    while (n > 0 && (copse__is_leaf(g->nodes.at[n - 1]) || g->nodes.at[n - 1]->is_backward))
        n--;
    return n;
}

struct walk {
    copse_graph *g;
    struct copse_dropped dropped;
    size_t forward; /* nodes */
    struct copse_arena *arena;
    copse_tensor **copies; /* by node of the forward pass */
    bool *wanted;          /* by node of the forward pass: its copy is wanted now */
    struct {
        copse_tensor **at;
        size_t count, room;
    } order;
    struct copse_recomputed *out;
};

static bool is_dropped(const struct walk *w, const copse_tensor *t)
{
    return t->id < w->forward && w->dropped.is[t->id];
}

static uint64_t bytes_of(const copse_tensor *t)
{
    return copse__type_bytes(t->type) * copse__elements(t->shape);
}

static copse_status no_memory(void)
{
    return copse_no_memory("recomputation");
}

static copse_status recompute_append(struct walk *w, copse_tensor *t)
{
    return COPSE_PUSH(&w->g->ctx->base.mem, &w->order, t) ? COPSE_OK : no_memory();
}

/* The operands of a node, with copies for those that are dropped. */
static copse_status recompute_operands(struct walk *w, const copse_tensor *t, copse_tensor ***out)
{
    *out = copse__arena_alloc(w->arena, COPSE_MAX(t->in_count, 1u), sizeof **out);
    for (uint32_t i = 0; *out && i < t->in_count; i++)
        (*out)[i] = is_dropped(w, t->in[i]) ? w->copies[t->in[i]->id] : t->in[i];
    return *out ? COPSE_OK : no_memory();
}

static copse_status recompute_copy(struct walk *w, const copse_tensor *t)
{
    copse_tensor *c = copse__arena_alloc(w->arena, 1, sizeof *c);
    if (!c)
        return no_memory();
    *c = *t;
    c->is_backward = true;
    c->is_cast = false;
    COPSE_TRY(recompute_operands(w, t, &c->in));
    if (t->op->lower)
        w->out->bytes += bytes_of(t);
    for (uint32_t i = 0; t->op->lower && i < t->in_count; i++)
        w->out->bytes += bytes_of(t->in[i]);
    w->copies[t->id] = c;
    return recompute_append(w, c);
}

/* Copies of a dropped result and of all dropped results that it depends on and that have none yet,
   in order. Copies that only other parts read are not reused. */
static copse_status copy_with_operands(struct walk *w, const copse_tensor *t)
{
    size_t first = t->id;
    w->wanted[first] = true;
    for (size_t n = t->id + (size_t)1; n-- > first;) {
        const copse_tensor *x = w->g->nodes.at[n];
        for (uint32_t i = 0; w->wanted[n] && i < x->in_count; i++)
            if (is_dropped(w, x->in[i]) && !w->copies[x->in[i]->id]) {
                w->wanted[x->in[i]->id] = true;
                first = COPSE_MIN(first, x->in[i]->id);
            }
    }
    for (size_t n = first; n <= t->id; n++) {
        if (w->wanted[n])
            COPSE_TRY(recompute_copy(w, w->g->nodes.at[n]));
    }
    for (size_t n = first; n <= t->id; n++) {
        if (w->wanted[n] && w->dropped.part[n] != 0 && w->dropped.part[n] != w->dropped.part[t->id])
            w->copies[n] = NULL;
        w->wanted[n] = false;
    }
    return COPSE_OK;
}

static copse_status recompute_rewrite(struct walk *w, copse_tensor *t)
{
    const struct copse_operands before = { t, t->in };
    bool is_changed = false;
    for (uint32_t i = 0; i < t->in_count; i++)
        if (is_dropped(w, t->in[i])) {
            is_changed = true;
            if (!w->copies[t->in[i]->id])
                COPSE_TRY(copy_with_operands(w, t->in[i]));
        }
    if (!is_changed)
        return recompute_append(w, t);
    copse_tensor **in;
    COPSE_TRY(recompute_operands(w, t, &in));
    if (!COPSE_PUSH(&w->g->ctx->base.mem, &w->out->changed, before))
        return no_memory();
    t->in = in;
    return recompute_append(w, t);
}

static copse_status recompute_walk(struct walk *w)
{
    copse_graph *g = w->g;
    for (size_t n = 0; n < g->nodes.count; n++)
        COPSE_TRY(n < w->forward ? recompute_append(w, g->nodes.at[n])
                                 : recompute_rewrite(w, g->nodes.at[n]));
    if (!COPSE_RESERVE(&g->ctx->base.mem, &g->nodes, w->order.count))
        return no_memory();
    memcpy(w->out->nodes, g->nodes.at, w->out->count * sizeof *w->out->nodes);
    memcpy(g->nodes.at, w->order.at, w->order.count * sizeof *g->nodes.at);
    g->nodes.count = w->order.count;
    for (size_t n = 0; n < g->nodes.count; n++)
        g->nodes.at[n]->id = (uint32_t)n;
    return COPSE_OK;
}

static void restore_operands(struct copse_recomputed *r)
{
    for (size_t i = 0; i < r->changed.count; i++)
        r->changed.at[i].node->in = r->changed.at[i].in;
}

copse_status copse__recompute(copse_graph *g, struct copse_dropped dropped,
                              struct copse_arena *arena, struct copse_recomputed *out)
{
    struct copse_mem *mem = &g->ctx->base.mem;
    struct walk w = {
        .g = g, .dropped = dropped, .forward = copse__forward_count(g), .arena = arena, .out = out
    };
    *out = (struct copse_recomputed){ .count = g->nodes.count };
    out->nodes = copse__alloc(mem, g->nodes.count, sizeof *out->nodes);
    w.copies = copse__alloc(mem, w.forward + 1, sizeof *w.copies);
    w.wanted = copse__alloc(mem, w.forward + 1, sizeof *w.wanted);
    const copse_status s = out->nodes && w.copies && w.wanted ? recompute_walk(&w) : no_memory();
    copse__free(mem, w.copies);
    copse__free(mem, w.wanted);
    copse__free(mem, w.order.at);
    if (s != COPSE_OK) {
        restore_operands(out);
        copse__recompute_keep(g, out);
    }
    return s;
}

void copse__recompute_undo(copse_graph *g, struct copse_recomputed *r)
{
    restore_operands(r);
    memcpy(g->nodes.at, r->nodes, r->count * sizeof *r->nodes);
    g->nodes.count = r->count;
    for (size_t n = 0; n < g->nodes.count; n++)
        g->nodes.at[n]->id = (uint32_t)n;
    copse__recompute_keep(g, r);
}

void copse__recompute_keep(copse_graph *g, struct copse_recomputed *r)
{
    struct copse_mem *mem = &g->ctx->base.mem;
    copse__free(mem, r->nodes);
    copse__free(mem, r->changed.at);
    *r = (struct copse_recomputed){ .bytes = r->bytes };
}
