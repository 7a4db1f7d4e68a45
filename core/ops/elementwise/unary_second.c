/* SPDX-License-Identifier: MIT */
/* The derivative of dx = dy f'(x), for each row f of kernels/elementwise/unary.def. By dy it is the
   same node; by x it is w f''(x) with w = dy times the slope of dx, made of derivatives of rows. */
#include "copse/ops/functions.h"
#include "copse/ops/logic.h"
#include "core/ops/elementwise/unary.h"
#include "core/ops/ops.h"

enum {
#define UNARY(name, number, ...)  UNARY_##name = number,
#define SCALED(name, number, ...) UNARY_##name = number,
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};

/* Adds w f''(x). */
typedef copse_tensor *curve(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                            copse_tensor *w);

/* dy times the derivative of row `id` at x. */
static copse_tensor *slope_at(copse_graph *g, int32_t id, float alpha, copse_tensor *x,
                              copse_tensor *dy)
{
    const struct copse_unary_attr f = { id, alpha, 0.0f };
    return copse__unary_grad(g, &f, x, dy);
}

/* factor w f'(x) */
static copse_tensor *scaled_slope(copse_graph *g, int32_t id, float alpha, copse_tensor *x,
                                  copse_tensor *w, float factor)
{
    if (factor != 1.0f)
        w = copse_multiply_by(g, w, factor);
    return slope_at(g, id, alpha, x, w);
}

/* factor w t f'(x) */
static copse_tensor *weighted_slope(copse_graph *g, int32_t id, copse_tensor *x, copse_tensor *w,
                                    copse_tensor *t, float factor)
{
    w = copse_mul(g, w, t);
    return scaled_slope(g, id, 0.0f, x, w, factor);
}

/* x where f'(x) is not 0, and finite elsewhere: a polynomial of it times 0 is 0. */
static copse_tensor *kept_finite(copse_graph *g, copse_tensor *x, float most)
{
    return copse_clip(g, x, -most, most);
}

static copse_tensor *plus_number(copse_graph *g, copse_tensor *x, double number)
{
    copse_tensor *t = copse_scalar(g, number);
    return copse_add(g, x, t);
}

/* (1 - x)(1 + x) */
static copse_tensor *inside_circle(copse_graph *g, copse_tensor *x)
{
    copse_tensor *one = copse_scalar(g, 1);
    copse_tensor *below = copse_sub(g, one, x);
    copse_tensor *above = copse_add(g, one, x);
    return copse_mul(g, below, above);
}

/* 2 x / (1 + x^2), finite for every x */
static copse_tensor *double_angle(copse_graph *g, copse_tensor *x)
{
    copse_tensor *angle = copse_atan(g, x);
    angle = copse_multiply_by(g, angle, 2);
    return copse_sin(g, angle);
}

/* 2 sigmoid(x) - 1 */
static copse_tensor *half_tanh(copse_graph *g, copse_tensor *x)
{
    x = copse_multiply_by(g, x, 0.5f);
    return copse_tanh(g, x);
}

/* ---- the rows ---- */

static copse_tensor *curve_square(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                  copse_tensor *w)
{
    (void)f, (void)x;
    return copse_multiply_by(g, w, 2);
}

/* f' = rsqrt / 2 */
static copse_tensor *curve_sqrt(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                copse_tensor *w)
{
    (void)f;
    return scaled_slope(g, UNARY_rsqrt, 0, x, w, 0.5f);
}

static copse_tensor *curve_rsqrt(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                 copse_tensor *w)
{
    (void)f;
    return scaled_slope(g, UNARY_pow, -1.5f, x, w, -0.5f);
}

static copse_tensor *curve_exp(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    (void)f;
    return slope_at(g, UNARY_exp, 0, x, w);
}

static copse_tensor *curve_log(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    (void)f;
    return slope_at(g, UNARY_pow, -1, x, w);
}

/* f'' = f' (1 - 2 f) */
static copse_tensor *curve_sigmoid(copse_graph *g, const struct copse_unary_attr *f,
                                   copse_tensor *x, copse_tensor *w)
{
    (void)f;
    copse_tensor *t = half_tanh(g, x);
    return weighted_slope(g, UNARY_sigmoid, x, w, t, -1);
}

static copse_tensor *curve_tanh(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                copse_tensor *w)
{
    (void)f;
    copse_tensor *t = copse_tanh(g, x);
    return weighted_slope(g, UNARY_tanh, x, w, t, -2);
}

static copse_tensor *curve_softplus(copse_graph *g, const struct copse_unary_attr *f,
                                    copse_tensor *x, copse_tensor *w)
{
    (void)f;
    return slope_at(g, UNARY_sigmoid, 0, x, w);
}

/* sigmoid' (2 - x tanh(x / 2)) */
static copse_tensor *curve_silu(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                copse_tensor *w)
{
    (void)f;
    copse_tensor *near = kept_finite(g, x, 200);
    copse_tensor *t = half_tanh(g, near);
    t = copse_mul(g, near, t);
    t = plus_number(g, t, -2);
    return weighted_slope(g, UNARY_sigmoid, x, w, t, -1);
}

/* phi (2 - x^2), where phi(x) = erf'(x / sqrt 2) / sqrt 8 */
static copse_tensor *curve_gelu(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                copse_tensor *w)
{
    (void)f;
    copse_tensor *t = kept_finite(g, x, 40);
    t = copse_square(g, t);
    t = plus_number(g, t, -2);
    x = copse_multiply_by(g, x, 0.70710678f);
    return weighted_slope(g, UNARY_erf, x, w, t, -0.35355339f);
}

/* An exponential below 0, a straight line above. */
static copse_tensor *curve_elu(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    copse_tensor *zero = copse_scalar(g, 0);
    copse_tensor *above = copse_greater(g, x, zero);
    w = copse__unary_grad(g, f, x, w);
    return copse_where(g, above, zero, w);
}

/* a x^(a - 1); of a = 0 zero, at x = 0 too */
static copse_tensor *curve_pow(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    return f->alpha == 0 ? NULL : scaled_slope(g, UNARY_pow, f->alpha - 1, x, w, f->alpha);
}

static copse_tensor *curve_erf(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    (void)f;
    copse_tensor *t = kept_finite(g, x, 40);
    return weighted_slope(g, UNARY_erf, x, w, t, -2);
}

static copse_tensor *curve_sin(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    (void)f;
    return slope_at(g, UNARY_cos, 0, x, w);
}

static copse_tensor *curve_cos(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    (void)f;
    return scaled_slope(g, UNARY_sin, 0, x, w, -1);
}

static copse_tensor *curve_tan(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                               copse_tensor *w)
{
    (void)f;
    copse_tensor *t = copse_tan(g, x);
    return weighted_slope(g, UNARY_tan, x, w, t, 2);
}

/* f' x / (1 - x^2): asin, acos and acosh; twice as much: atanh */
static copse_tensor *curve_in_circle(copse_graph *g, const struct copse_unary_attr *f,
                                     copse_tensor *x, copse_tensor *w)
{
    copse_tensor *t = inside_circle(g, x);
    t = copse_div(g, x, t);
    return weighted_slope(g, f->id, x, w, t, f->id == UNARY_atanh ? 2 : 1);
}

/* -f' 2 x / (1 + x^2): atan; half of it: asinh */
static copse_tensor *curve_of_line(copse_graph *g, const struct copse_unary_attr *f,
                                   copse_tensor *x, copse_tensor *w)
{
    copse_tensor *t = double_angle(g, x);
    return weighted_slope(g, f->id, x, w, t, f->id == UNARY_asinh ? -0.5f : -1);
}

static copse_tensor *curve_sinh(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                copse_tensor *w)
{
    (void)f;
    return slope_at(g, UNARY_cosh, 0, x, w);
}

static copse_tensor *curve_cosh(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                copse_tensor *w)
{
    (void)f;
    return slope_at(g, UNARY_sinh, 0, x, w);
}

/* x sigmoid(u) with u = c x (1 + k x^2): sigmoid'(u) (2 u' + x u'' - x u'^2 tanh(u / 2)) */
static copse_tensor *curve_gelu_tanh(copse_graph *g, const struct copse_unary_attr *f,
                                     copse_tensor *x, copse_tensor *w)
{
    const double c = 1.5957691216057308, k = 0.044715;
    (void)f;
    copse_tensor *u = copse_square(g, x);
    u = copse_multiply_by(g, u, (float)(c * k));
    u = plus_number(g, u, c);
    u = copse_mul(g, x, u);
    x = kept_finite(g, x, 40);
    copse_tensor *square = copse_square(g, x);
    copse_tensor *du = copse_multiply_by(g, square, (float)(3 * c * k));
    du = plus_number(g, du, c);
    copse_tensor *t = half_tanh(g, u);
    t = copse_mul(g, t, x);
    t = copse_mul(g, t, du);
    t = plus_number(g, t, -2);
    t = copse_mul(g, t, du);
    square = copse_multiply_by(g, square, (float)(6 * c * k));
    t = copse_sub(g, t, square);
    return weighted_slope(g, UNARY_sigmoid, u, w, t, -1);
}

/* x tanh(p) with p = softplus(x), p' = s: s tanh'(p) (2 + x (1 - s - 2 s tanh(p))) */
static copse_tensor *curve_mish(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                copse_tensor *w)
{
    (void)f;
    copse_tensor *near = kept_finite(g, x, 200);
    copse_tensor *p = copse_softplus(g, x);
    copse_tensor *s = copse_sigmoid(g, near);
    copse_tensor *t = copse_tanh(g, p);
    t = copse_multiply_by(g, t, 2);
    t = plus_number(g, t, 1);
    t = copse_mul(g, t, s);
    t = plus_number(g, t, -1);
    t = copse_mul(g, t, near);
    t = plus_number(g, t, -2);
    w = weighted_slope(g, UNARY_tanh, p, w, t, -1);
    return slope_at(g, UNARY_softplus, 0, x, w);
}

static copse_tensor *curve_hard_swish(copse_graph *g, const struct copse_unary_attr *f,
                                      copse_tensor *x, copse_tensor *w)
{
    const struct copse_unary_attr inner = { UNARY_clip, -3, 3 };
    (void)f;
    w = copse__divide_by(g, w, 3);
    return copse__unary_grad(g, &inner, x, w);
}

/* f' = clip(x, -delta, delta) */
static copse_tensor *curve_huber(copse_graph *g, const struct copse_unary_attr *f, copse_tensor *x,
                                 copse_tensor *w)
{
    const struct copse_unary_attr inner = { UNARY_clip, -f->alpha, f->alpha };
    return copse__unary_grad(g, &inner, x, w);
}

/* Every row of unary.def: f'' is 0 almost everywhere, or a function adds w f''(x). */
static const struct {
    bool is_straight;
    curve *of;
} curves[] = {
    [UNARY_neg] = { true, NULL },
    [UNARY_abs] = { true, NULL },
    [UNARY_square] = { false, curve_square },
    [UNARY_sqrt] = { false, curve_sqrt },
    [UNARY_rsqrt] = { false, curve_rsqrt },
    [UNARY_exp] = { false, curve_exp },
    [UNARY_log] = { false, curve_log },
    [UNARY_relu] = { true, NULL },
    [UNARY_sigmoid] = { false, curve_sigmoid },
    [UNARY_tanh] = { false, curve_tanh },
    [UNARY_softplus] = { false, curve_softplus },
    [UNARY_silu] = { false, curve_silu },
    [UNARY_gelu] = { false, curve_gelu },
    [UNARY_leaky_relu] = { true, NULL },
    [UNARY_elu] = { false, curve_elu },
    [UNARY_pow] = { false, curve_pow },
    [UNARY_clip] = { true, NULL },
    [UNARY_multiply_by] = { true, NULL },
    [UNARY_divide_by] = { true, NULL },
    [UNARY_erf] = { false, curve_erf },
    [UNARY_sin] = { false, curve_sin },
    [UNARY_cos] = { false, curve_cos },
    [UNARY_tan] = { false, curve_tan },
    [UNARY_asin] = { false, curve_in_circle },
    [UNARY_acos] = { false, curve_in_circle },
    [UNARY_atan] = { false, curve_of_line },
    [UNARY_sinh] = { false, curve_sinh },
    [UNARY_cosh] = { false, curve_cosh },
    [UNARY_asinh] = { false, curve_of_line },
    [UNARY_acosh] = { false, curve_in_circle },
    [UNARY_atanh] = { false, curve_in_circle },
    [UNARY_gelu_tanh] = { false, curve_gelu_tanh },
    [UNARY_mish] = { false, curve_mish },
    [UNARY_hard_sigmoid] = { true, NULL },
    [UNARY_hard_swish] = { false, curve_hard_swish },
    [UNARY_selu] = { false, curve_elu },
    [UNARY_huber] = { false, curve_huber },
};

static void unary_second(copse_graph *g, const copse_tensor *dx, copse_tensor *slope,
                         copse_tensor **out)
{
    const struct copse_unary_attr *f = dx->attr;
    copse_tensor *x = dx->in[0], *dy = dx->in[1];
    const size_t row = (size_t)f->id;
    if (dy->needs_gradient)
        out[1] = copse__unary_grad(g, f, x, slope);
    if (!x->needs_gradient || (row < COPSE_COUNT(curves) && curves[row].is_straight))
        return;
    if (row >= COPSE_COUNT(curves) || !curves[row].of) {
        (void)copse__refuse(g, COPSE_ERR_UNSUPPORTED,
                            "gradient: the derivative of row %d of unary.def has no derivative: "
                            "add a line to the table `curves` of unary_second.c",
                            (int)f->id);
        return;
    }
    copse_tensor *w = copse_mul(g, slope, dy);
    out[0] = curves[row].of(g, f, x, w);
}

const struct copse_second copse_second_unary = { &copse_op_unary_grad, unary_second };
