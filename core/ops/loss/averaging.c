/* SPDX-License-Identifier: MIT */
/* How losses become one number. */
#include "core/ops/ops.h"

copse_status copse__check_averaging(const char *op, copse_averaging averaging)
{
    if (averaging == COPSE_MEAN || averaging == COPSE_SUM || averaging == COPSE_EACH)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_ARGUMENT, "%s: %d is no averaging", op, (int)averaging);
}

copse_status copse__average(copse_graph *g, copse_tensor *losses, copse_averaging averaging,
                            copse_tensor **out)
{
    *out = losses;
    if (averaging == COPSE_EACH)
        return COPSE_OK;
    return averaging == COPSE_MEAN ? copse_mean(g, losses, NULL, 0, false, out)
                                   : copse_sum(g, losses, NULL, 0, false, out);
}

copse_status copse__weighted_mean(copse_graph *g, copse_tensor *losses, copse_tensor *weights,
                                  copse_tensor **out)
{
    copse_tensor *mean, *divisor;
    COPSE_TRY(copse_mean(g, losses, NULL, 0, false, &mean));
    COPSE_TRY(copse_mean(g, weights, NULL, 0, false, &divisor));
    COPSE_TRY(copse__mean_over_batch(g, divisor, &divisor));
    return copse_div(g, mean, divisor, out);
}
