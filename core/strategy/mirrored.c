/* SPDX-License-Identifier: MIT */
/* The mirrored strategy: one replica on each device of this process, all with equal variables. */
#include "core/strategy/create.h"

static const struct copse_strategy_table table = {
    .kind = COPSE_STRATEGY_MIRRORED,
    .name = "mirrored",
    .count = copse__strategy_count,
    .dispose = copse__strategy_dispose,
};

copse_status copse_mirrored_create(copse_context *ctx, const char *const *devices, size_t count,
                                   const struct copse_strategy_params *params, copse_strategy **out)
{
    return copse__strategy_create(ctx, &table, devices, count, params, out);
}
