/* SPDX-License-Identifier: MIT */
/* Reorders the nodes that were added last, such as operations on complete gradients: each moves to
   the earliest position where it can be computed. Memory is then free sooner, and gradients can be
   transferred while others are still computed. */
#include "core/graph/graph.h"

#define ANYWHERE UINT32_MAX /* depends on no earlier node */

struct positions {
    uint32_t *after; /* by node: the earlier node that it must follow */
    uint32_t *head;  /* by earlier node: the first late node after it; `next` links the others */
    uint32_t *next;  /* by late node */
};

static void find_positions(const copse_graph *g, size_t first, struct positions *p)
{
    for (size_t n = 0; n < g->nodes.count; n++) {
        const copse_tensor *t = g->nodes.at[n];
        p->after[n] = n < first ? (uint32_t)n : ANYWHERE;
        for (uint32_t i = 0; n >= first && i < t->in_count; i++) {
            const uint32_t other = p->after[t->in[i]->id];
            if (other != ANYWHERE && (p->after[n] == ANYWHERE || other > p->after[n]))
                p->after[n] = other;
        }
    }
    for (size_t n = 0; n < first; n++)
        p->head[n] = ANYWHERE;
    for (size_t n = g->nodes.count; n-- > first;) /* so that lists are in order */
        if (p->after[n] != ANYWHERE) {
            p->next[n] = p->head[p->after[n]];
            p->head[p->after[n]] = (uint32_t)n;
        }
}

copse_status copse__graph_hoist(copse_graph *g, size_t first)
{
    struct copse_mem *mem = &g->ctx->base.mem;
    const size_t count = g->nodes.count;
    uint32_t *words = copse__alloc(mem, count, 3 * sizeof *words);
    copse_tensor **order = copse__alloc(mem, count, sizeof *order);
    copse_status s = COPSE_OK;
    if (!words || !order) {
        s = copse_fail(COPSE_ERR_NO_MEMORY, "graph: no memory for %zu nodes", count);
        goto done;
    }
    struct positions p = { words, words + count, words + 2 * count };
    size_t at = 0;
    find_positions(g, first, &p);
    for (size_t n = first; n < count; n++)
        if (p.after[n] == ANYWHERE)
            order[at++] = g->nodes.at[n];
    for (size_t n = 0; n < first; n++) {
        order[at++] = g->nodes.at[n];
        for (uint32_t i = p.head[n]; i != ANYWHERE; i = p.next[i])
            order[at++] = g->nodes.at[i];
    }
    memcpy(g->nodes.at, order, count * sizeof *order);
    for (size_t n = 0; n < count; n++)
        g->nodes.at[n]->id = (uint32_t)n;
done:
    copse__free(mem, order);
    copse__free(mem, words);
    return s;
}
