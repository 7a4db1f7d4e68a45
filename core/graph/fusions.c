/* SPDX-License-Identifier: MIT */
/* Fusions: several nodes that one launch computes. The op of one of them names the others (`fuse`
   in op.h); this file checks that the launch can be in one place for all: at the first of the nodes
   at which all operands are there, before each other reader of a result. */
#include "core/graph/recorder.h"

/* A view has no launch: the place of what it shows, but not before its own number. */
static uint32_t operand_place(const struct copse_recorder *r, const copse_tensor *x)
{
    uint32_t place = copse__is_leaf(x) ? 0 : r->place[x->id];
    for (; copse__root(x) != x; x = x->in[0])
        place = COPSE_MAX(place, COPSE_MAX(x->id, r->place[x->in[0]->id]));
    return place;
}

static bool is_member(const struct copse_fused *f, const copse_tensor *t)
{
    for (uint32_t i = 0; i < COPSE_MOST_FUSED; i++)
        if (f->at[i] == t)
            return true;
    return false;
}

/* The place of the launch, a member; UINT32_MAX: members precede an operand. */
static uint32_t place_for(const struct copse_recorder *r, const struct copse_fused *f)
{
    uint32_t after = 0, place = UINT32_MAX;
    for (uint32_t i = 0; i < COPSE_MOST_FUSED; i++)
        for (uint32_t k = 0; f->at[i] && k < f->at[i]->in_count; k++) {
            const copse_tensor *x = f->at[i]->in[k];
            if (!is_member(f, x) && !copse__is_leaf(x))
                after = COPSE_MAX(after, operand_place(r, x) + 1);
        }
    for (uint32_t i = 0; i < COPSE_MOST_FUSED; i++)
        if (f->at[i] && f->at[i]->id >= after)
            place = COPSE_MIN(place, f->at[i]->id);
    return place;
}

/* Whether all readers of a member but members come after the launch; none but these, if it is an
   inner one. */
static bool readers_wait(const struct copse_recorder *r, const struct copse_fused *f,
                         const copse_tensor *t, bool is_inner, uint32_t place)
{
    const copse_tensor *reader;
    for (uint32_t i = 0; (reader = copse__reader(&r->lowering, t, i)) != NULL; i++)
        if (!is_member(f, reader) && (is_inner || r->place[reader->id] <= place))
            return false;
    return true;
}

/* Whether an operand is a member just where the launch computes it itself. */
static bool operands_fit(const struct copse_fused *f, uint32_t i)
{
    const copse_tensor *t = f->at[i];
    for (uint32_t k = 0; k < t->in_count; k++)
        if (is_member(f, t->in[k]) != (f->inside[i] >> k & 1))
            return false;
    return true;
}

static bool may_be_member(const struct copse_recorder *r, const struct copse_fused *f, uint32_t i,
                          uint32_t place)
{
    const copse_tensor *t = f->at[i];
    return r->needed[t->id] && t->op->lower && !t->op->crosses && !r->fused[t->id] &&
           copse__segment_of(r, t->id) == copse__segment_of(r, place) &&
           copse__places_of(r, t) <= !f->is_inner[i] && operands_fit(f, i) &&
           readers_wait(r, f, t, f->is_inner[i], place);
}

static bool fits_together(const struct copse_recorder *r, const struct copse_fused *f,
                          uint32_t place)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < COPSE_MOST_FUSED && place != UINT32_MAX; i++) {
        if (f->at[i] && !may_be_member(r, f, i, place))
            return false;
        count += f->at[i] != NULL;
    }
    return count > 1;
}

static copse_status take_fusion(struct copse_recorder *r, const struct copse_fused *f,
                                uint32_t place)
{
    for (uint32_t i = 0; i < COPSE_MOST_FUSED; i++)
        if (f->at[i]) {
            r->fused[f->at[i]->id] = f->is_inner[i] ? COPSE_FUSED_INNER : COPSE_FUSED;
            r->place[f->at[i]->id] = place;
        }
    return COPSE_PUSH(r->mem, &r->fusions, *f) ? COPSE_OK : copse_no_memory("program");
}

copse_status copse__fusions_find(struct copse_recorder *r, bool only_free)
{
    for (uint32_t n = 0; n < r->graph->nodes.count; n++) {
        const copse_tensor *t = r->graph->nodes.at[n];
        struct copse_fused f;
        for (uint32_t turn = 0; r->needed[n] && t->op->fuse && !r->fused[n]; turn++) {
            f = (struct copse_fused){ .at = { t } };
            if (!t->op->fuse(&r->lowering, t, turn, &f))
                break;
            const uint32_t place = place_for(r, &f);
            if ((f.is_free || !only_free) && fits_together(r, &f, place))
                COPSE_TRY(take_fusion(r, &f, place));
        }
    }
    copse__lifetimes(r);
    return COPSE_OK;
}

void copse__fusions_drop(struct copse_recorder *r)
{
    memset(r->fused, 0, r->graph->nodes.count * sizeof *r->fused);
    for (uint32_t n = 0; n < r->graph->nodes.count; n++)
        r->place[n] = n;
    r->fusions.count = 0;
    copse__lifetimes(r);
}

const struct copse_fused *copse__fusion_at(const struct copse_recorder *r, uint32_t place)
{
    for (size_t i = 0; i < r->fusions.count; i++)
        if (r->place[r->fusions.at[i].at[0]->id] == place)
            return &r->fusions.at[i];
    return NULL;
}
