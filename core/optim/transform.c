/* SPDX-License-Identifier: MIT */
/* Building blocks for transforms of gradients: norms, clipping, factors. */
#include "copse/compat/gradients.h"
#include "copse/ops.h"
#include "core/graph/graph.h"
#include "core/variable/variable.h"

static copse_tensor *sum_of_squares(copse_graph *g, copse_tensor *x)
{
    return copse_sum(g, copse_square(g, x), NULL, 0, false);
}

copse_tensor *copse_gradient_norm(copse_graph *g, copse_tensor *gradient)
{
    COPSE_LATCH(g, copse_need("gradient_norm", g, gradient));
    return copse_sqrt(g, sum_of_squares(g, gradient));
}

static copse_status transform_check(const copse_graph *g, const struct copse_gradient *pairs,
                                    size_t count)
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
static copse_tensor *clip_factor(copse_graph *g, copse_tensor *norm, float largest)
{
    copse_tensor *limit = copse_fill(g, COPSE_F32, COPSE_SCALAR, (double)largest);
    copse_tensor *divisor = copse_maximum(g, norm, limit);
    return copse_div(g, limit, divisor);
}

void copse_gradients_clip_norms(copse_graph *g, struct copse_gradient *pairs, size_t count,
                                float largest)
{
    COPSE_LATCH_VOID(g, transform_check(g, pairs, count));
    COPSE_LATCH_VOID(g, check_norm(largest));
    for (size_t i = 0; i < count; i++) {
        if (!pairs[i].gradient)
            continue;
        copse_tensor *factor = copse_gradient_norm(g, pairs[i].gradient);
        factor = clip_factor(g, factor, largest);
        pairs[i].gradient = copse_mul(g, pairs[i].gradient, factor);
    }
}

copse_tensor *copse_gradients_clip_global_norm(copse_graph *g, struct copse_gradient *pairs,
                                               size_t count, float largest)
{
    copse_tensor *sum = NULL;
    COPSE_LATCH(g, transform_check(g, pairs, count));
    COPSE_LATCH(g, check_norm(largest));
    for (size_t i = 0; i < count; i++) {
        if (!pairs[i].gradient)
            continue;
        copse_tensor *part = sum_of_squares(g, pairs[i].gradient);
        sum = sum ? copse_add(g, sum, part) : part;
    }
    if (!sum)
        return copse_fill(g, COPSE_F32, COPSE_SCALAR, 0);
    sum = copse_sqrt(g, sum);
    copse_tensor *factor = clip_factor(g, sum, largest);
    for (size_t i = 0; i < count; i++)
        if (pairs[i].gradient)
            pairs[i].gradient = copse_mul(g, pairs[i].gradient, factor);
    return sum;
}

void copse_gradients_multiply(copse_graph *g, struct copse_gradient *pairs, size_t count,
                              const struct copse_multiplier *factors, size_t factor_count)
{
    COPSE_LATCH_VOID(g, transform_check(g, pairs, count));
    if (factor_count > 0 && !factors)
        COPSE_LATCH_VOID(g,
                         copse_fail(COPSE_ERR_ARGUMENT, "gradients: the list of factors is NULL"));
    for (size_t k = 0; k < factor_count; k++) {
        size_t i = 0;
        while (i < count && pairs[i].variable != factors[k].variable)
            i++;
        if (i == count && factors[k].variable && !copse__variable_is(g->ctx, factors[k].variable))
            COPSE_LATCH_VOID(g, copse_fail(COPSE_ERR_ARGUMENT,
                                           "gradients: factor %zu is of no variable: does the list "
                                           "have as many as were counted?",
                                           k));
        if (i == count)
            COPSE_LATCH_VOID(
                g, copse_fail(COPSE_ERR_ARGUMENT,
                              "gradients: factor %zu is of '%s', which is not trained here", k,
                              factors[k].variable ? factors[k].variable->name : "(NULL)"));
        if (pairs[i].gradient)
            pairs[i].gradient = copse_multiply_by(g, pairs[i].gradient, factors[k].factor);
    }
}
