/* SPDX-License-Identifier: MIT */
/* Arrays and sparse values of replicas of other workers, in host memory. They may differ in type
   and shape: their forms are sent before their elements. */
#include "core/value/cross_device.h"

struct form {
    uint32_t type, is_sparse, slices;
    copse_shape shape;
};

struct gather {
    copse_strategy *st;
    uint32_t count;                          /* of the ranks whose values are gathered */
    copse_value *own[COPSE_MAX_REPLICAS];    /* of this worker's replicas, on the host */
    struct form forms[COPSE_MAX_REPLICAS];   /* of all ranks */
    uint64_t firsts[COPSE_MAX_REPLICAS + 1]; /* words before each rank's value */
    uint32_t *words;                         /* of all ranks, one value behind another */
};

/* A sparse value has the rows of its slices, then the slices. */
static uint64_t words_of(const struct form *f)
{
    copse_shape shape = f->shape;
    if (f->is_sparse)
        shape.dims[0] = f->slices;
    return copse__elements(shape) + (f->is_sparse ? f->slices : 0);
}

static copse_status gather_workers_bring(copse_strategy *st, copse_value *v, struct form *f,
                                         copse_value **out)
{
    if (v->kind != COPSE_VALUE_ARRAY && v->kind != COPSE_VALUE_VARIABLE &&
        v->kind != COPSE_VALUE_SPARSE)
        return copse_fail(COPSE_ERR_ARGUMENT, "gather: a replica has no array");
    COPSE_TRY(copse__value_at(st, v, COPSE_HOST, out));
    *f = (struct form){ (*out)->type, (*out)->kind == COPSE_VALUE_SPARSE, (*out)->slices,
                        (*out)->shape };
    return COPSE_OK;
}

static copse_status read_words(const copse_value *v, uint32_t *to)
{
    if (v->kind != COPSE_VALUE_SPARSE)
        return copse__array_read(v, to);
    return copse_value_read_sparse(v, (int32_t *)to, (float *)(void *)(to + v->slices));
}

static copse_status gather_workers_make(copse_strategy *st, const struct form *f,
                                        const uint32_t *words, copse_value **out)
{
    if (!f->is_sparse)
        return copse_value_create_on(st, COPSE_HOST, (copse_type)f->type, f->shape, words, out);
    const struct copse_sparse_params p = {
        .dense_shape = f->shape,
        .count = f->slices,
        .indices = (const int32_t *)words,
        .values = (const float *)(const void *)(words + f->slices),
    };
    return copse__value_sparse(st->ctx, st, COPSE_HOST, &p, out);
}

/* ---- of the first replicas ---- */

/* Other replicas have nothing: no row. */
static copse_status bring_all(struct gather *g, copse_value *v)
{
    const bool is_each = v->kind == COPSE_VALUE_PER_REPLICA;
    struct form *forms = &g->forms[g->st->group.first];
    for (uint32_t r = 0; r < g->st->replica_count; r++) {
        forms[r].shape.rank = 1;
        if (g->st->group.first + r < g->count)
            COPSE_TRY(copse_note(
                gather_workers_bring(g->st, is_each ? v->items[r] : v, &forms[r], &g->own[r]),
                "on replica %u", r));
    }
    return COPSE_OK;
}

/* Memory for all values, and this worker's in it. */
static copse_status make_room(struct gather *g)
{
    const struct copse_group *group = &g->st->group;
    for (uint32_t r = 0; r < group->ranks; r++) {
        g->forms[r].shape.rank = COPSE_MIN(g->forms[r].shape.rank, COPSE_MAX_RANK);
        g->firsts[r + 1] = g->firsts[r] + words_of(&g->forms[r]);
    }
    g->words =
        copse__alloc(&g->st->ctx->base.mem, (size_t)g->firsts[group->ranks], sizeof *g->words);
    COPSE_TRY(copse_need_memory(g->words, "gather: the arrays of %u replicas", group->ranks));
    for (uint32_t r = 0; r < g->st->replica_count && g->own[r]; r++)
        COPSE_TRY(read_words(g->own[r], g->words + g->firsts[group->first + r]));
    return COPSE_OK;
}

static copse_status gather_workers_exchange(struct gather *g, const char *what, copse_status mine)
{
    struct copse_group *group = &g->st->group;
    size_t sizes[COPSE_MAX_WORKERS];
    COPSE_TRY(copse__group_gather_ranks(group, what, g->forms, sizeof *g->forms, mine));
    COPSE_TRY(copse__group_barrier(group, what, 0, make_room(g)));
    for (uint32_t w = 0, r = 0; w < group->workers; r += group->rank_counts[w++])
        sizes[w] = (size_t)(4 * (g->firsts[r + group->rank_counts[w]] - g->firsts[r]));
    return copse__group_allgatherv(group, g->words, sizes);
}

/* `items` receives their values. */
static copse_status gather_workers_gather(copse_strategy *st, copse_value *v, uint32_t count,
                                          const char *what, copse_status mine, copse_value **items)
{
    struct gather g = { .st = st, .count = count };
    copse_status s = gather_workers_exchange(&g, what, mine ? mine : bring_all(&g, v));
    for (uint32_t r = 0; r < count && !s; r++)
        s = gather_workers_make(st, &g.forms[r], g.words + g.firsts[r], &items[r]);
    copse__values_release(g.own, st->replica_count);
    copse__free(&st->ctx->base.mem, g.words);
    return s;
}

copse_status copse__value_gather(copse_strategy *st, copse_value *v, const char *what,
                                 copse_status mine, copse_value **out)
{
    copse_value *items[COPSE_MAX_REPLICAS] = { NULL };
    *out = NULL;
    copse_status s = gather_workers_gather(st, v, st->group.ranks, what, mine, items);
    if (!s)
        s = copse_value_list(st->ctx, items, st->group.ranks, out);
    copse__values_release(items, st->group.ranks);
    return s;
}

copse_status copse__value_of_first(copse_strategy *st, copse_value *v, const char *what,
                                   copse_status mine, copse_value **out)
{
    *out = NULL;
    return gather_workers_gather(st, v, 1, what, mine, out);
}
