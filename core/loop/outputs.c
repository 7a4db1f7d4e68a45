/* SPDX-License-Identifier: MIT */
/* Outputs of the last iteration: numbers and pointers by name, of all replicas or reduced over
   them. */
#include "core/loop/outputs.h"
#include "core/value/cross_device.h"

/* ---- life ---- */

static copse_status outputs_create(copse_context *ctx, copse_strategy *st, uint32_t replicas,
                                   copse_outputs **out)
{
    struct copse_mem *mem = &copse__base(ctx)->mem;
    COPSE_TRY(copse_need_memory(*out = copse__alloc(mem, 1, sizeof **out), "outputs"));
    **out = (struct copse_outputs){
        .ctx = copse_context_retain(ctx),
        .mem = mem,
        .arena.mem = mem,
        .replicas = replicas,
        .first = st ? st->group.first : 0,
        .own = st ? st->replica_count : replicas,
        .strategy = copse_strategy_retain(st),
    };
    return COPSE_OK;
}

copse_status copse_outputs_create(copse_context *ctx, uint32_t replicas, copse_outputs **out)
{
    COPSE_TRY(copse_need("outputs", ctx, out));
    if (replicas == 0 || replicas > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: needs 1 to %d replicas",
                          COPSE_MAX_REPLICAS);
    return outputs_create(ctx, NULL, replicas, out);
}

copse_status copse__outputs_create_for(copse_context *ctx, copse_strategy *st, copse_outputs **out)
{
    return outputs_create(ctx, st, st ? st->group.ranks : 1, out);
}

void copse_outputs_release(copse_outputs **outputs)
{
    if (!outputs || !*outputs)
        return;
    copse_outputs *o = *outputs;
    *outputs = NULL;
    for (size_t i = 0; i < o->list.count; i++)
        copse_value_release(&o->list.at[i].value);
    copse__free(o->mem, o->list.at);
    copse__arena_fini(&o->arena);
    copse_strategy_release(&o->strategy);
    copse__context_free(o->ctx, o);
}

struct copse_named_output *copse__outputs_find(const copse_outputs *o, const char *name)
{
    for (size_t i = 0; i < o->list.count; i++)
        if (strcmp(o->list.at[i].name, name) == 0)
            return &o->list.at[i];
    return NULL;
}

copse_status copse__outputs_named(copse_outputs *o, const char *name,
                                  struct copse_named_output **out)
{
    COPSE_TRY(copse_need("outputs", o, name));
    if (!*name)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: an output needs a name");
    *out = copse__outputs_find(o, name);
    if (*out)
        return COPSE_OK;
    struct copse_named_output n = {
        .name = copse__arena_strdup(&o->arena, name),
        .values = copse__arena_alloc(&o->arena, o->replicas, sizeof *n.values),
        .pending = copse__arena_alloc(&o->arena, o->replicas, sizeof *n.pending),
        .objects = copse__arena_alloc(&o->arena, o->own, sizeof *n.objects),
        .pending_objects = copse__arena_alloc(&o->arena, o->own, sizeof *n.pending_objects),
        .numbers.has = copse__arena_alloc(&o->arena, o->own, sizeof(bool)),
        .pointers.has = copse__arena_alloc(&o->arena, o->own, sizeof(bool)),
    };
    if (!n.name || !n.values || !n.pending || !n.objects || !n.pending_objects || !n.numbers.has ||
        !n.pointers.has || !COPSE_PUSH(o->mem, &o->list, n))
        return copse_fail(COPSE_ERR_NO_MEMORY, "outputs: no memory for '%s'", name);
    *out = &o->list.at[o->list.count - 1];
    return COPSE_OK;
}

/* ---- rounds ---- */

static void drop_round(const copse_outputs *o, struct copse_output_round *round)
{
    memset(round->has, 0, o->own * sizeof *round->has);
    round->count = 0;
}

static copse_status find_replica(const copse_outputs *o, const char *name, uint32_t replica,
                                 uint32_t *at)
{
    *at = replica - o->first;
    if (replica < o->first || *at >= o->own)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s': there is no replica %u of %u here",
                          name, replica, o->replicas);
    return COPSE_OK;
}

/* A replica of this worker, with number `at` among them, sets its entry. *is_full: it is the last
   one, and a new round begins. */
static copse_status enter_round(const copse_outputs *o, const char *name,
                                struct copse_output_round *round, uint32_t at, bool *is_full)
{
    if (round->has[at])
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "outputs: '%s': replica %u set it twice before all others did", name,
                          o->first + at);
    round->has[at] = true;
    *is_full = ++round->count == o->own;
    if (*is_full)
        drop_round(o, round);
    return COPSE_OK;
}

/* ---- numbers ---- */

/* `values` may be `n->values`. */
static void outputs_put(const copse_outputs *o, struct copse_named_output *n, const double *values,
                        bool is_reduced)
{
    copse_value_release(&n->value);
    n->is_reduced = is_reduced;
    n->count = is_reduced ? 1 : o->replicas;
    memmove(n->values, values, n->count * sizeof *values);
    drop_round(o, &n->numbers);
}

copse_status copse__outputs_put(copse_outputs *o, const char *name, const double *values,
                                bool is_reduced)
{
    struct copse_named_output *n;
    COPSE_TRY(copse__outputs_named(o, name, &n));
    outputs_put(o, n, values, is_reduced);
    return COPSE_OK;
}

/* Of all replicas. */
static void outputs_reduce(const copse_outputs *o, struct copse_named_output *n,
                           const double *values, copse_output_reduction reduction)
{
    double sum = values[0];
    for (uint32_t r = 1; r < o->replicas; r++)
        sum += values[r];
    if (reduction == COPSE_OUTPUT_MEAN)
        sum /= (double)o->replicas;
    outputs_put(o, n, reduction == COPSE_OUTPUT_NONE ? values : &sum,
                reduction != COPSE_OUTPUT_NONE);
}

/* The numbers of this worker's replicas, `values`, become those of all workers. `mine`: why there
   are none; all workers return it. */
static copse_status outputs_set(const copse_outputs *o, struct copse_named_output *n,
                                const double *values, copse_output_reduction reduction,
                                copse_status mine)
{
    static const char *const words[] = { "parts of output", "sum of output", "mean of output" };
    struct copse_group *g = o->strategy ? &o->strategy->group : &copse__group_of_one;
    char what[COPSE_WHAT_BYTES];
    double all[COPSE_MAX_REPLICAS];
    copse__call_text(words[reduction], n->name, what);
    memcpy(all + o->first, values, o->own * sizeof *values);
    COPSE_TRY(copse__group_gather_ranks(g, what, all, sizeof *values, mine));
    outputs_reduce(o, n, all, reduction);
    return COPSE_OK;
}

copse_status copse_outputs_set(copse_outputs *o, const char *name, const double *values,
                               copse_output_reduction reduction)
{
    struct copse_named_output *n;
    COPSE_TRY(copse_need("outputs", o, name, values));
    COPSE_TRY(copse__outputs_check_reduction(name, reduction));
    COPSE_TRY(copse__outputs_named(o, name, &n));
    return outputs_set(o, n, values, reduction, COPSE_OK);
}

copse_status copse_outputs_set_replica(copse_outputs *o, uint32_t replica, const char *name,
                                       double value, copse_output_reduction reduction)
{
    struct copse_named_output *n;
    uint32_t at;
    bool is_full;
    COPSE_TRY(copse_need("outputs", o, name));
    COPSE_TRY(copse__outputs_check_reduction(name, reduction));
    if (reduction == COPSE_OUTPUT_NONE)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s': a replica's value needs a reduction",
                          name);
    COPSE_TRY(copse__outputs_named(o, name, &n));
    COPSE_TRY(find_replica(o, name, replica, &at));
    copse_status can = COPSE_OK;
    if (n->numbers.count > 0 && !n->numbers.has[at] && n->reduction != reduction)
        can = copse_fail(COPSE_ERR_ARGUMENT,
                         "outputs: '%s': replica %u asks for another reduction than the others",
                         name, replica);
    if (!can)
        can = enter_round(o, name, &n->numbers, at, &is_full);
    if (can) {
        drop_round(o, &n->numbers);
        return outputs_set(o, n, n->pending, reduction, can);
    }
    n->reduction = reduction;
    n->pending[at] = value;
    return is_full ? outputs_set(o, n, n->pending, reduction, COPSE_OK) : COPSE_OK;
}

copse_status copse_outputs_get(const copse_outputs *o, const char *name, struct copse_output *out)
{
    COPSE_TRY(copse_need("outputs", o, name, out));
    const struct copse_named_output *n = copse__outputs_find(o, name);
    *out = (struct copse_output){ 0 };
    if (n && n->value)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "outputs: '%s' is a value; take it with copse_outputs_value", name);
    if (!n || n->count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s' was not set", name);
    *out = (struct copse_output){ .values = n->values,
                                  .count = n->count,
                                  .is_reduced = n->is_reduced };
    return COPSE_OK;
}

/* ---- pointers ---- */

copse_status copse_outputs_set_object(copse_outputs *o, const char *name, void *object)
{
    struct copse_named_output *n;
    COPSE_TRY(copse__outputs_named(o, name, &n));
    n->objects[0] = object;
    n->object_count = 1;
    return COPSE_OK;
}

copse_status copse_outputs_set_replica_object(copse_outputs *o, uint32_t replica, const char *name,
                                              void *object)
{
    struct copse_named_output *n;
    uint32_t at;
    bool is_full, is_same = true;
    COPSE_TRY(copse__outputs_named(o, name, &n));
    COPSE_TRY(find_replica(o, name, replica, &at));
    COPSE_TRY(enter_round(o, name, &n->pointers, at, &is_full));
    n->pending_objects[at] = object;
    if (!is_full)
        return COPSE_OK;
    for (uint32_t r = 0; r < o->own; r++)
        is_same = is_same && n->pending_objects[r] == n->pending_objects[0];
    n->object_count = is_same ? 1 : o->own;
    memcpy((void *)n->objects, (void *)n->pending_objects, o->own * sizeof *n->objects);
    return COPSE_OK;
}

copse_status copse_outputs_objects(const copse_outputs *o, const char *name, void *const **list,
                                   size_t *count)
{
    COPSE_TRY(copse_need("outputs", o, name, list, count));
    const struct copse_named_output *n = copse__outputs_find(o, name);
    if (!n || n->object_count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: no object was kept as '%s'", name);
    *list = n->objects;
    *count = n->object_count;
    return COPSE_OK;
}
