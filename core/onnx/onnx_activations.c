/* SPDX-License-Identifier: MIT */
/* Functions of each element that are compositions, or have settings. */
#include <math.h>

#include "copse/ops.h"
#include "copse/ops/functions.h"
#include "copse/ops/logic.h"
#include "core/onnx/onnx.h"

copse_tensor *copse__onnx_leaky_relu(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    return copse_leaky_relu(g, x, copse__onnx_float(n, "alpha", 0.01f));
}

copse_tensor *copse__onnx_elu(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    return copse_elu(g, x, copse__onnx_float(n, "alpha", 1.0f));
}

copse_tensor *copse__onnx_celu(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    const float a = copse__onnx_float(n, "alpha", 1.0f);
    return copse_multiply_by(g, copse_elu(g, copse_multiply_by(g, x, 1.0f / a), 1.0f), a);
}

copse_tensor *copse__onnx_selu(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    const float alpha = copse__onnx_float(n, "alpha", 1.67326319217681884765625f),
                gamma = copse__onnx_float(n, "gamma", 1.05070102214813232421875f);
    return copse_multiply_by(g, copse_elu(g, x, alpha), gamma);
}

copse_tensor *copse__onnx_hard_sigmoid(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    const float alpha = copse__onnx_float(n, "alpha", 0.2f),
                beta = copse__onnx_float(n, "beta", 0.5f);
    x = copse_add(g, copse_multiply_by(g, x, alpha), copse_scalar(g, (double)beta));
    return copse_clip(g, x, 0.0f, 1.0f);
}

copse_tensor *copse__onnx_thresholded_relu(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    copse_tensor *alpha = copse_scalar(g, (double)copse__onnx_float(n, "alpha", 1.0f));
    return copse_where(g, copse_greater(g, x, alpha), x, copse_scalar(g, 0));
}

copse_tensor *copse__onnx_shrink(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    const double bias = (double)copse__onnx_float(n, "bias", 0.0f),
                 at = (double)copse__onnx_float(n, "lambd", 0.5f);
    copse_tensor *up = copse_add(g, x, copse_scalar(g, bias)),
                 *down = copse_sub(g, x, copse_scalar(g, bias));
    copse_tensor *high =
        copse_where(g, copse_greater(g, x, copse_scalar(g, at)), down, copse_scalar(g, 0));
    return copse_where(g, copse_less(g, x, copse_scalar(g, -at)), up, high);
}

copse_tensor *copse__onnx_swish(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    const float alpha = copse__onnx_float(n, "alpha", 1.0f);
    if (alpha == 1.0f)
        return copse_silu(g, x);
    return copse_mul(g, x, copse_sigmoid(g, copse_multiply_by(g, x, alpha)));
}

copse_tensor *copse__onnx_gelu(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    return copse__onnx_text_is(n, "approximate", "none", "tanh") ? copse_gelu_tanh(g, x)
                                                                 : copse_gelu(g, x);
}

copse_tensor *copse__onnx_softsign(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    (void)n;
    return copse_div(g, x, copse_add(g, copse_abs(g, x), copse_scalar(g, 1)));
}

copse_tensor *copse__onnx_reciprocal(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    (void)n;
    return copse_div(g, copse_scalar(g, 1), x);
}

copse_tensor *copse__onnx_sign(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    (void)n;
    return copse_sub(g, copse_greater(g, x, copse_scalar(g, 0)),
                     copse_less(g, x, copse_scalar(g, 0)));
}

/* Numbers from 2^23 on are whole. */
static copse_tensor *whole_below(copse_graph *g, copse_tensor *x, copse_tensor *y)
{
    return copse_where(g, copse_less(g, copse_abs(g, x), copse_scalar(g, 8388608)), y, x);
}

static copse_tensor *drop_fraction(copse_graph *g, copse_tensor *x)
{
    return copse_cast(g, copse_cast(g, x, COPSE_I32), COPSE_F32);
}

static copse_tensor *floor_small(copse_graph *g, copse_tensor *x)
{
    copse_tensor *t = drop_fraction(g, x);
    return copse_sub(g, t, copse_less(g, x, t));
}

copse_tensor *copse__onnx_floor(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    (void)n;
    return whole_below(g, x, floor_small(g, x));
}

copse_tensor *copse__onnx_ceil(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    (void)n;
    copse_tensor *t = drop_fraction(g, x);
    return whole_below(g, x, copse_add(g, t, copse_less(g, t, x)));
}

/* To the nearest whole number, halves to the even one. */
copse_tensor *copse__onnx_round(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    (void)n;
    copse_tensor *low = floor_small(g, x), *rest = copse_sub(g, x, low);
    copse_tensor *pairs = floor_small(g, copse_multiply_by(g, low, 0.5f));
    copse_tensor *is_odd = copse_sub(g, low, copse_multiply_by(g, pairs, 2.0f));
    copse_tensor *is_half = copse_equal(g, rest, copse_scalar(g, 0.5)),
                 *is_more = copse_greater(g, rest, copse_scalar(g, 0.5));
    copse_tensor *y = copse_add(g, low, copse_add(g, is_more, copse_mul(g, is_half, is_odd)));
    return whole_below(g, x, y);
}

copse_tensor *copse__onnx_is_nan(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    (void)n;
    return copse_not_equal(g, x, x);
}

copse_tensor *copse__onnx_is_inf(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    const float plus = (float)copse__onnx_int(n, "detect_positive", 1),
                minus = (float)copse__onnx_int(n, "detect_negative", 1);
    copse_tensor *high = copse_equal(g, x, copse_scalar(g, INFINITY)),
                 *low = copse_equal(g, x, copse_scalar(g, -INFINITY));
    return copse_add(g, copse_multiply_by(g, high, plus), copse_multiply_by(g, low, minus));
}

copse_tensor *copse__onnx_binarizer(copse_graph *g, copse_tensor *x, const onnx_node *n)
{
    return copse_greater(g, x, copse_scalar(g, (double)copse__onnx_float(n, "threshold", 0.0f)));
}
