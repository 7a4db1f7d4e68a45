/* SPDX-License-Identifier: MIT */
/* Gradients that a tower optimizer keeps until all replicas have given theirs, and the checks of
   the calls that give them. */
#include "core/compat/tower.h"

/* ---- checks ---- */

copse_status copse__tower_replica(const copse_tower_optimizer *t, uint32_t *rank)
{
    const struct copse_frame *f = copse__context_top();
    if (!f || !f->handle || f->is_graph || f->strategy != t->strategy)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "tower optimizer: gradients are given by replicas of its strategy; the "
                          "thread is %s%s",
                          copse__context_place(),
                          f && f->is_graph ? ", where a graph is built" : "");
    COPSE_TRY(copse__callback_check("tower optimizer", t));
    *rank = f->rank;
    return COPSE_OK;
}

copse_status copse__tower_rule(copse_tower_optimizer *t)
{
    struct copse_optimizer_params params = { .learning_rate = 0 };
    if (t->optimizer->has_rule)
        return COPSE_OK;
    struct copse_callback here = { .name = "the factory of a tower optimizer",
                                   .is_passive = true,
                                   .used = { t } };
    COPSE_TRY(copse__callback_check("tower optimizer", t));
    COPSE_TRY(
        copse_note(copse_callback_call(&here, t->params.factory(t->params.factory_user, &params)),
                   "in the factory of a tower optimizer"));
    return copse__optimizer_rule(t->optimizer, &params);
}

copse_status copse__tower_listed(const copse_tower_optimizer *t,
                                 const struct copse_tower_gradient *pairs, size_t i)
{
    const copse_variable *v = pairs[i].variable;
    COPSE_TRY(copse__optimizer_trains(t->optimizer, v, "tower optimizer"));
    for (size_t k = 0; k < i; k++)
        if (pairs[k].variable == v)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "tower optimizer: variable '%s' is twice in the list", v->name);
    return COPSE_OK;
}

static copse_status check_pair(const copse_tower_optimizer *t,
                               const struct copse_tower_gradient *pairs, size_t i)
{
    const copse_value *g = pairs[i].gradient;
    const copse_variable *v = pairs[i].variable;
    COPSE_TRY(copse__tower_listed(t, pairs, i));
    if (g &&
        ((g->kind != COPSE_VALUE_ARRAY && g->kind != COPSE_VALUE_SPARSE) || g->type != COPSE_F32))
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "tower optimizer: the gradient of '%s' must be an f32 array or a "
                          "sparse value",
                          v->name);
    return !g || copse__shape_equal(g->shape, v->tensor.shape)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "tower optimizer: '%s' is %s, its gradient %s",
                            v->name, COPSE_SHAPE_TEXT(v->tensor.shape), COPSE_SHAPE_TEXT(g->shape));
}

/* ---- what is kept ---- */

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

void copse__tower_drop_last(copse_tower_optimizer *t, uint32_t r)
{
    copse__tower_call_free(t, &t->kept[r].at[--t->kept[r].count]);
    t->optimizer->held[r] = (uint32_t)t->kept[r].count;
    t->calls[r]--;
}

void copse__tower_drop_all(copse_tower_optimizer *t)
{
    for (uint32_t r = 0; r < t->strategy->replica_count; r++) {
        while (t->kept[r].count > 0)
            copse__tower_drop_first(t, r);
        t->calls[r] = 0;
    }
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
    COPSE_TRY(copse_need_memory(call.pairs, "tower optimizer"));
    copse_status s = fill_call(t, rank, pairs, count, &call);
    if (s == COPSE_OK && !COPSE_PUSH(mem, &t->kept[rank], call))
        s = copse_no_memory("tower optimizer");
    if (s != COPSE_OK) {
        copse__tower_call_free(t, &call);
        return s;
    }
    t->optimizer->held[rank] = (uint32_t)t->kept[rank].count;
    t->calls[rank]++;
    return COPSE_OK;
}
