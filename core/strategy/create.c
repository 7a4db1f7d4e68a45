/* SPDX-License-Identifier: MIT */
/* Making and releasing strategies: what all of them have in common. */
#include "core/strategy/create.h"
#include "core/reduce/value/value_reduce.h"
#include "core/replica/replica_threads.h"
#include "core/variable/storage.h"

void copse__strategy_dispose(copse_strategy *st)
{
    copse_context *ctx = st->ctx;
    struct copse_mem *mem = &ctx->base.mem;
    copse__replica_threads_end(st);
    if (st->release_calls)
        st->release_calls(st);
    copse_cross_device_release(&st->cross);
    copse__store_release(st);
    copse__value_reducer_release(&st->reducer);
    if (st->storage->table->release)
        st->storage->table->release(st);
    copse__group_leave(&st->group);
    for (size_t i = 0; i < st->variables.count; i++)
        copse__variable_retire(st->variables.at[i]);
    copse__free(mem, st->variables.at);
    copse__replicas_close(st);
    copse__context_free(ctx, st);
}

/* Part of the handles of replica contexts, so that handles of different strategies differ. */
static uint32_t next_serial(void)
{
    static atomic_uint last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

copse_status copse__strategy_check(copse_context *ctx, const char *const *devices, size_t count,
                                   copse_strategy **out)
{
    COPSE_TRY(copse_need("strategy", ctx, devices, out));
    *out = NULL;
    if (count == 0 || count > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: %zu replicas; 1 to %d are possible", count,
                          COPSE_MAX_REPLICAS);
    for (size_t i = 0; i < count; i++)
        if (!devices[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "strategy: the id of replica %zu is NULL", i);
    return COPSE_OK;
}

static copse_status portable_check(const struct copse_strategy_table *table, size_t count,
                                   uint32_t shards)
{
    if (shards == 0)
        return COPSE_OK;
    if (table->kind != COPSE_STRATEGY_MIRRORED)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "strategy: a strategy of the kind '%s' has no portable bits: use "
                          "copse_mirrored_create or copse_strategy_open",
                          table->name);
    if (shards > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: %u shards, at most %d are possible",
                          shards, COPSE_MAX_REPLICAS);
    return shards % count == 0
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT,
                            "strategy: %u shards are no multiple of %zu devices; use another "
                            "number of devices, or of shards for all runs",
                            shards, count);
}

copse_status copse__strategy_create(copse_context *ctx, const struct copse_strategy_table *table,
                                    const char *const *devices, size_t count,
                                    const struct copse_strategy_params *params,
                                    copse_strategy **out)
{
    struct copse_choices choices;
    COPSE_TRY(copse__strategy_check(ctx, devices, count, out));
    COPSE_TRY(copse_no_reserved(copse_strategy_params, params));
    COPSE_TRY(copse__callback_check("creation of a strategy", NULL));
    if (params)
        COPSE_TRY(
            copse_need_known("strategy", "reduction", params->reduction, COPSE_REDUCE_TO_ONE));
    if (params)
        COPSE_TRY(
            copse_need_known("strategy", "transfer", params->transfer, COPSE_TRANSFER_STAGED));
    COPSE_TRY(copse__choices_parse(params ? params->kernels : NULL, &choices));
    COPSE_TRY(portable_check(table, count, params ? params->portable_shards : 0));
    copse_strategy *st = copse__alloc(&ctx->base.mem, 1, sizeof *st);
    COPSE_TRY(copse_need_memory(st, "strategy"));
    atomic_init(&st->refs, 1);
    st->ctx = copse_context_retain(ctx);
    st->table = table;
    st->serial = next_serial();
    if (params)
        st->params = *params;
    st->params.parameter_device = NULL; /* the caller's */
    st->params.kernels = NULL;
    st->choices = choices;
    st->storage = &copse__on_replicas;
    copse_status s = copse__store_create(st);
    if (s == COPSE_OK)
        s = copse__replicas_open(st, devices, count);
    if (s != COPSE_OK) {
        copse_strategy_release(&st);
        return s;
    }
    copse__group_alone(&st->group, st->replica_count);
    *out = st;
    return COPSE_OK;
}
