/* SPDX-License-Identifier: MIT */
/* Mean squared error: an op composed of other ops. */
#include "core/ops/ops.h"

/* The mean of squares over all axes is one node for every rank. */
copse_tensor *copse_mean_squared_error(copse_graph *g, copse_tensor *a, copse_tensor *b)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("mean_squared_error", g, a, b));
    copse_tensor *d = copse__noted(g, copse_sub(g, a, b), "in mean_squared_error");
    d = copse_square(g, d);
    return copse_mean(g, d, NULL, 0, false);
}
