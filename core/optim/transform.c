/* SPDX-License-Identifier: MIT */
/* Building blocks for transforms of gradients: norms, clipping, factors. */
#include "copse/compat/gradients.h"
#include "copse/ops.h"
#include "core/variable/variable.h"

static copse_status sum_of_squares(copse_graph *g, copse_tensor *x, copse_tensor **out)
{
    copse_tensor *y;
    COPSE_TRY(copse_square(g, x, &y));
    return copse_sum(g, y, NULL, 0, false, out);
}

copse_status copse_gradient_norm(copse_graph *g, copse_tensor *gradient, copse_tensor **norm)
{
    copse_tensor *sum;
    COPSE_TRY(copse_need("gradient_norm", g, norm, gradient));
    COPSE_TRY(sum_of_squares(g, gradient, &sum));
    return copse_sqrt(g, sum, norm);
}

static copse_status check(const copse_graph *g, const struct copse_gradient *pairs, size_t count)
{
    return g && (pairs || count == 0)
               ? COPSE_OK
               : copse_fail(COPSE_ERR_ARGUMENT, "gradients: graph or list is NULL");
}

static copse_status check_norm(float largest)
{
    return largest > 0.0f ? COPSE_OK
                          : copse_fail(COPSE_ERR_ARGUMENT,
                                       "gradients: a largest norm of %g: a "
                                       "number > 0 is needed",
                                       (double)largest);
}

/* largest / max(norm, largest): exactly 1 where the norm is not larger, NaN where it is NaN. */
static copse_status clip_factor(copse_graph *g, copse_tensor *norm, float largest,
                                copse_tensor **out)
{
    copse_tensor *limit, *divisor;
    COPSE_TRY(copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)largest, &limit));
    COPSE_TRY(copse_maximum(g, norm, limit, &divisor));
    return copse_div(g, limit, divisor, out);
}

copse_status copse_gradients_clip_norms(copse_graph *g, struct copse_gradient *pairs, size_t count,
                                        float largest)
{
    COPSE_TRY(check(g, pairs, count));
    COPSE_TRY(check_norm(largest));
    for (size_t i = 0; i < count; i++) {
        copse_tensor *factor;
        if (!pairs[i].gradient)
            continue;
        COPSE_TRY(copse_gradient_norm(g, pairs[i].gradient, &factor));
        COPSE_TRY(clip_factor(g, factor, largest, &factor));
        COPSE_TRY(copse_mul(g, pairs[i].gradient, factor, &pairs[i].gradient));
    }
    return COPSE_OK;
}

copse_status copse_gradients_clip_global_norm(copse_graph *g, struct copse_gradient *pairs,
                                              size_t count, float largest, copse_tensor **norm)
{
    copse_tensor *sum = NULL, *factor;
    if (norm)
        *norm = NULL;
    COPSE_TRY(check(g, pairs, count));
    COPSE_TRY(check_norm(largest));
    for (size_t i = 0; i < count; i++) {
        copse_tensor *part;
        if (!pairs[i].gradient)
            continue;
        COPSE_TRY(sum_of_squares(g, pairs[i].gradient, &part));
        if (sum)
            COPSE_TRY(copse_add(g, sum, part, &part));
        sum = part;
    }
    if (!sum)
        return COPSE_OK;
    COPSE_TRY(copse_sqrt(g, sum, &sum));
    COPSE_TRY(clip_factor(g, sum, largest, &factor));
    for (size_t i = 0; i < count; i++)
        if (pairs[i].gradient)
            COPSE_TRY(copse_mul(g, pairs[i].gradient, factor, &pairs[i].gradient));
    if (norm)
        *norm = sum;
    return COPSE_OK;
}

copse_status copse_gradients_multiply(copse_graph *g, struct copse_gradient *pairs, size_t count,
                                      const struct copse_multiplier *factors, size_t factor_count)
{
    COPSE_TRY(check(g, pairs, count));
    if (factor_count > 0 && !factors)
        return copse_fail(COPSE_ERR_ARGUMENT, "gradients: the list of factors is NULL");
    for (size_t k = 0; k < factor_count; k++) {
        size_t i = 0;
        while (i < count && pairs[i].variable != factors[k].variable)
            i++;
        if (i == count && factors[k].variable && !copse__variable_is(g->ctx, factors[k].variable))
            return copse_fail(
                COPSE_ERR_ARGUMENT,
                "gradients: factor %zu is of no variable: does the list have as many as were "
                "counted?",
                k);
        if (i == count)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "gradients: factor %zu is of '%s', which is not "
                              "trained here",
                              k, factors[k].variable ? factors[k].variable->name : "(NULL)");
        if (pairs[i].gradient)
            COPSE_TRY(
                copse_multiply_by(g, pairs[i].gradient, factors[k].factor, &pairs[i].gradient));
    }
    return COPSE_OK;
}
