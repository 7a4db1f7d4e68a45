/* SPDX-License-Identifier: MIT */
/* Gradients that a tower optimizer keeps until all replicas have given theirs. */
#include "core/compat/tower.h"

static copse_status check_pair(const copse_tower_optimizer *t,
                               const struct copse_tower_gradient *pairs, size_t i)
{
    const copse_value *g = pairs[i].gradient;
    const copse_variable *v = pairs[i].variable;
    char mine[96], theirs[96];
    COPSE_TRY(copse__tower_listed(t, pairs, i));
    if (!g)
        return COPSE_OK;
    if ((g->kind != COPSE_VALUE_ARRAY && g->kind != COPSE_VALUE_SPARSE) || g->type != COPSE_F32)
        return copse_fail(COPSE_ERR_ARGUMENT, "tower optimizer: the gradient of '%s' must be an f32 array "
                                              "or a sparse value", v->name);
    return copse__shape_equal(g->shape, v->tensor.shape)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "tower optimizer: '%s' is %s, its gradient %s", v->name,
                            copse__shape_text(v->tensor.shape, mine),
                            copse__shape_text(g->shape, theirs));
}

void copse__tower_call_free(copse_tower_optimizer *t, struct copse_tower_call *call)
{
    for (size_t i = 0; i < call->count; i++)
        copse_value_release(&call->pairs[i].gradient);
    copse__free(&t->strategy->ctx->base.mem, call->pairs);
}

void copse__tower_drop_first(copse_tower_optimizer *t, uint32_t r)
{
    copse__tower_call_free(t, &t->kept[r].at[0]);
    t->kept[r].count--;
    memmove(t->kept[r].at, t->kept[r].at + 1, t->kept[r].count * sizeof *t->kept[r].at);
    t->optimizer->held[r] = (uint32_t)t->kept[r].count;
}

static copse_status fill_call(const copse_tower_optimizer *t, uint32_t rank,
                              const struct copse_tower_gradient *pairs, size_t count,
                              struct copse_tower_call *call)
{
    for (size_t i = 0; i < count; i++) {
        call->count = i + 1;
        call->pairs[i].variable = pairs[i].variable;
        if (pairs[i].gradient)
            COPSE_TRY(copse__select_replica(pairs[i].gradient, rank, &call->pairs[i].gradient));
        COPSE_TRY(check_pair(t, call->pairs, i));
    }
    return COPSE_OK;
}

copse_status copse__tower_keep(copse_tower_optimizer *t, uint32_t rank,
                         const struct copse_tower_gradient *pairs, size_t count)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    struct copse_tower_call call = { copse__alloc(mem, count, sizeof *call.pairs), 0 };
    copse_status s = call.pairs ? fill_call(t, rank, pairs, count, &call)
                                : copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
    if (s == COPSE_OK && !COPSE_PUSH(mem, &t->kept[rank], call))
        s = copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
    t->optimizer->held[rank] = (uint32_t)t->kept[rank].count;
    if (s == COPSE_OK)
        t->calls[rank]++;
    else if (call.pairs)
        copse__tower_call_free(t, &call);
    return s;
}

void copse__tower_drop_all(copse_tower_optimizer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        while (t->kept[r].count > 0)
            copse__tower_drop_first(t, r);
        t->calls[r] = 0;
    }
}

copse_status copse__tower_write(copse_strategy *st, uint32_t r, const copse_value *v, struct copse_binding to)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    copse_queue *q = st->replicas[r].queue;
    if (v->block->queue == q)
        return copse_queue_copy(q, v->block->buffer, 0, to.buffer, to.offset, to.size);
    void *values = copse__alloc(mem, 1, to.size);
    if (!values)
        return copse_fail(COPSE_ERR_NO_MEMORY, "tower optimizer: no memory");
    copse_status s = copse_value_read(v, values);
    if (s == COPSE_ERR_TIMEOUT)
        return s; /* the device may still write there */
    if (s == COPSE_OK)
        s = copse_queue_write(q, to.buffer, to.offset, values, to.size);
    copse__free(mem, values);
    return s;
}
