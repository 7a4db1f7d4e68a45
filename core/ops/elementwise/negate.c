/* SPDX-License-Identifier: MIT */
/* y = -x as a command, without a graph. */
#include "core/ops/elementwise/function_numbers.h"
#include "core/ops/elementwise/unary.h"

uint64_t copse__negate_group(const struct copse_limits *limits)
{
    uint32_t x, y;
    copse__kernel_group(limits, COPSE_KERNEL_unary, &x, &y);
    return (uint64_t)x * y;
}

copse_status copse__negate_command(copse_device *dev, struct copse_binding x,
                                   struct copse_binding y, uint64_t count,
                                   struct copse_command *out)
{
    const struct copse_params_unary params = { .n = (uint32_t)count };
    const struct copse_binding both[] = { x, y };
    struct copse_kernel *k;
    COPSE_TRY(copse__kernel_get(dev, COPSE_KERNEL_unary,
                                (const int32_t[COPSE_MAX_SPECS]){ UNARY_neg }, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y;
    return copse__dispatch_init(out, k, both, 2, &params, (count + each - 1) / each, 0);
}
