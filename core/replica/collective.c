/* SPDX-License-Identifier: MIT */
/* The strategy across workers: mirrored on this worker's devices, in step with the others. */
#include <stdio.h>

#include "copse/distribute/collective.h"

#include "core/replica/storage.h"

const struct copse_strategy_table copse__collective = {
    .kind = COPSE_STRATEGY_COLLECTIVE,
    .name = "collective",
    .storage = &copse__on_replicas,
    .count_read = copse__count_read,
    .count_set = copse__count_set,
    .count_add = copse__count_add,
};

/* The smallest range that all replicas of this worker can bind. */
static uint64_t binding_bytes(const copse_strategy *st)
{
    uint64_t bytes = UINT64_MAX;
    for (uint32_t r = 0; r < st->replica_count; r++) {
        const struct copse_limits *l = st->replicas[r].dev->limits;
        bytes = COPSE_MIN(bytes, COPSE_MIN(l->max_binding_bytes, l->max_buffer_bytes));
    }
    return bytes;
}

/* What must be the same for the same bits, and for anything to fit. */
static copse_status agree(copse_strategy *st)
{
    char text[256];
    snprintf(text, sizeof text, "reduction %d\nbucket bytes %zu\n", (int)st->params.reduction,
             st->params.bucket_bytes);
    return copse__group_agree(&st->group, "the settings of the strategy", text);
}

static const char *failed_device(const void *user)
{
    const copse_strategy *st = user;
    for (uint32_t r = 0; r < st->replica_count; r++)
        if (atomic_load(&st->replicas[r].dev->is_lost))
            return st->replicas[r].dev->info.id;
    return NULL;
}

static copse_status join(copse_strategy *st, copse_cluster *cluster)
{
    if (!cluster)
        return COPSE_OK;
    st->cluster = copse_cluster_retain(cluster);
    COPSE_TRY(copse__group_join(&st->group, cluster, st->replica_count, binding_bytes(st)));
    st->group.failed_device = failed_device;
    st->group.user = st;
    st->rank_first = st->group.first;
    st->rank_total = st->group.ranks;
    return agree(st);
}

copse_status copse_collective_create(copse_context *ctx, copse_cluster *cluster,
                                     const char *const *devices, size_t count,
                                     const struct copse_strategy_params *params,
                                     copse_strategy **out)
{
    if (!out)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: the result is NULL");
    *out = NULL;
    if (cluster)
        COPSE_TRY(copse__cluster_check(cluster));
    if (cluster && copse_cluster_servers(cluster) > 0)
        return copse_fail(COPSE_ERR_ARGUMENT, "strategy: the job has parameter servers, which take no "
                                              "part in collectives: use the parameter server strategy, or "
                                              "describe the job without them");
    copse_strategy *st;
    COPSE_TRY(copse__strategy_create(ctx, &copse__collective, devices, count, params, &st));
    const copse_status s = join(st, cluster);
    if (s) {
        copse_strategy_release(&st);
        return copse_note(s, "while joining the other workers");
    }
    *out = st;
    return COPSE_OK;
}

/* ---- variables ---- */

static copse_status describe(const copse_strategy *st, copse_variable *const *list, size_t count,
                             char **out)
{
    size_t room = 64, used = 0;
    for (size_t i = 0; i < count; i++)
        room += strlen(list[i]->name) + 16 + 12 * COPSE_MAX_RANK;
    char *text = copse__alloc(&st->ctx->base.mem, room, 1);
    if (!text)
        return copse_fail(COPSE_ERR_NO_MEMORY, "strategy: no memory");
    for (size_t i = count; i-- > 0;) { /* in order of creation */
        const copse_shape shape = list[i]->tensor.shape;
        used += (size_t)snprintf(text + used, room - used, "%s f32 [", list[i]->name);
        for (uint32_t d = 0; d < shape.rank; d++)
            used += (size_t)snprintf(text + used, room - used, "%s%u", d ? "," : "", shape.dims[d]);
        used += (size_t)snprintf(text + used, room - used, "]\n");
    }
    snprintf(text + used, room - used, "%zu variables\n", count);
    *out = text;
    return COPSE_OK;
}

copse_status copse__collective_share(copse_strategy *st, copse_variable *const *list, size_t count)
{
    char *text = NULL;
    COPSE_TRY(describe(st, list, count, &text));
    copse_status s = copse__group_agree(&st->group, "the variables", text);
    copse__free(&st->ctx->base.mem, text);
    for (size_t i = count; i-- > 0 && !s;)
        s = copse__group_broadcast(&st->group, list[i]->name, list[i]->initial,
                                   (size_t)list[i]->count * sizeof(float), COPSE_OK);
    return s;
}

copse_status copse__collective_start(copse_strategy *st, const struct copse_variable_params *p,
                                     void *values, copse_status mine)
{
    char what[sizeof ((struct copse_header *)0)->what], shape[96] = "";
    uint64_t hash = copse__hash(COPSE_HASH_START, p->name, strlen(p->name));
    const uint32_t kind[] = { (uint32_t)p->synchronization, (uint32_t)p->aggregation };
    hash = copse__hash(hash, kind, sizeof kind);
    if (!mine)
        copse__shape_text(p->shape, shape);
    snprintf(what, sizeof what, "variable '%.20s' %s %.16s, %08x", p->name,
             p->type == COPSE_I32 ? "i32" : "f32", shape, (unsigned)hash);
    const size_t bytes = mine ? 0 : (size_t)copse__elements(p->shape) * 4;
    return copse__group_broadcast(&st->group, what, values, bytes, mine);
}
