/* SPDX-License-Identifier: MIT */
/* copse_strategy_open: a strategy on the devices that a selector names. */
#include "core/strategy/create.h"

copse_status copse_strategy_open(copse_context *ctx, const char *selector,
                                 const struct copse_strategy_params *params, copse_strategy **out)
{
    char ids[COPSE_MAX_REPLICAS][32];
    const char *devices[COPSE_MAX_REPLICAS];
    size_t count = 0;
    COPSE_TRY(copse_need("strategy", ctx, out));
    *out = NULL;
    COPSE_TRY(copse_select_devices(ctx, selector, ids, COPSE_MAX_REPLICAS, &count));
    if (count > COPSE_MAX_REPLICAS)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "strategy: '%s' names %zu devices; a job has at most %d replicas",
                          selector ? selector : "auto", count, COPSE_MAX_REPLICAS);
    if (count == 1 && !(params && params->portable_shards > 0))
        return copse_one_device_create(ctx, ids[0], params, out);
    for (size_t i = 0; i < count; i++)
        devices[i] = ids[i];
    return copse_mirrored_create(ctx, devices, count, params, out);
}
