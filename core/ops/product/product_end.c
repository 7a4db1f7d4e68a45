/* SPDX-License-Identifier: MIT */
/* See product_end.h. */
#include "core/ops/product/product_end.h"

#include <math.h>

#include "core/device/kernel/sum_bound.h"
#include "core/ops/elementwise/function_numbers.h"
#include "core/ops/elementwise/unary.h"

enum { UNARY_none = 63 };

#define FUNCTION(end) ((end) % COPSE_END_VALUE)

/* ---- launches ---- */

struct copse_operand copse__bias_of(const struct copse_product *p)
{
    if (p->end >= COPSE_END_SLOPE)
        return copse__of(p->z);
    return p->bias ? copse__of(p->bias) : p->b;
}

copse_status copse__kept_of(struct copse_lowering *l, const struct copse_product *p,
                            struct copse_operand *z)
{
    if (p->end < COPSE_END_KEEPS || p->end >= COPSE_END_SLOPE)
        return copse__scratch(l, 1, z);
    *z = copse__of(p->z);
    return COPSE_OK;
}

/* ---- fusions ---- */

enum { PRODUCT, USER }; /* the places of the nodes */

/* The functions of kernels/product/ends.clh: no slope is above 1.13 (sum_bound.c). */
static bool has_function(const copse_tensor *t)
{
    const struct copse_unary_attr *a = t->attr;
    return a->id == UNARY_gelu || a->id == UNARY_gelu_tanh || a->id == UNARY_silu;
}

/* What a reader makes of y; 0: nothing that is an end. */
static int32_t end_by(const copse_tensor *reader, const copse_tensor *y)
{
    copse_activation activation;
    if (reader->op->lower == copse__unary_lower && has_function(reader))
        return COPSE_END_VALUE + ((const struct copse_unary_attr *)reader->attr)->id;
    if (reader->in_count < 2 || reader->in[1] != y)
        return 0;
    if (reader->op == &copse_op_unary_grad && has_function(reader))
        return COPSE_END_SLOPE + ((const struct copse_unary_attr *)reader->attr)->id;
    return copse__is_activation_gradient(reader, &activation)
               ? COPSE_END_SLOPE_BY_Y + (int32_t)activation
               : 0;
}

/* The first reader that is an end. Only it reads the product; or others read it, too, such as the
   derivative of the function. */
bool copse__end_fuse(struct copse_lowering *l, const copse_tensor *y, const struct copse_product *p,
                     uint32_t turn, struct copse_fused *out)
{
    const bool is_kept = turn > 0;
    const copse_tensor *reader = NULL;
    int32_t end = 0;
    if (turn > 1 || p->activation != COPSE_LINEAR)
        return false;
    for (uint32_t i = 0; end == 0 && (reader = copse__reader(l, y, i)) != NULL; i++) {
        end = end_by(reader, y);
        if (end >= COPSE_END_SLOPE && (is_kept || p->bias))
            end = 0;
    }
    if (end == 0)
        return false;
    out->at[USER] = reader;
    out->inside[USER] = end >= COPSE_END_SLOPE ? 2 : 1;
    out->is_inner[PRODUCT] = !is_kept;
    return true;
}

void copse__end_set(const struct copse_fused *f, struct copse_product *p)
{
    const copse_tensor *y = f->at[PRODUCT], *user = f->at[USER];
    p->end = end_by(user, y);
    p->c = copse__of(user);
    if (p->end >= COPSE_END_SLOPE) {
        p->z = user->in[0];
    } else if (!f->is_inner[PRODUCT]) {
        p->end += COPSE_END_KEEPS - COPSE_END_VALUE;
        p->z = y;
    }
}

/* ---- laws ---- */

double copse__activate(int32_t activation, double x)
{
    switch (activation) {
    case COPSE_RELU:
        return x <= 0 ? 0 : x;
    case COPSE_SIGMOID:
        return 1 / (1 + exp(-x));
    case COPSE_TANH:
        return tanh(x);
    default:
        return x;
    }
}

double copse__end_at(const int32_t *spec, double sum, const struct copse_host_arg *bias,
                     size_t count, size_t i)
{
    const int32_t end = spec[1];
    if (end >= COPSE_END_SLOPE_BY_Y)
        return copse__activation_slope((copse_activation)FUNCTION(end), copse__load(bias, i), sum);
    if (end >= COPSE_END_SLOPE)
        return copse__unary_slope(FUNCTION(end), copse__load(bias, i), sum);
    if (end < COPSE_END_VALUE)
        return copse__activate(end, sum);
    return copse__end_keeps(spec) && i < count ? sum : copse__unary_value(FUNCTION(end), sum);
}

void copse__end_store(const int32_t *spec, double sum, const struct copse_host_arg *bias, size_t i)
{
    const struct copse_host_arg *z = bias + 1, *c = bias + 2;
    if (copse__end_keeps(spec))
        copse__store(z, i, sum);
    copse__store(c, i, copse__end_at(spec, sum, bias, 0, i));
}

uint32_t copse__end_results(const int32_t *spec)
{
    return copse__end_keeps(spec) ? 2 : 1;
}

/* Without a function, but with the same results. */
void copse__end_magnitudes(int32_t *spec)
{
    spec[1] = copse__end_keeps(spec) ? COPSE_END_KEEPS + UNARY_none : COPSE_LINEAR;
}

/* The function adds its own error, and multiplies the error of the sum by its slope. */
void copse__end_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    const int32_t end = spec[1];
    struct copse_unary_ulps of = { 0, 0 };
    (void)params;
    if (end < COPSE_END_VALUE)
        return;
    if (end < COPSE_END_SLOPE_BY_Y)
        copse__unary_ulps(FUNCTION(end), &of);
    else
        of.ulp_grad = copse__activation_slope_ulp((copse_activation)FUNCTION(end));
    limit->ulp += end >= COPSE_END_SLOPE ? of.ulp_grad : of.ulp;
    if (end >= COPSE_END_SLOPE && end < COPSE_END_SLOPE_BY_Y)
        limit->ratio += copse__slope_ratio(FUNCTION(end));
    limit->ratio *= COPSE_SUM_SLOPE;
}
