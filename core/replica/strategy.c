/* SPDX-License-Identifier: MIT */
/* Strategies: one replica, or one on each of several devices, each with its queue and step buffer. */
#include "core/replica/replica.h"

static void release_all(copse_strategy *st)
{
    copse_context *ctx = st->ctx;
    struct copse_mem *mem = &ctx->base.mem;
    copse__store_fini(st);
    for (size_t i = 0; i < st->variables.count; i++) {
        copse__free(mem, st->variables.at[i]->initial);
        copse__free(mem, st->variables.at[i]->name);
        copse__free(mem, st->variables.at[i]);
    }
    copse__free(mem, st->variables.at);
    for (uint32_t r = 0; r < st->replica_count; r++) {
        copse_buffer_release(&st->replicas[r].step);
        copse_queue_release(&st->replicas[r].queue);
        copse_device_release(&st->replicas[r].dev);
    }
    copse__free(mem, st);
    copse_context_release(&ctx);
}

copse_strategy *copse_strategy_retain(copse_strategy *st)
{
    copse__ref(&st->refs);
    return st;
}

void copse_strategy_release(copse_strategy **st)
{
    if (!st || !*st)
        return;
    if (copse__unref(&(*st)->refs))
        release_all(*st);
    *st = NULL;
}

/* How many replicas of the list share the device of replica r, and which of them r is. */
static struct copse_device_params share_of(const char *const *devices, size_t count, size_t r)
{
    struct copse_device_params p = { 0, 0 };
    for (size_t i = 0; i < count; i++)
        if (strcmp(devices[i], devices[r]) == 0) {
            p.share += i < r;
            p.shares++;
        }
    return p;
}

static copse_status open_replica(copse_strategy *st, const char *id,
                                 const struct copse_device_params *share)
{
    struct copse_replica *r = &st->replicas[st->replica_count++];
    COPSE_TRY(copse_device_open(st->ctx, id, share, &r->dev));
    COPSE_TRY(copse_queue_create(r->dev, &r->queue));
    COPSE_TRY(copse_buffer_create(
        r->dev, &(struct copse_buffer_params){ .size = 4 * COPSE_STEP_WORDS }, &r->step));
    return COPSE_OK;
}

copse_status copse_mirrored_create(copse_context *ctx, const char *const *devices, size_t count,
                                   const struct copse_strategy_params *params, copse_strategy **out)
{
    if (!ctx || !out || !devices)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: context, devices or result is NULL");
    *out = NULL;
    if (count == 0 || count > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: %zu replicas; 1 to %d are possible", count,
                          COPSE_MAX_REPLICAS);
    for (size_t i = 0; i < count; i++)
        if (!devices[i])
            return copse_fail(COPSE_ERR_ARGUMENT, "strategy: the id of replica %zu is NULL", i);
    copse_strategy *st = copse__alloc(&ctx->base.mem, 1, sizeof *st);
    if (!st)
        return copse_fail(COPSE_ERR_NO_MEMORY, "strategy: no memory");
    atomic_init(&st->refs, 1);
    st->ctx = copse_context_retain(ctx);
    if (params)
        st->params = *params;
    if (st->params.matmul) {
        if (strlen(st->params.matmul) >= sizeof st->matmul) {
            copse_strategy_release(&st);
            return copse_fail(COPSE_ERR_ARGUMENT, "strategy: unknown matmul variant '%s'",
                              params->matmul);
        }
        strcpy(st->matmul, st->params.matmul);
        st->choice = (struct copse_choice){ "matmul", st->matmul };
    }
    for (size_t i = 0; i < count; i++) {
        const struct copse_device_params share = share_of(devices, count, i);
        const copse_status s = open_replica(st, devices[i], &share);
        if (s != COPSE_OK) {
            copse_strategy_release(&st);
            return copse_note(s, "while opening replica %zu on %s", i, devices[i]);
        }
    }
    *out = st;
    return COPSE_OK;
}

copse_status copse_one_device_create(copse_context *ctx, const char *device,
                                     const struct copse_strategy_params *params,
                                     copse_strategy **out)
{
    return copse_mirrored_create(ctx, &device, 1, params, out);
}

uint32_t copse_strategy_replicas(const copse_strategy *st)
{
    return st->replica_count;
}

const struct copse_device_info *copse_strategy_device(const copse_strategy *st, uint32_t replica)
{
    return replica < st->replica_count ? &st->replicas[replica].dev->info : NULL;
}

const char *copse_strategy_transfer(const copse_strategy *st)
{
    if (st->replica_count == 1)
        return "one replica, nothing to exchange";
    if (!st->store.exchange)
        return "chosen when training starts";
    return copse__exchange_is_shared(st->store.exchange)
               ? "shared host memory, no copies between replicas"
               : "staged through host memory";
}

void copse_strategy_variables(copse_strategy *st, copse_variable *const **list, size_t *count)
{
    *list = st->variables.at;
    *count = st->variables.count;
}
