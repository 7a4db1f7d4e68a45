/* SPDX-License-Identifier: MIT */
/* The one-device strategy: a single replica. Synchronization and aggregation of variables have no
   effect. */
#include "core/strategy/create.h"

static const struct copse_strategy_table table = {
    .kind = COPSE_STRATEGY_ONE_DEVICE,
    .name = "one device",
    .has_one_copy = true,
    .count = copse__strategy_count,
    .dispose = copse__strategy_dispose,
};

copse_status copse_one_device_create(copse_context *ctx, const char *device,
                                     const struct copse_strategy_params *params,
                                     copse_strategy **out)
{
    return copse__strategy_create(ctx, &table, &device, 1, params, out);
}
