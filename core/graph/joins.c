/* SPDX-License-Identifier: MIT */
/* Nodes that are lowered together: independent nodes of an op with `lower_many`, in one segment and
   near each other. All are computed at the place of the last one. Their operands stay alive until
   then, so the nodes may be no more than REACH apart. */
#include "core/graph/recorder.h"

enum {
    REACH = 32, /* nodes from the first to the last one */
    OPEN = 8    /* groups that may get another node */
};

struct open {
    struct copse_join join;
    uint32_t before; /* the first reader of a result */
    uint32_t segment;
};

/* The place at which the result of a node is read first, as it is or by a view. */
static uint32_t first_reader(const struct copse_recorder *r, const copse_tensor *t)
{
    const copse_tensor *reader;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; (reader = copse__reader(&r->lowering, t, i)) != NULL; i++)
        first = COPSE_MIN(first, r->place[reader->id]);
    return first;
}

static bool joins_with(const struct copse_recorder *r, const struct open *o, const copse_tensor *t)
{
    const copse_tensor *first = r->graph->nodes.at[o->join.at[0]];
    if (first->op != t->op || t->id >= o->before || t->id - first->id > REACH ||
        o->join.count >= COPSE_MIN(t->op->most(&r->lowering, t), COPSE_MOST_JOINED) ||
        first->in_count != t->in_count || o->segment != copse__segment_of(r, t->id) ||
        (t->op->attr_size > 0 && memcmp(first->attr, t->attr, t->op->attr_size) != 0))
        return false;
    for (uint32_t i = 0; i < t->in_count; i++)
        if (first->in[i]->type != t->in[i]->type ||
            !(t->op->joins || copse__shape_equal(first->in[i]->shape, t->in[i]->shape)))
            return false;
    return !t->op->joins || t->op->joins(first, t);
}

static copse_status close_group(struct copse_recorder *r, const struct open *o)
{
    const uint32_t last = o->join.at[COPSE_MAX(o->join.count, 1) - 1];
    if (o->join.count < 2)
        return COPSE_OK;
    for (uint32_t i = 0; i < o->join.count; i++) {
        const copse_tensor *t = r->graph->nodes.at[o->join.at[i]];
        for (uint32_t k = 0; k < t->in_count; k++) {
            uint32_t *use = &r->last_use[copse__root(t->in[k])->id];
            *use = COPSE_MAX(*use, last);
        }
        r->joined[t->id] = true;
    }
    return COPSE_PUSH(r->mem, &r->joins, o->join) ? COPSE_OK : copse_no_memory("program");
}

static copse_status add_node(struct copse_recorder *r, struct open *open, uint32_t *oldest,
                             const copse_tensor *t)
{
    const uint32_t before = first_reader(r, t);
    for (uint32_t i = 0; i < OPEN; i++) {
        struct open *o = &open[i];
        if (o->join.count == 0 || !joins_with(r, o, t))
            continue;
        o->join.at[o->join.count++] = t->id;
        o->before = COPSE_MIN(o->before, before);
        return COPSE_OK;
    }
    struct open *o = &open[(*oldest)++ % OPEN];
    COPSE_TRY(close_group(r, o));
    *o = (struct open){ { { t->id }, 1 }, before, copse__segment_of(r, t->id) };
    return COPSE_OK;
}

void copse__joins_drop(struct copse_recorder *r)
{
    memset(r->joined, 0, r->graph->nodes.count * sizeof *r->joined);
    r->joins.count = 0;
    copse__lifetimes(r);
}

copse_status copse__joins_find(struct copse_recorder *r)
{
    struct open open[OPEN] = { { .before = 0 } };
    uint32_t oldest = 0;
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        /* A second placement is a copy at the place of the node. */
        if (r->needed[n] && t->op->lower_many && !r->fused[n] && copse__places_of(r, t) <= 1 &&
            t->op->most(&r->lowering, t) > 1)
            COPSE_TRY(add_node(r, open, &oldest, t));
    }
    for (uint32_t i = 0; i < OPEN; i++)
        COPSE_TRY(close_group(r, &open[i]));
    return COPSE_OK;
}

const struct copse_join *copse__join_of(const struct copse_recorder *r, uint32_t last)
{
    for (size_t i = 0; i < r->joins.count; i++)
        if (r->joins.at[i].at[r->joins.at[i].count - 1] == last)
            return &r->joins.at[i];
    return NULL;
}
