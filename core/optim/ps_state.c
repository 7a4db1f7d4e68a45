/* SPDX-License-Identifier: MIT */
/* What parameter stores have of an optimizer, for checkpoints: slots and counts, a snapshot of each
   group at one moment of its store, and the progress of all workers. */
#include "core/optim/ps.h"

/* The group of a variable and its number there; NULL: none. */
static struct copse_ps_group *group_of(const struct copse_optimizer *o, const copse_variable *v,
                                       uint32_t *member)
{
    const struct copse_ps *ps = copse__ps(o);
    for (size_t k = 0; k < ps->groups.count; k++)
        for (uint32_t i = 0; i < ps->groups.at[k].count; i++)
            if (ps->groups.at[k].list[i] == v) {
                *member = i;
                return &ps->groups.at[k];
            }
    return NULL;
}

static copse_status no_group(const copse_variable *v)
{
    return copse_fail(COPSE_ERR_INTERNAL, "optimizer: '%s' has no slots", v->name);
}

/* Of a slot of a variable, or of its values. */
static uint64_t words_of(const struct copse_optimizer *o, const copse_variable *v, uint32_t slot)
{
    return slot == COPSE_SLOT_VALUE ? v->count : copse__rule_slot_words(&o->rule, slot, v->count);
}

/* [values, slot, ...] of a variable in the snapshot. */
static const float *ps_state_seen(const struct copse_optimizer *o, const struct copse_ps_group *g,
                                  uint32_t member, uint32_t slot)
{
    const uint64_t count = g->list[member]->count;
    const float *at = g->words;
    for (uint32_t i = 0; i < member; i++)
        at += g->list[i]->count + copse__rule_words_of(&o->rule, g->list[i]->count);
    return slot == COPSE_SLOT_VALUE ? at : at + count + copse__rule_slot_at(&o->rule, slot, count);
}

copse_status copse__ps_read_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                                 void *values)
{
    const uint64_t words = words_of(o, v, slot);
    uint32_t member;
    const struct copse_ps_group *g = group_of(o, v, &member);
    if (!g)
        return no_group(v);
    if (g->words) {
        memcpy(values, ps_state_seen(o, g, member, slot), (size_t)words * COPSE_WORD_BYTES);
        return COPSE_OK;
    }
    return g->server->table->slot(g->server, g->id, member, slot, false, words, values);
}

copse_status copse__ps_write_slot(struct copse_optimizer *o, const copse_variable *v, uint32_t slot,
                                  const void *values)
{
    uint32_t member;
    const struct copse_ps_group *g = group_of(o, v, &member);
    return g ? g->server->table->slot(g->server, g->id, member, slot, true, words_of(o, v, slot),
                                      (void *)(uintptr_t)values)
             : no_group(v);
}

copse_status copse__ps_counts(struct copse_optimizer *o, const copse_variable *v, bool is_set,
                              uint64_t *count)
{
    const struct copse_ps *ps = copse__ps(o);
    const uint64_t wanted = *count;
    uint32_t member;
    const struct copse_ps_group *only = v ? group_of(o, v, &member) : NULL;
    for (size_t k = 0; k < ps->groups.count; k++) {
        struct copse_ps_group *g = &ps->groups.at[k];
        uint64_t one = wanted;
        if (v && g != only)
            continue;
        COPSE_TRY(g->server->table->updates(g->server, g->id, is_set, &one));
        g->updates = one;
        *count = one;
    }
    return COPSE_OK;
}

void copse__ps_forget(struct copse_optimizer *o)
{
    const struct copse_ps *ps = copse__ps(o);
    for (size_t k = 0; k < ps->groups.count; k++) {
        copse__free(&o->strategy->ctx->base.mem, ps->groups.at[k].words);
        ps->groups.at[k].words = NULL;
    }
}

copse_status copse__ps_snapshot(struct copse_optimizer *o)
{
    const struct copse_ps *ps = copse__ps(o);
    copse__ps_forget(o);
    for (size_t k = 0; k < ps->groups.count; k++) {
        struct copse_ps_group *g = &ps->groups.at[k];
        uint64_t count = g->elements; /* words; fewer than the bytes that the store has */
        for (uint32_t i = 0; i < g->count; i++)
            count += copse__rule_words_of(&o->rule, g->list[i]->count);
        g->words = copse__alloc(&o->strategy->ctx->base.mem, (size_t)count, sizeof *g->words);
        if (!g->words)
            return copse_no_memory("optimizer");
        COPSE_TRY(g->server->table->snapshot(g->server, g->id, count, g->words, &g->state));
        g->updates = g->state.updates;
    }
    return COPSE_OK;
}

copse_status copse__ps_progress(struct copse_optimizer *o, enum copse_progress_op op,
                                struct copse_server_progress *all)
{
    const struct copse_ps *ps = copse__ps(o);
    for (size_t k = 0; k < ps->groups.count; k++) {
        const struct copse_ps_group *g = &ps->groups.at[k];
        COPSE_TRY(g->server->table->progress(g->server, g->id, op, all));
        if (op == COPSE_PROGRESS_READ && !all->is_open) /* the first that is not open decides */
            break;
    }
    return COPSE_OK;
}

/* The least that all stores have seen of it. */
struct copse_worker_progress copse__ps_seen(const struct copse_optimizer *o, uint32_t worker)
{
    const struct copse_ps *ps = copse__ps(o);
    struct copse_worker_progress least = { .steps = UINT64_MAX };
    for (size_t k = 0; k < ps->groups.count; k++)
        if (ps->groups.at[k].state.progress.at[worker].steps < least.steps)
            least = ps->groups.at[k].state.progress.at[worker];
    return least;
}
