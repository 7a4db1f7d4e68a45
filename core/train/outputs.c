/* SPDX-License-Identifier: MIT */
/* Outputs of the last iteration: values and pointers by name, reduced over replicas or not. */
#include "copse/step.h"
#include "core/data/array.h"

struct named {
    char *name;
    double *values; /* [replicas]; the newest round's in `pending` until all replicas have set it */
    double *pending;
    void **objects, **pending_objects;
    size_t count, object_count; /* 0: not set yet */
    bool is_reduced;
    copse_output_reduction reduction; /* of the pending round */
    bool *has;                        /* which replicas have set it; objects: behind the values */
    uint32_t has_count, has_objects;
};

struct copse_outputs {
    copse_context *ctx;
    struct copse_mem *mem;
    uint32_t replicas;
    struct { struct named *at; size_t count, room; } list;
};

copse_status copse_outputs_create(copse_context *ctx, uint32_t replicas, copse_outputs **out)
{
    COPSE_TRY(copse_need("outputs", ctx, out));
    if (replicas == 0 || replicas > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: needs 1 to %d replicas", COPSE_MAX_REPLICAS);
    struct copse_mem *mem = &copse__base(ctx)->mem;
    *out = copse__alloc(mem, 1, sizeof **out);
    if (!*out)
        return copse_fail(COPSE_ERR_NO_MEMORY, "outputs: no memory");
    **out = (struct copse_outputs){ .ctx = copse_context_retain(ctx), .mem = mem,
                                    .replicas = replicas };
    return COPSE_OK;
}

static void free_named(struct copse_mem *mem, struct named *n)
{
    copse__free(mem, n->name);
    copse__free(mem, n->values);
    copse__free(mem, (void *)n->objects);
    copse__free(mem, n->has);
}

void copse_outputs_release(copse_outputs **outputs)
{
    if (!outputs || !*outputs)
        return;
    copse_outputs *o = *outputs;
    *outputs = NULL;
    for (size_t i = 0; i < o->list.count; i++)
        free_named(o->mem, &o->list.at[i]);
    copse__free(o->mem, o->list.at);
    copse_context *ctx = o->ctx;
    copse__free(o->mem, o);
    copse_context_release(&ctx);
}

static struct named *find(const copse_outputs *o, const char *name)
{
    for (size_t i = 0; i < o->list.count; i++)
        if (strcmp(o->list.at[i].name, name) == 0)
            return &o->list.at[i];
    return NULL;
}

/* The output of that name, made when it is new. */
static copse_status get(copse_outputs *o, const char *name, struct named **out)
{
    COPSE_TRY(copse_need("outputs", o, name));
    if (!*name)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: an output needs a name");
    *out = find(o, name);
    if (*out)
        return COPSE_OK;
    struct named n = { .name = copse__strdup(o->mem, name) };
    n.values = copse__alloc(o->mem, o->replicas, 2 * sizeof *n.values);
    n.objects = copse__alloc(o->mem, o->replicas, 2 * sizeof *n.objects);
    n.has = copse__alloc(o->mem, o->replicas, 2 * sizeof *n.has);
    if (!n.name || !n.values || !n.objects || !n.has || !COPSE_PUSH(o->mem, &o->list, n)) {
        free_named(o->mem, &n);
        return copse_fail(COPSE_ERR_NO_MEMORY, "outputs: no memory for '%s'", name);
    }
    *out = &o->list.at[o->list.count - 1];
    (*out)->pending = n.values + o->replicas;
    (*out)->pending_objects = n.objects + o->replicas;
    return COPSE_OK;
}

static void drop_round(const copse_outputs *o, struct named *n)
{
    memset(n->has, 0, o->replicas * sizeof *n->has);
    n->has_count = 0;
}

/* `values` may be `n->pending`. */
static void set(const copse_outputs *o, struct named *n, const double *values,
                copse_output_reduction reduction)
{
    double sum = values[0];
    for (uint32_t r = 1; r < o->replicas; r++)
        sum += values[r];
    n->is_reduced = reduction != COPSE_OUTPUT_NONE;
    n->count = n->is_reduced ? 1 : o->replicas;
    if (n->is_reduced)
        n->values[0] = reduction == COPSE_OUTPUT_MEAN ? sum / (double)o->replicas : sum;
    else
        memcpy(n->values, values, o->replicas * sizeof *values);
    drop_round(o, n);
}

static copse_status check_reduction(const char *name, copse_output_reduction reduction)
{
    if ((int)reduction < 0 || reduction > COPSE_OUTPUT_MEAN)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s': there is no reduction %d", name,
                          (int)reduction);
    return COPSE_OK;
}

copse_status copse_outputs_set(copse_outputs *o, const char *name, const double *values,
                               copse_output_reduction reduction)
{
    struct named *n;
    COPSE_TRY(copse_need("outputs", o, name, values));
    COPSE_TRY(check_reduction(name, reduction));
    COPSE_TRY(get(o, name, &n));
    set(o, n, values, reduction);
    return COPSE_OK;
}

copse_status copse_outputs_set_replica(copse_outputs *o, uint32_t replica, const char *name,
                                       double value, copse_output_reduction reduction)
{
    struct named *n;
    COPSE_TRY(copse_need("outputs", o, name));
    COPSE_TRY(check_reduction(name, reduction));
    if (reduction == COPSE_OUTPUT_NONE)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s': a replica's value needs a reduction",
                          name);
    COPSE_TRY(get(o, name, &n));
    if (replica >= o->replicas)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s': there is no replica %u of %u", name,
                          replica, o->replicas);
    if (n->has[replica] || (n->has_count > 0 && n->reduction != reduction)) {
        const bool is_twice = n->has[replica];
        drop_round(o, n);
        return copse_fail(COPSE_ERR_ARGUMENT, is_twice ? "outputs: '%s': replica %u set it twice before "
                                                         "all others did"
                                                       : "outputs: '%s': replica %u asks for another "
                                                         "reduction than the others",
                          name, replica);
    }
    n->reduction = reduction;
    n->pending[replica] = value;
    n->has[replica] = true;
    if (++n->has_count == o->replicas)
        set(o, n, n->pending, reduction);
    return COPSE_OK;
}

copse_status copse_outputs_set_object(copse_outputs *o, const char *name, void *object)
{
    struct named *n;
    COPSE_TRY(get(o, name, &n));
    n->objects[0] = object;
    n->object_count = 1;
    return COPSE_OK;
}

copse_status copse_outputs_set_replica_object(copse_outputs *o, uint32_t replica, const char *name,
                                              void *object)
{
    struct named *n;
    COPSE_TRY(get(o, name, &n));
    bool *has = n->has + o->replicas;
    if (replica >= o->replicas || has[replica])
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s': replica %u is not there, or set it twice "
                                              "before all others did", name, replica);
    n->pending_objects[replica] = object;
    has[replica] = true;
    if (++n->has_objects < o->replicas)
        return COPSE_OK;
    bool is_same = true;
    for (uint32_t r = 0; r < o->replicas; r++) {
        is_same = is_same && n->pending_objects[r] == n->pending_objects[0];
        has[r] = false;
    }
    n->has_objects = 0;
    n->object_count = is_same ? 1 : o->replicas;
    memcpy((void *)n->objects, (void *)n->pending_objects, o->replicas * sizeof *n->objects);
    return COPSE_OK;
}

copse_status copse_outputs_get(const copse_outputs *o, const char *name, struct copse_output *out)
{
    COPSE_TRY(copse_need("outputs", o, name, out));
    const struct named *n = find(o, name);
    *out = (struct copse_output){ 0 };
    if (!n || n->count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: '%s' was not set", name);
    *out = (struct copse_output){ n->values, n->count, n->is_reduced };
    return COPSE_OK;
}

copse_status copse_outputs_objects(const copse_outputs *o, const char *name, void *const **list,
                                   size_t *count)
{
    COPSE_TRY(copse_need("outputs", o, name, list, count));
    const struct named *n = find(o, name);
    if (!n || n->object_count == 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "outputs: no object was kept as '%s'", name);
    *list = n->objects;
    *count = n->object_count;
    return COPSE_OK;
}
