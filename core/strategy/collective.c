/* SPDX-License-Identifier: MIT */
/* The strategy across workers: mirrored on this worker's devices, in step with the others. */
#include <stdio.h>

#include "copse/distribute/collective.h"

#include "core/strategy/create.h"

static const struct copse_strategy_table table = {
    .kind = COPSE_STRATEGY_COLLECTIVE,
    .name = "collective",
    .count = copse__strategy_count,
    .dispose = copse__strategy_dispose,
};

/* What must be the same for the same bits, and for anything to fit. */
static copse_status collective_agree(copse_strategy *st)
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

static copse_status collective_join(copse_strategy *st, copse_cluster *cluster)
{
    if (!cluster)
        return COPSE_OK;
    COPSE_TRY(copse__group_join(&st->group, cluster, st->replica_count,
                                copse__replicas_binding_bytes(st)));
    st->group.failed_device = failed_device;
    st->group.user = st;
    return collective_agree(st);
}

copse_status copse_collective_create(copse_context *ctx, copse_cluster *cluster,
                                     const char *const *devices, size_t count,
                                     const struct copse_strategy_params *params,
                                     copse_strategy **out)
{
    COPSE_TRY(copse_need("strategy", out));
    *out = NULL;
    if (cluster)
        COPSE_TRY(copse__cluster_check(cluster));
    if (cluster && copse_cluster_servers(cluster) > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "strategy: the job has parameter servers, which take no "
                          "part in collectives: use the parameter server strategy, or "
                          "describe the job without them");
    copse_strategy *st;
    COPSE_TRY(copse__strategy_create(ctx, &table, devices, count, params, &st));
    const copse_status s = collective_join(st, cluster);
    if (s) {
        copse_strategy_release(&st);
        return copse_note(s, "while joining the other workers");
    }
    *out = st;
    return COPSE_OK;
}
