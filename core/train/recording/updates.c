/* SPDX-License-Identifier: MIT */
/* Assignments that a step executes (copse_update). The step computes the values; for a value that
   several replicas store it does an all-reduce. Behind all reads of the variables, and after all
   checks, the values are copied to them. */
#include "copse/distribute/sync.h"
#include "copse/train/update.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/train/recording/step_recording.h"
#include "core/variable/storage.h"

/* ---- the node ---- */

static copse_status check_update(const copse_graph *g, const copse_variable *v,
                                 const copse_tensor *value)
{
    COPSE_TRY(copse__variable_check(v, "update"));
    if (v->is_trained && g->takes_updates != COPSE_UPDATES_OWN)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "update: variable '%s' is trained, its optimizer updates it; freeze it",
                          v->name);
    if (g->takes_updates == COPSE_UPDATES_REFUSED)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "update: of variable '%s': only a trainer's step and calls (copse_call) "
                          "execute updates",
                          v->name);
    for (size_t i = 0; i < g->updates.count; i++)
        if (g->updates.at[i].variable == v)
            return copse_fail(COPSE_ERR_ARGUMENT, "update: variable '%s' is updated twice",
                              v->name);
    return value->type == v->tensor.type && copse__shape_equal(value->shape, v->tensor.shape)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_SHAPE, "update: variable '%s' is %s%s, the value is %s%s",
                            v->name, copse_type_name(v->tensor.type),
                            COPSE_SHAPE_TEXT(v->tensor.shape), copse_type_name(value->type),
                            COPSE_SHAPE_TEXT(value->shape));
}

/* The sum over replicas is the value that is stored: its operands are weighted, because replicas
   without examples run no node behind it. */
static copse_tensor *sum_weighted(copse_graph *g, const copse_variable *v, copse_tensor *value)
{
    if (v->tensor.type != COPSE_F32)
        return copse__refuse(
            g, COPSE_ERR_UNSUPPORTED,
            "update: variable '%s' is %s; several replicas can write f32 variables "
            "alone, or replica-local ones",
            v->name, copse_type_name(v->tensor.type));
    if (v->aggregation == COPSE_AGGREGATION_NONE)
        return copse__refuse(
            g, COPSE_ERR_ARGUMENT,
            "update: variable '%s' has no aggregation, and several replicas write it", v->name);
    if (v->aggregation != COPSE_AGGREGATION_SUM) {
        copse_tensor *weight = copse__step_scalar(
            g, v->aggregation == COPSE_AGGREGATION_MEAN ? COPSE_STEP_PART : COPSE_STEP_IS_FIRST);
        value = copse_mul(g, value, weight);
    }
    return copse_all_reduce(g, value, COPSE_SUM);
}

void copse_update(copse_graph *g, copse_variable *v, copse_tensor *value)
{
    COPSE_LATCH_VOID(g, copse_need("update", g, v, value));
    COPSE_LATCH_VOID(g, COPSE_CHECK_OPERANDS("update", g, value));
    COPSE_LATCH_VOID(g, check_update(g, v, value));
    if (g->takes_updates == COPSE_UPDATES_IGNORED)
        return;
    struct copse_graph_update u = { .variable = v,
                                    .is_shared = g->takes_updates == COPSE_UPDATES_TAKEN &&
                                                 g->replicas > 1 && !copse__variable_is_local(v) };
    u.value = u.is_shared ? sum_weighted(g, v, value) : copse__own(g, value);
    COPSE_LATCH_VOID(g, copse_need_memory(COPSE_PUSH(&g->ctx->base.mem, &g->updates, u), "update"));
}

/* ---- the layout's list ---- */

static copse_status updates_append(struct copse_layout *l, copse_strategy *st,
                                   const struct copse_graph_update *u)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_layout_update new = { .variable = u->variable, .is_shared = u->is_shared };
    if (u->variable->strategy != st)
        return copse_fail(COPSE_ERR_ARGUMENT, "update: variable '%s' belongs to another strategy",
                          u->variable->name);
    if (!copse__storage(u->variable)->target(u->variable, 0).buffer) {
        COPSE_TRY(copse_need_memory(
            new.host = copse__alloc(mem, 1, copse__variable_bytes(u->variable)), "trainer"));
    }
    if (COPSE_PUSH(mem, &l->updates, new))
        return COPSE_OK;
    copse__free(mem, new.host);
    return copse_no_memory("trainer");
}

static copse_status check_same(const struct copse_step_recording *r, const struct copse_layout *l)
{
    const copse_graph *g = r->base.graph;
    bool is_same = g->updates.count == l->updates.count;
    for (size_t i = 0; is_same && i < g->updates.count; i++)
        is_same = g->updates.at[i].variable == l->updates.at[i].variable;
    return is_same
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "trainer: replica %u's loss on %zu examples updates other variables "
                            "(copse_update) than the first one, or in another order",
                            r->replica, r->examples);
}

static copse_status updates_place(struct copse_step_recording *r, struct copse_layout_update *u,
                                  copse_tensor *value)
{
    const uint32_t buckets = (uint32_t)r->all->optimizer->buckets.count,
                   last = buckets > 0 ? buckets - 1 : 0;
    copse_buffer **to = &u->values[r->replica];
    const size_t bytes = copse__round_up(copse__variable_bytes(u->variable), 16);
    if (u->is_shared) /* it stays where the all-reduce leaves it */
        return copse__recording_place(&r->base, value, (struct copse_binding){ .buffer = NULL },
                                      last);
    if (!*to)
        COPSE_TRY(copse__buffer_acquire(r->all->strategy->replicas[r->replica].dev, bytes, to));
    return copse__recording_place(&r->base, value, (struct copse_binding){ *to, 0, bytes }, last);
}

copse_status copse__updates_place(struct copse_step_recording *r)
{
    copse_graph *g = r->base.graph;
    struct copse_layout *l = copse__layout_of(r->all, r->pass);
    for (size_t i = 0; !l->is_known && i < g->updates.count; i++)
        COPSE_TRY(updates_append(l, r->all->strategy, &g->updates.at[i]));
    COPSE_TRY(check_same(r, l));
    for (size_t i = 0; i < g->updates.count; i++)
        COPSE_TRY(updates_place(r, &l->updates.at[i], g->updates.at[i].value));
    return COPSE_OK;
}

void copse__updates_all_reduce(struct copse_step_recording *r, const copse_tensor *y,
                               uint32_t all_reduce)
{
    struct copse_layout *l = copse__layout_of(r->all, r->pass);
    const copse_graph *g = r->base.graph;
    for (size_t i = 0; r->pass != COPSE_PASS_EVALUATE && i < g->updates.count; i++)
        if (g->updates.at[i].is_shared && g->updates.at[i].value == y)
            l->updates.at[i].all_reduce = all_reduce;
}

void copse__updates_fini(struct copse_layout *l, copse_strategy *st)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    for (size_t i = 0; i < l->updates.count; i++) {
        for (uint32_t r = 0; r < st->replica_count; r++)
            copse_buffer_release(&l->updates.at[i].values[r]);
        if (!l->updates.at[i].is_stuck)
            copse__free(mem, l->updates.at[i].host);
    }
    copse__free(mem, l->updates.at);
}

/* ---- the step ---- */

static struct copse_binding updates_computed(const struct copse_layout *l, copse_strategy *st,
                                             const struct copse_layout_update *u, uint32_t r)
{
    if (!u->is_shared)
        return (struct copse_binding){ u->values[r], 0, copse__variable_bytes(u->variable) };
    return copse__exchange_values(st->store->exchange, l->all_reduces.at[u->all_reduce].piece, r);
}

/* A server has the only copy: the value of one replica is sent. */
static copse_status read_value(copse_queue *q, struct copse_binding from,
                               struct copse_layout_update *u)
{
    copse_status s =
        copse_queue_read(q, from.buffer, from.offset, u->host, copse__variable_bytes(u->variable));
    if (!s)
        s = copse_queue_finish(q);
    u->is_stuck |= s == COPSE_ERR_TIMEOUT;
    return s;
}

static copse_status assign_value(const struct copse_layout *l, copse_strategy *st,
                                 struct copse_layout_update *u, uint32_t r)
{
    copse_queue *q = st->replicas[r].queue;
    const size_t bytes = copse__variable_bytes(u->variable);
    const struct copse_binding from = updates_computed(l, st, u, r),
                               to = copse__storage(u->variable)->target(u->variable, r);
    if (!u->host)
        return copse_queue_copy(q, from.buffer, from.offset, to.buffer, to.offset, bytes);
    COPSE_TRY(read_value(q, from, u));
    return copse__storage(u->variable)->change(u->variable, r, COPSE_CHANGE_SET, u->host);
}

copse_status copse__updates_commit(struct copse_layout *l, copse_strategy *st,
                                   const struct copse_shard *shards)
{
    for (size_t i = 0; i < l->updates.count; i++) {
        struct copse_layout_update *u = &l->updates.at[i];
        const uint32_t copies = u->host ? 1 : st->replica_count;
        for (uint32_t r = 0; r < copies; r++)
            if (u->is_shared || shards[r].count > 0)
                COPSE_TRY(assign_value(l, st, u, r));
    }
    return COPSE_OK;
}
