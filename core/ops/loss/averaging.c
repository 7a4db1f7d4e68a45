/* SPDX-License-Identifier: MIT */
/* How losses become one number. */
#include "core/ops/ops.h"

copse_status copse__check_averaging(const char *op, copse_averaging averaging)
{
    if (averaging == COPSE_MEAN || averaging == COPSE_SUM || averaging == COPSE_EACH)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_ARGUMENT, "%s: %d is no averaging", op, (int)averaging);
}

copse_tensor *copse__average(copse_graph *g, copse_tensor *losses, copse_averaging averaging)
{
    if (averaging == COPSE_EACH)
        return losses;
    return averaging == COPSE_MEAN ? copse_mean(g, losses, NULL, 0, false)
                                   : copse_sum(g, losses, NULL, 0, false);
}

copse_tensor *copse__weighted_mean(copse_graph *g, copse_tensor *losses, copse_tensor *weights)
{
    copse_tensor *mean = copse_mean(g, losses, NULL, 0, false);
    copse_tensor *divisor = copse_mean(g, weights, NULL, 0, false);
    divisor = copse__mean_over_batch(g, divisor);
    return copse_div(g, mean, divisor);
}
