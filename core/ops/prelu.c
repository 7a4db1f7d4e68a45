/* SPDX-License-Identifier: MIT */
/* A leaky relu whose slope is an operand: an op composed of other ops. */
#include "copse/ops/activations.h"
#include "core/ops/ops.h"

/* The slope is multiplied by min(x, 0), so that its derivative is 0, not NaN, where x is infinite. */
copse_status copse_prelu(copse_graph *g, copse_tensor *x, copse_tensor *slope, copse_tensor **out)
{
    copse_tensor *zero, *low, *is_positive;
    COPSE_TRY(COPSE_CHECK_OPERANDS("prelu", g, out, x, slope));
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, 0, &zero));
    COPSE_TRY(copse_note(copse_less(g, zero, x, &is_positive), "while adding prelu"));
    COPSE_TRY(copse_minimum(g, x, zero, &low));
    COPSE_TRY(copse_note(copse_mul(g, slope, low, &low), "while adding prelu"));
    if (copse__elements(low->shape) != copse__elements(x->shape))
        return copse_fail(COPSE_ERR_SHAPE, "prelu: the slope does not broadcast to the shape of x");
    return copse_where(g, is_positive, x, low, out);
}
