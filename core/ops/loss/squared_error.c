/* SPDX-License-Identifier: MIT */
/* Mean squared error: an op composed of other ops. */
#include "core/ops/ops.h"

/* The mean of squares over all axes is one node for every rank. */
copse_status copse_mean_squared_error(copse_graph *g, copse_tensor *a, copse_tensor *b,
                                      copse_tensor **out)
{
    copse_tensor *d;
    COPSE_TRY(COPSE_CHECK_OPERANDS("mean_squared_error", g, out, a, b));
    COPSE_TRY(copse_note(copse_sub(g, a, b, &d), "in mean_squared_error"));
    COPSE_TRY(copse_square(g, d, &d));
    return copse_mean(g, d, NULL, 0, false, out);
}
