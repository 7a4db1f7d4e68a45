/* SPDX-License-Identifier: MIT */
/* The order of a graph's nodes. C leaves the order of evaluation of arguments open, so the order of
   creation depends on the compiler: copse_add(g, copse_relu(g, a), copse_tanh(g, b)). The order
   decides that of launches, of sums of gradients, and of random streams. */
#include <stdlib.h>

#include "core/graph/graph.h"

uint32_t copse__graph_draw(const copse_graph *g)
{
    return (uint32_t)g->nodes.count | COPSE_STREAM_PROVISIONAL;
}

struct order {
    copse_graph *g;
    size_t first, count; /* nodes: settled ones, all */
    copse_tensor **at;   /* the new order of those from `first` on */
    size_t placed;
    bool *is_seen; /* by id - first */
    struct place {
        copse_tensor *node;
        uint32_t next; /* operand */
    } *path;           /* from a root to the current node */
};

/* The number of the node. A derivative has the number of its node already. */
static void settle_stream(const copse_tensor *t)
{
    if (t->op->stream_at == 0)
        return;
    /* attributes are in the graph's own memory */
    uint32_t *stream = (uint32_t *)((char *)(void *)(uintptr_t)t->attr + t->op->stream_at - 1);
    if (*stream & COPSE_STREAM_PROVISIONAL)
        *stream = t->id;
}

static bool is_new(const struct order *o, const copse_tensor *t)
{
    return t->graph == o->g && t->id >= o->first && !o->is_seen[t->id - o->first];
}

static void order_visit(struct order *o, copse_tensor *root)
{
    size_t depth = 0;
    if (!is_new(o, root))
        return;
    o->path[depth++] = (struct place){ root, 0 };
    o->is_seen[root->id - o->first] = true;
    while (depth > 0) {
        struct place *p = &o->path[depth - 1];
        if (p->next < p->node->in_count) {
            copse_tensor *x = p->node->in[p->next++];
            if (is_new(o, x)) {
                o->is_seen[x->id - o->first] = true;
                o->path[depth++] = (struct place){ x, 0 };
            }
        } else {
            o->at[o->placed++] = p->node;
            depth--;
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const copse_tensor *x = *(copse_tensor *const *)a, *y = *(copse_tensor *const *)b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static void place_inputs(struct order *o)
{
    for (size_t n = o->first; n < o->count; n++) {
        copse_tensor *t = o->g->nodes.at[n];
        if (t->op != &copse_op_input)
            continue;
        o->at[o->placed++] = t;
        o->is_seen[n - o->first] = true;
    }
    qsort(o->at, o->placed, sizeof(copse_tensor *), by_name);
}

static void visit_all(struct order *o, copse_tensor *const *roots, size_t count)
{
    const copse_graph *g = o->g;
    place_inputs(o);
    for (size_t i = 0; i < count; i++)
        order_visit(o, roots[i]);
    for (size_t i = 0; i < g->report_count; i++)
        order_visit(o, g->reports[i].tensor);
    for (size_t i = 0; i < g->updates.count; i++)
        order_visit(o, g->updates.at[i].value);
    for (size_t i = 0; i < g->output_count; i++)
        order_visit(o, g->outputs[i].tensor);
    for (size_t n = o->first; n < o->count; n++)
        order_visit(o, g->nodes.at[n]);
}

copse_status copse__graph_order(copse_graph *g, copse_tensor *const *roots, size_t count)
{
    struct copse_mem *mem = &g->ctx->base.mem;
    struct order o = { .g = g, .first = g->ordered, .count = g->nodes.count };
    const size_t added = o.count - o.first;
    if (added == 0)
        return COPSE_OK;
    o.at = copse__alloc(mem, added, sizeof(copse_tensor *));
    o.is_seen = copse__alloc(mem, added, sizeof *o.is_seen);
    o.path = copse__alloc(mem, added, sizeof *o.path);
    const bool has_memory = o.at && o.is_seen && o.path;
    if (has_memory) {
        visit_all(&o, roots, count);
        for (size_t i = 0; i < added; i++) {
            o.at[i]->id = (uint32_t)(o.first + i);
            settle_stream(o.at[i]);
            g->nodes.at[o.first + i] = o.at[i];
        }
        g->ordered = o.count;
    }
    copse__free(mem, o.path);
    copse__free(mem, o.is_seen);
    copse__free(mem, o.at);
    return copse_need_memory(has_memory, "graph: the order of %zu nodes", added);
}
