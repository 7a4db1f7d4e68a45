/* SPDX-License-Identifier: MIT */
/* Calls: settings, and computations on one replica or on all. */
#include "core/call/call.h"

#include "core/replica/replica_context.h"
#include "core/value/cross_device.h"
#include "core/value/replica_run.h"

/* ---- the calls of a strategy ---- */

void copse__calls_init(struct copse_calls *calls, void *owner, copse_strategy *st)
{
    calls->table = copse__call_recording_table;
    calls->table.name = calls->owner.name;
    copse__loss_recordings_init(calls->recordings, &calls->table, owner, st,
                                calls->params.recordings);
}

void copse__calls_fini(struct copse_calls *calls)
{
    copse__loss_recordings_fini(calls->recordings);
}

static void calls_release(copse_strategy *st)
{
    struct copse_calls *calls = st->calls;
    st->calls = NULL;
    st->release_calls = NULL;
    copse__calls_fini(calls);
    copse__free(&st->ctx->base.mem, calls);
}

copse_status copse__calls_get(copse_strategy *st, struct copse_calls **out)
{
    static const struct copse_optimizer none; /* texts of cross-checks name no gradients */
    if (!st->calls) {
        struct copse_calls *calls = copse__alloc(&st->ctx->base.mem, 1, sizeof *calls);
        COPSE_TRY(copse_need_memory(calls, "call"));
        calls->owner = (struct copse_check_owner){ .name = "call",
                                                   .turn_off = "copse_call_params.no_cross_check",
                                                   .strategy = st,
                                                   .optimizer = &none };
        calls->function = "the function of a call";
        copse__calls_init(calls, st, st);
        st->calls = calls;
        st->release_calls = calls_release;
    }
    *out = st->calls;
    return COPSE_OK;
}

copse_status copse_call_configure(copse_strategy *st, const struct copse_call_params *params)
{
    static const struct copse_call_params defaults;
    struct copse_calls *calls;
    COPSE_TRY(copse_need("call", st));
    COPSE_TRY(copse_no_reserved(copse_call_params, params));
    COPSE_TRY(copse__require_device(st, "call"));
    COPSE_TRY(copse__callback_check("copse_call_configure", st));
    COPSE_TRY(copse__calls_get(st, &calls));
    for (uint32_t r = 0; r < st->replica_count; r++)
        COPSE_TRY(copse_queue_finish(st->replicas[r].queue));
    copse__calls_fini(calls);
    calls->params = params ? *params : defaults;
    calls->number = 0;
    copse__calls_init(calls, st, st);
    return COPSE_OK;
}

uint64_t copse_call_recorded(const copse_strategy *st)
{
    return st && st->calls ? st->calls->recorded : 0;
}

/* ---- one replica ---- */

copse_status copse__call_place(copse_strategy **st, uint32_t *rank, bool *is_alone)
{
    const struct copse_frame *f = copse__context_top();
    if (!f || f->strategy == &copse__default_strategy)
        return copse_fail(COPSE_ERR_CONTEXT,
                          "call: the thread is in no scope of a strategy, and has no device; enter "
                          "one (copse_scope_enter), or use copse_strategy_map");
    if (f->is_graph)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "call: in a function that builds the graph of replica %u; add its ops to "
                          "this graph",
                          f->rank);
    *st = f->strategy;
    *is_alone = f->handle == 0;
    *rank = f->handle ? f->rank : f->update_rank == COPSE_HOST ? 0 : f->update_rank;
    return copse__callback_check("copse_call", f->strategy);
}

static copse_status assign_updates(const struct copse_call *c)
{
    const copse_graph *g = c->recording->base.graph;
    copse_value *value;
    for (size_t i = 0; i < g->updates.count; i++) {
        COPSE_TRY(copse__call_update(c, i, &value));
        const copse_status s = copse_assign(g->updates.at[i].variable, value);
        copse_value_release(&value);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

/* Devices that have work which was not submitted yet. */
static copse_status submit_open(const copse_strategy *st, uint32_t first, uint32_t count)
{
    for (uint32_t r = first; r < first + count; r++)
        if (st->replicas[r].queue->has_open_work)
            COPSE_TRY(copse_queue_submit(st->replicas[r].queue, NULL));
    return COPSE_OK;
}

copse_status copse__call_compute(struct copse_call *c, copse_value **result)
{
    const copse_strategy *st = c->calls->owner.strategy;
    COPSE_TRY(copse__call_record(c));
    c->calls->number = c->number;
    c->first_example = (st->group.first + c->rank) * copse__call_examples(c);
    COPSE_TRY(copse__call_begin(c));
    COPSE_TRY(copse__call_segment(c, 0));
    if (result)
        COPSE_TRY(copse__call_result(c, result));
    COPSE_TRY(copse__call_gradients(c));
    COPSE_TRY(assign_updates(c));
    return submit_open(st, c->rank, 1);
}

copse_status copse__call_at(copse_strategy *st, uint32_t rank, bool is_alone, copse_call_fn *fn,
                            void *user, copse_value *args, copse_value **result)
{
    struct copse_call c = { .fn = fn, .user = user, .rank = rank, .share = 1, .part = 1 };
    COPSE_TRY(copse__calls_get(st, &c.calls));
    c.number = c.calls->number + 1;
    copse_status s = copse__call_inputs_take(&c, args, "0", is_alone);
    if (!s)
        s = copse__call_compute(&c, result);
    copse__call_inputs_release(&c);
    if (s && result)
        copse_value_release(result);
    return copse_note(s, "in a call on replica %u", rank);
}

copse_status copse_call(copse_call_fn *fn, void *user, copse_value *args, copse_value **result)
{
    copse_strategy *st;
    uint32_t rank;
    bool is_alone;
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("call", fn));
    COPSE_TRY(copse__call_place(&st, &rank, &is_alone));
    return copse__call_at(st, rank, is_alone, fn, user, args, result);
}

/* ---- all replicas ---- */

/* The examples of all replicas are one batch. Each other worker has as many as this one. */
static void count_examples(struct copse_call *c, uint32_t count)
{
    const struct copse_group *group = &c->calls->owner.strategy->group;
    uint64_t all = 0;
    for (uint32_t r = 0; r < count; r++) {
        c[r].first_example = (uint32_t)all;
        all += copse__call_examples(&c[r]);
    }
    for (uint32_t r = 0; r < count; r++) {
        const double mine = copse__call_examples(&c[r]);
        c[r].first_example += group->first / count * (uint32_t)all;
        c[r].part = all == 0 ? 0 : (float)(mine / ((double)all * group->ranks / count));
    }
}

/* Replicas do the same: they update the same variables, and have the same sums over replicas. */
static copse_status check_same(const struct copse_call *mine, const struct copse_call *first)
{
    const struct copse_call_recording *a = mine->recording, *b = first->recording;
    const copse_graph *g = a->base.graph, *h = b->base.graph;
    bool is_same = g->updates.count == h->updates.count;
    for (size_t i = 0; is_same && i < g->updates.count; i++)
        is_same = g->updates.at[i].variable == h->updates.at[i].variable;
    if (!is_same)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "call: replica %u updates other variables than replica 0, or in another "
                          "order",
                          mine->rank);
    is_same = a->sums.count == b->sums.count;
    for (size_t i = 0; is_same && i < a->sums.count; i++)
        is_same = copse__shape_equal(a->sums.at[i].shape, b->sums.at[i].shape);
    return is_same ? COPSE_OK
                   : copse_fail(COPSE_ERR_SHAPE,
                                "call: replica %u has other sums over replicas (all_reduce) than "
                                "replica 0, or of other shapes",
                                mine->rank);
}

/* All record before one computes, so that a failure leaves the devices without half of the work. */
static copse_status record_all(struct copse_call *c, uint32_t count, copse_value *args)
{
    for (uint32_t r = 0; r < count; r++) {
        COPSE_TRY(copse__call_inputs_take(&c[r], args, "0", false));
        COPSE_TRY(copse_note(copse__call_record(&c[r]), "in a call on replica %u", r));
        COPSE_TRY(check_same(&c[r], c));
    }
    count_examples(c, count);
    return COPSE_OK;
}

/* Sum the operands of all replicas, of other workers too, by the canonical tree. */
static copse_status exchange_sum(struct copse_call *c, uint32_t count, uint32_t sum)
{
    copse_strategy *st = c->calls->owner.strategy;
    copse_value *at[COPSE_MAX_REPLICAS] = { NULL }, *each = NULL, *total = NULL;
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < count && !s; r++)
        s = copse__call_operand(&c[r], sum, &at[r]);
    s = copse__value_distributed_of(s, st, COPSE_VALUE_PER_REPLICA, at, NULL, count, &each);
    if (!s)
        s = copse__cross_reduce_for("a sum of a call", st->cross, st, COPSE_REDUCE_SUM, &each, NULL,
                                    1, &total);
    for (uint32_t r = 0; r < count && !s; r++)
        s = copse__call_take_sum(
            &c[r], sum, copse__value_is_distributed(total) ? copse__component_at(total, r) : total);
    copse_value_release(&total);
    copse_value_release(&each);
    return s;
}

static bool has_later_work(const copse_strategy *st, uint32_t rank, uint32_t count)
{
    bool has = false;
    for (uint32_t r = rank + 1; r < count; r++)
        has |= st->replicas[r].queue == st->replicas[rank].queue;
    return has;
}

/* A segment of all replicas. A device begins while the host still queues the work of the next one,
   where nothing else of the call follows on it. */
static copse_status play_segment(struct copse_call *c, uint32_t count, uint32_t segment)
{
    const copse_strategy *st = c->calls->owner.strategy;
    const copse_program *first = c->recording->base.program;
    const bool ends = copse__program_all_reduce(first, segment) != COPSE_NO_ALL_REDUCE ||
                      (segment + 1 == copse__program_segments(first) &&
                       c->recording->base.graph->updates.count == 0);
    for (uint32_t r = 0; r < count; r++) {
        COPSE_TRY(copse__call_segment(&c[r], segment));
        if (ends && !has_later_work(st, r, count))
            COPSE_TRY(submit_open(st, r, 1));
    }
    return COPSE_OK;
}

/* Segment by segment, so that devices compute at the same time. */
static copse_status play_all(struct copse_call *c, uint32_t count)
{
    const copse_program *first = c->recording->base.program;
    for (uint32_t r = 0; r < count; r++)
        COPSE_TRY(copse__call_begin(&c[r]));
    for (uint32_t i = 0; i < copse__program_segments(first); i++) {
        const uint32_t sum = copse__program_all_reduce(first, i);
        COPSE_TRY(play_segment(c, count, i));
        if (sum != COPSE_NO_ALL_REDUCE)
            COPSE_TRY(copse_note(exchange_sum(c, count, sum), "in sum %u over replicas", sum));
    }
    return COPSE_OK;
}

static copse_status assign_all(const struct copse_call *c, uint32_t count)
{
    const copse_graph *g = c->recording->base.graph;
    copse_strategy *st = c->calls->owner.strategy;
    for (size_t i = 0; i < g->updates.count; i++) {
        copse_value *at[COPSE_MAX_REPLICAS] = { NULL }, *each = NULL;
        copse_status s = COPSE_OK;
        for (uint32_t r = 0; r < count && !s; r++)
            s = copse__call_update(&c[r], i, &at[r]);
        s = copse__value_distributed_of(s, st, COPSE_VALUE_PER_REPLICA, at, NULL, count, &each);
        if (!s)
            s = copse__variable_assign_each(g->updates.at[i].variable, each);
        copse_value_release(&each);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

static bool has_shared_updates(const struct copse_call *c)
{
    const copse_graph *g = c->recording->base.graph;
    bool is_shared = false;
    for (size_t i = 0; i < g->updates.count; i++)
        is_shared |= !copse__variable_is_local(g->updates.at[i].variable);
    return is_shared;
}

static copse_status map_all(struct copse_call *c, uint32_t count, copse_value *args,
                            copse_value **result)
{
    copse_value *results[COPSE_MAX_REPLICAS] = { NULL };
    copse_strategy *st = c->calls->owner.strategy;
    COPSE_TRY(record_all(c, count, args));
    c->calls->number = c->number;
    copse_status s = play_all(c, count);
    for (uint32_t r = 0; r < count && !s; r++)
        s = copse__call_result(&c[r], &results[r]);
    if (!s && has_shared_updates(c)) /* their values are read */
        s = submit_open(st, 0, count);
    if (!s)
        s = assign_all(c, count);
    if (!s)
        s = submit_open(st, 0, count);
    if (!s && result && count == 1)
        *result = copse_value_retain(results[0]);
    else if (!s && result)
        s = copse__regroup(st, COPSE_VALUE_PER_REPLICA, results, NULL, count, result);
    copse__values_release(results, count);
    return s;
}

copse_status copse__map_here(copse_strategy *st, copse_call_fn *fn, void *user, copse_value *args,
                             copse_value **result)
{
    struct copse_calls *calls;
    COPSE_TRY(copse_need("map", fn));
    COPSE_TRY(copse__require_device(st, "map"));
    COPSE_TRY(copse__require_cross(st, "map"));
    COPSE_TRY(copse__calls_get(st, &calls));
    if (args)
        COPSE_TRY(copse_note(copse__check_components(args, st->replica_count),
                             "in the arguments of a map"));
    const uint32_t count = st->replica_count;
    struct copse_mem *mem = &st->ctx->base.mem;
    struct copse_call *c = copse__alloc(mem, count, sizeof *c);
    COPSE_TRY(copse_need_memory(c, "map"));
    for (uint32_t r = 0; r < count; r++) {
        c[r].calls = calls;
        c[r].fn = fn;
        c[r].user = user;
        c[r].rank = r;
        c[r].number = calls->number + 1;
        c[r].share = 1;
        c[r].is_map = true;
    }
    struct copse_frame frame;
    copse__context_push_cross(&frame, st, COPSE_HOST);
    const copse_status s = copse__context_pop(&frame, map_all(c, count, args, result));
    for (uint32_t r = 0; r < count; r++)
        copse__call_inputs_release(&c[r]);
    copse__free(mem, c);
    return s;
}

copse_status copse_strategy_map(copse_strategy *st, copse_call_fn *fn, void *user,
                                copse_value *args, copse_value **result)
{
    if (result)
        *result = NULL;
    COPSE_TRY(copse_need("map", st));
    copse__group_begin(&st->group, "map");
    return copse__group_end(&st->group, copse__map_here(st, fn, user, args, result));
}
