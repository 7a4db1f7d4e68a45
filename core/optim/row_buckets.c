/* SPDX-License-Identifier: MIT */
/* Buckets of sparse variables: one for each, with an exchange of rows. They come behind all other
   buckets, because lookups are at the beginning of a loss function and their gradients at its
   end. */
#include "core/optim/optimizer.h"

static copse_status make_exchange(struct copse_optimizer *o, const copse_variable *v,
                                  const struct copse_exchange_rule *rule, copse_row_exchange **out)
{
    const copse_strategy *st = o->strategy;
    const uint32_t rows = v->tensor.shape.dims[0];
    struct copse_exchange_rank ranks[COPSE_MAX_REPLICAS];
    struct copse_binding values[COPSE_MAX_REPLICAS];
    for (uint32_t r = 0; r < st->replica_count; r++) {
        ranks[r] = (struct copse_exchange_rank){
            st->replicas[r].queue, { st->replicas[r].step, 0, COPSE_WORD_BYTES * COPSE_STEP_WORDS }
        };
        values[r] = copse__variable_values(v, r);
    }
    struct copse_row_exchange_params p = {
        .ctx = st->ctx,
        .name = v->name,
        .ranks = ranks,
        .values = values,
        .rank_count = st->replica_count,
        .rows = rows,
        .width = (uint32_t)(v->count / rows),
        .rule = *rule,
        .message_bytes = st->params.message_bytes,
        .group = &o->strategy->group,
    };
    p.rule.user = &o->of_group[copse__optimizer_group(o, v)];
    return copse__row_exchange_create(&p, out);
}

static copse_status row_buckets_add(struct copse_optimizer *o, copse_variable *v,
                                    const struct copse_exchange_rule *rule)
{
    struct copse_mem *mem = &o->strategy->ctx->base.mem;
    struct copse_optimizer_bucket bucket = { .variable = v->index };
    if (o->name[0])
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "tower optimizer: variable '%s' is sparse, and its gradients here are dense: "
            "use a trainer, or a variable that is not sparse",
            v->name);
    COPSE_TRY(copse__rule_takes_rows(&o->of_group[copse__optimizer_group(o, v)], v->name));
    while (o->of_variable.count <= v->index)
        if (!COPSE_PUSH(mem, &o->of_variable, COPSE_NO_BUCKET))
            return copse_no_memory("optimizer");
    if (!COPSE_RESERVE(mem, &o->buckets, o->buckets.count + 1) ||
        !COPSE_RESERVE(mem, &o->kept, o->buckets.count + 1))
        return copse_no_memory("optimizer");
    COPSE_TRY(make_exchange(o, v, rule, &bucket.rows));
    o->of_variable.at[v->index] = (uint32_t)o->buckets.count;
    o->variable_count++;
    o->buckets.at[o->buckets.count++] = bucket;
    return COPSE_OK;
}

copse_status copse__optimizer_cut_rows(struct copse_optimizer *o, copse_variable *const *list,
                                       size_t count, const struct copse_exchange_rule *rule)
{
    const size_t before = o->buckets.count;
    copse_variable **dense = copse__alloc(&o->strategy->ctx->base.mem, count, sizeof *dense);
    COPSE_TRY(copse_need_memory(dense, "optimizer"));
    size_t dense_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!list[i]->is_sparse)
            dense[dense_count++] = list[i];
    copse_status s = dense_count > 0 ? copse__optimizer_cut(o, dense, dense_count, rule) : COPSE_OK;
    copse__free(&o->strategy->ctx->base.mem, dense);
    for (size_t i = count; i-- > 0 && !s;)
        if (list[i]->is_sparse)
            s = row_buckets_add(o, list[i], rule);
    if (s)
        copse__optimizer_drop(o, before);
    return s;
}
