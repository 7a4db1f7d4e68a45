/* SPDX-License-Identifier: MIT */
/* Variables of the store cut into buckets. */
#include "core/base/trace.h"
#include "core/optim/optimizer.h"

struct planner {
    struct copse_optimizer *o;
    const struct copse_exchange_rule *rule;
    uint64_t *sizes;
    size_t *cuts;
    bool *is_wanted; /* by index of the variable */
};

/* Whether two variables may be in one bucket. */
static bool are_alike(const struct planner *p, const copse_variable *a, const copse_variable *b)
{
    return a->piece == b->piece &&
           (!p->rule->user || copse__optimizer_group(p->o, a) == copse__optimizer_group(p->o, b));
}

/* Variables [begin, end) of the store's order are side by side in one piece, are wanted, and are
   alike. */
static copse_status cut_run(struct planner *p, size_t begin, size_t end)
{
    struct copse_optimizer *o = p->o;
    const copse_strategy *st = o->strategy;
    struct copse_mem *mem = &st->ctx->base.mem;
    copse_variable *const *order = st->store->order.at;
    struct copse_exchange_rule rule = *p->rule;
    if (rule.user)
        rule.user = &o->of_group[copse__optimizer_group(o, order[begin])];
    for (size_t i = begin; i < end; i++)
        p->sizes[i - begin] = copse__round_up((size_t)order[i]->count, COPSE_UNIT);

    /* A single replica has nothing to overlap: one update per run. */
    const size_t bytes = st->params.bucket_bytes ? st->params.bucket_bytes : (size_t)4 << 20;
    const uint64_t wanted = st->group.ranks == 1 ? UINT64_MAX : COPSE_MAX(bytes / 4, 1);
    const uint32_t count = copse__bucket_plan(p->sizes, end - begin, wanted, p->cuts);
    size_t next = 0;
    for (uint32_t b = 0; b < count; b++) {
        const copse_variable *first = order[begin + next];
        struct copse_optimizer_bucket bucket = { .is_kept = false };
        const uint32_t number = (uint32_t)o->buckets.count;
        uint64_t elements = 0;
        if (!COPSE_RESERVE(mem, &o->buckets, o->buckets.count + 1) ||
            !COPSE_RESERVE(mem, &o->kept, o->buckets.count + 1))
            return copse_fail(COPSE_ERR_NO_MEMORY, "optimizer: no memory for buckets");
        for (; next < p->cuts[b]; next++) {
            o->of_variable.at[order[begin + next]->index] = number;
            o->variable_count++;
            elements += p->sizes[next];
        }
        COPSE_TRY(copse__exchange_bucket(st->store->exchange, first->piece, first->first, elements,
                                         &rule, &bucket.id));
        o->buckets.at[o->buckets.count++] = bucket;
    }
    return COPSE_OK;
}

static copse_status cut_all(struct planner *p)
{
    const struct copse_store *store = p->o->strategy->store;
    for (size_t begin = 0, end; begin < store->order.count; begin = end) {
        end = begin + 1;
        if (!p->is_wanted[store->order.at[begin]->index])
            continue;
        while (end < store->order.count && p->is_wanted[store->order.at[end]->index] &&
               are_alike(p, store->order.at[begin], store->order.at[end]))
            end++;
        COPSE_TRY(cut_run(p, begin, end));
    }
    return COPSE_OK;
}

static bool buckets_reserve(struct copse_optimizer *o, size_t count)
{
    if (!COPSE_RESERVE(&o->strategy->ctx->base.mem, &o->of_variable, count))
        return false;
    while (o->of_variable.count < count)
        o->of_variable.at[o->of_variable.count++] = COPSE_NO_BUCKET;
    return true;
}

copse_status copse__optimizer_cut(struct copse_optimizer *o, copse_variable *const *list,
                                  size_t count, const struct copse_exchange_rule *rule)
{
    const size_t all = o->strategy->variables.count, before = o->buckets.count;
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    struct planner p = { .o = o, .rule = rule };
    p.sizes = copse__alloc(mem, count, sizeof *p.sizes);
    p.cuts = copse__alloc(mem, count, sizeof *p.cuts);
    p.is_wanted = copse__alloc(mem, all, sizeof *p.is_wanted);
    copse_status s = COPSE_OK;
    if (!p.sizes || !p.cuts || !p.is_wanted || !buckets_reserve(o, all))
        s = copse_fail(COPSE_ERR_NO_MEMORY, "optimizer: no memory for buckets");
    for (size_t i = 0; i < count && !s; i++)
        p.is_wanted[list[i]->index] = true;
    if (s == COPSE_OK)
        s = cut_all(&p);
    if (s != COPSE_OK)
        copse__optimizer_drop(o, before);
    copse__free(mem, p.sizes);
    copse__free(mem, p.cuts);
    copse__free(mem, p.is_wanted);
    return s;
}

static copse_status exchange_bucket(const struct copse_optimizer *o, uint32_t bucket,
                                    const struct copse_optimizer_ready *ready)
{
    copse_exchange *x = o->strategy->store->exchange;
    copse_row_exchange *rows = o->buckets.at[bucket].rows;
    if (rows)
        return copse__row_exchange_run(rows, ready->tickets, ready->busy, ready->user, ready->stop);
    copse__exchange_stop_by(x, ready->stop);
    const copse_status s =
        copse__exchange_run(x, o->buckets.at[bucket].id, ready->tickets, ready->busy, ready->user);
    copse__exchange_stop_by(x, NULL);
    return s;
}

copse_status copse__optimizer_exchange(const struct copse_optimizer *o, uint32_t bucket,
                                       const struct copse_optimizer_ready *ready)
{
    const struct copse_span span = copse__span_begin(&o->strategy->ctx->base);
    return copse__span_end(span, COPSE_SPAN_EXCHANGE, "bucket", exchange_bucket(o, bucket, ready));
}

copse_status copse__optimizer_finish(const struct copse_optimizer *o, uint32_t bucket)
{
    copse_row_exchange *rows = o->buckets.at[bucket].rows;
    return rows ? copse__row_exchange_finish(rows)
                : copse__exchange_finish(o->strategy->store->exchange, o->buckets.at[bucket].id);
}

copse_status copse__optimizer_queue(const struct copse_optimizer *o, uint32_t bucket)
{
    copse_row_exchange *rows = o->buckets.at[bucket].rows;
    return rows ? copse__row_exchange_queue(rows)
                : copse__exchange_queue(o->strategy->store->exchange, o->buckets.at[bucket].id);
}

copse_status copse__optimizer_visit(const struct copse_optimizer *o, uint32_t bucket,
                                    copse_replay_fn *visit, void *user)
{
    const copse_row_exchange *rows = o->buckets.at[bucket].rows;
    return rows ? copse__row_exchange_visit(rows, visit, user)
                : copse__exchange_visit(o->strategy->store->exchange, o->buckets.at[bucket].id,
                                        visit, user);
}

void copse__optimizer_replay_by(const struct copse_optimizer *o,
                                const struct copse_segment *segment, copse_replay_fn *replay,
                                void *user)
{
    copse__exchange_replay_by(o->strategy->store->exchange, segment, replay, user);
    for (size_t b = 0; b < o->buckets.count; b++)
        if (o->buckets.at[b].rows)
            copse__row_exchange_replay_by(o->buckets.at[b].rows, segment, replay, user);
}

void copse__optimizer_drop(struct copse_optimizer *o, size_t first)
{
    for (size_t i = first; i < o->buckets.count; i++) {
        if (!o->buckets.at[i].rows)
            copse__exchange_drop(o->strategy->store->exchange, o->buckets.at[i].id);
        copse__row_exchange_release(&o->buckets.at[i].rows);
    }
    for (size_t i = 0; i < o->of_variable.count; i++)
        if (o->of_variable.at[i] != COPSE_NO_BUCKET && o->of_variable.at[i] >= first) {
            o->of_variable.at[i] = COPSE_NO_BUCKET;
            o->variable_count--;
        }
    o->buckets.count = COPSE_MIN(o->buckets.count, first);
    copse__norms_drop(o, first);
}
