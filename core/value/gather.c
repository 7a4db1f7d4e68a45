/* SPDX-License-Identifier: MIT */
/* The arrays of all replicas of all workers, as a list in host memory that is equal on every worker. Arrays may differ
   in type and shape. */
#include "core/value/cross_device.h"

/* Sent before the elements of an array. */
struct form {
    uint32_t type, rank, dims[COPSE_MAX_RANK];
};

struct gather {
    copse_strategy *st;
    struct copse_mem *mem;
    copse_value *own[COPSE_MAX_REPLICAS]; /* of this worker's replicas, on the host */
    struct form forms[COPSE_MAX_REPLICAS]; /* of all ranks */
    uint64_t firsts[COPSE_MAX_REPLICAS + 1]; /* words before each rank's array */
    uint32_t *words;                       /* of all ranks, one array behind another */
};

static copse_status bring(struct gather *g, copse_value *v)
{
    const bool is_each = v->kind == COPSE_VALUE_PER_REPLICA;
    for (uint32_t r = 0; r < g->st->replica_count; r++) {
        copse_value *item = is_each ? v->items[r] : v;
        if (item->kind != COPSE_VALUE_ARRAY && item->kind != COPSE_VALUE_VARIABLE)
            return copse_fail(COPSE_ERR_ARGUMENT, "gather: replica %u has no array", r);
        COPSE_TRY(copse__value_at(g->st, item, COPSE_HOST, &g->own[r]));
        struct form *f = &g->forms[g->st->group.first + r];
        *f = (struct form){ .type = (uint32_t)g->own[r]->type, .rank = g->own[r]->shape.rank };
        memcpy(f->dims, g->own[r]->shape.dims, f->rank * sizeof *f->dims);
    }
    return COPSE_OK;
}

static copse_shape shape_of(const struct form *f)
{
    copse_shape s = { .rank = COPSE_MIN(f->rank, COPSE_MAX_RANK) };
    memcpy(s.dims, f->dims, s.rank * sizeof *s.dims);
    return s;
}

/* Room for all arrays, and this worker's in it. */
static copse_status make_room(struct gather *g)
{
    const uint32_t ranks = g->st->group.ranks;
    size_t bytes;
    for (uint32_t r = 0; r < ranks; r++)
        g->firsts[r + 1] = g->firsts[r] + copse__elements(shape_of(&g->forms[r]));
    if (!copse__mul((size_t)g->firsts[ranks], 4, &bytes) || !(g->words = copse__alloc(g->mem, bytes, 1)))
        return copse_fail(COPSE_ERR_NO_MEMORY, "gather: no memory for the arrays of %u replicas", ranks);
    for (uint32_t r = 0; r < g->st->replica_count; r++)
        if (copse__elements(g->own[r]->shape) > 0)
            COPSE_TRY(copse__array_read(g->own[r], g->words + g->firsts[g->st->group.first + r]));
    return COPSE_OK;
}

static copse_status exchange(struct gather *g, copse_status mine)
{
    struct copse_group *group = &g->st->group;
    size_t sizes[COPSE_MAX_WORKERS];
    COPSE_TRY(copse__group_barrier(group, "arrays of all replicas", 0, mine));
    for (uint32_t w = 0; w < group->workers; w++)
        sizes[w] = group->rank_counts[w] * sizeof *g->forms;
    COPSE_TRY(copse__group_allgatherv(group, g->forms, sizes));
    COPSE_TRY(copse__group_barrier(group, "elements of all replicas", 0, make_room(g)));
    for (uint32_t w = 0, r = 0; w < group->workers; r += group->rank_counts[w++])
        sizes[w] = (size_t)(4 * (g->firsts[r + group->rank_counts[w]] - g->firsts[r]));
    return copse__group_allgatherv(group, g->words, sizes);
}

static copse_status list(const struct gather *g, copse_value **out)
{
    copse_value *items[COPSE_MAX_REPLICAS] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < g->st->group.ranks && !s; r++)
        s = copse_value_create_on(g->st, COPSE_HOST, (copse_type)g->forms[r].type, shape_of(&g->forms[r]),
                                  g->words + g->firsts[r], &items[r]);
    if (!s)
        s = copse_value_list(g->st->ctx, items, g->st->group.ranks, out);
    for (uint32_t r = 0; r < g->st->group.ranks; r++)
        copse_value_release(&items[r]);
    return s;
}

copse_status copse__value_gather(copse_strategy *st, copse_value *v, copse_value **out)
{
    struct gather g = { .st = st, .mem = &st->ctx->base.mem };
    copse_status s = exchange(&g, bring(&g, v));
    if (!s)
        s = list(&g, out);
    for (uint32_t r = 0; r < st->replica_count; r++)
        copse_value_release(&g.own[r]);
    copse__free(g.mem, g.words);
    return s;
}
