/* SPDX-License-Identifier: MIT */
/* Buckets: the trained variables of the store, cut into ranges that are reduced and updated together.
   Each optimizer has buckets, and so slots, of its own. */
#include "core/replica/replica.h"

struct planner {
    copse_strategy *st;
    const struct copse_exchange_rule *rule;
    struct copse_buckets *out;
    uint64_t *sizes;
    size_t *cuts;
};

static bool is_trained(const bool *list, const copse_variable *v)
{
    return !list || list[v->index];
}

/* Variables [begin, end) of the store's order stand side by side in one piece and are all trained. */
static copse_status cut_run(struct planner *p, size_t begin, size_t end)
{
    copse_strategy *st = p->st;
    copse_variable *const *order = st->store.order.at;
    for (size_t i = begin; i < end; i++)
        p->sizes[i - begin] = copse__round_up((size_t)order[i]->count, COPSE_UNIT);

    /* A single replica has nothing to overlap: one update per run. */
    const size_t bytes = st->params.bucket_bytes ? st->params.bucket_bytes : (size_t)4 << 20;
    const uint64_t wanted = st->rank_total == 1 ? UINT64_MAX : COPSE_MAX(bytes / 4, 1);
    const uint32_t count = copse__bucket_plan(p->sizes, end - begin, wanted, p->cuts);
    size_t next = 0;
    for (uint32_t b = 0; b < count; b++) {
        const copse_variable *first = order[begin + next];
        uint64_t elements = 0;
        for (; next < p->cuts[b]; next++) {
            p->out->of_variable[order[begin + next]->index] = p->out->count;
            elements += p->sizes[next];
        }
        COPSE_TRY(copse__exchange_bucket(st->store.exchange, first->piece, first->first, elements,
                                         p->rule, &p->out->ids[p->out->count]));
        p->out->count++;
    }
    return COPSE_OK;
}

static copse_status cut_all(struct planner *p, const bool *list)
{
    const struct copse_store *store = &p->st->store;
    for (size_t begin = 0, end; begin < store->order.count; begin = end) {
        end = begin + 1;
        if (!is_trained(list, store->order.at[begin]))
            continue;
        while (end < store->order.count && is_trained(list, store->order.at[end]) &&
               store->order.at[end]->piece == store->order.at[begin]->piece)
            end++;
        COPSE_TRY(cut_run(p, begin, end));
    }
    return COPSE_OK;
}

copse_status copse__buckets_make(copse_strategy *st, const bool *list,
                                 const struct copse_exchange_rule *rule, struct copse_buckets *out)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    const size_t count = st->variables.count;
    *out = (struct copse_buckets){ .variable_count = count };
    struct planner p = { .st = st, .rule = rule, .out = out };
    out->ids = copse__alloc(mem, count, sizeof *out->ids);
    out->of_variable = copse__alloc(mem, count, sizeof *out->of_variable);
    p.sizes = copse__alloc(mem, count, sizeof *p.sizes);
    p.cuts = copse__alloc(mem, count, sizeof *p.cuts);
    copse_status s = COPSE_OK;
    if (!out->ids || !out->of_variable || !p.sizes || !p.cuts)
        s = copse_fail(COPSE_ERR_NO_MEMORY, "store: no memory for buckets");
    for (size_t i = 0; s == COPSE_OK && i < count; i++)
        out->of_variable[i] = COPSE_NO_BUCKET;
    if (s == COPSE_OK)
        s = cut_all(&p, list);
    if (s == COPSE_OK && out->count == 0)
        s = copse_fail(COPSE_ERR_ARGUMENT, "store: the strategy has no variables to train");
    copse__free(mem, p.sizes);
    copse__free(mem, p.cuts);
    if (s != COPSE_OK)
        copse__buckets_fini(st, out);
    return s;
}

void copse__buckets_fini(copse_strategy *st, struct copse_buckets *b)
{
    struct copse_mem *mem = &st->ctx->base.mem;
    for (uint32_t i = 0; i < b->count; i++)
        copse__exchange_drop(st->store.exchange, b->ids[i]);
    copse__free(mem, b->ids);
    copse__free(mem, b->of_variable);
    *b = (struct copse_buckets){ 0 };
}
