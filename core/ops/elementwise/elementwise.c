/* SPDX-License-Identifier: MIT */
/* Functions of one tensor. kernels/elementwise/unary.def defines them; this file makes ops, public
   functions and references from its rows. */
#include <math.h>

#include "copse/ops/functions.h"
#include "core/device/kernel/launch_split.h"
#include "core/ops/elementwise/elementwise_chain.h"
#include "core/ops/elementwise/unary.h"
#include "core/ops/ops.h"
#include "core/ops/self_tests.h"

static const struct copse_op op_relu;

/* relu has the sign of x, so that its derivative reads the result, which the next op often keeps,
   too. */
static void unary_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                           copse_tensor **dx)
{
    dx[0] = copse__unary_grad(g, y->attr, y->op == &op_relu ? g->nodes.at[y->id] : y->in[0], dy);
}

#define UNARY(op, ...)                                \
    static const struct copse_op op_##op = {          \
        .name = #op,                                  \
        .attr_size = sizeof(struct copse_unary_attr), \
        .infer = copse__unary_infer,                  \
        .gradient = unary_gradient,                   \
        .lower = copse__unary_lower,                  \
        .fuse = copse__chain_fuse,                    \
        .lower_fused = copse__chain_lower,            \
        .chain = COPSE_CHAIN_UNARY,                   \
    };
#define SCALED(op, ...) UNARY(op, 0)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED

#define UNARY(op, number, ...)                                    \
    copse_tensor *copse_##op(copse_graph *g, copse_tensor *x)     \
    {                                                             \
        const struct copse_unary_attr a = { number, 0.0f, 0.0f }; \
        return COPSE_NODE(g, &op_##op, &a, x);                    \
    }
#define SCALED(op, number, ...)                                                                \
    static copse_tensor *scaled_##op(copse_graph *g, copse_tensor *x, float alpha, float beta) \
    {                                                                                          \
        const struct copse_unary_attr a = { number, alpha, beta };                             \
        COPSE_LATCH(g, COPSE_CHECK_OPERANDS(#op, g, x));                                       \
        if (isnan(alpha) || isnan(beta))                                                       \
            return copse__refuse(g, COPSE_ERR_ARGUMENT, #op ": a setting is NaN");             \
        return COPSE_NODE(g, &op_##op, &a, x);                                                 \
    }
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED

bool copse__is_relu(const copse_tensor *t)
{
    return t->op == &op_relu;
}

copse_tensor *copse_leaky_relu(copse_graph *g, copse_tensor *x, float slope)
{
    return scaled_leaky_relu(g, x, slope, 0.0f);
}

copse_tensor *copse_elu(copse_graph *g, copse_tensor *x, float alpha)
{
    return scaled_elu(g, x, alpha, 0.0f);
}

copse_tensor *copse_pow(copse_graph *g, copse_tensor *x, float exponent)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("pow", g, x));
    if (!isfinite(exponent))
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "pow: the exponent must be finite");
    return scaled_pow(g, x, exponent, 0.0f);
}

copse_tensor *copse_clip(copse_graph *g, copse_tensor *x, float low, float high)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("clip", g, x));
    if (low > high)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "clip: low %g is above high %g", (double)low,
                             (double)high);
    return scaled_clip(g, x, low, high);
}

copse_tensor *copse_multiply_by(copse_graph *g, copse_tensor *x, float factor)
{
    return scaled_multiply_by(g, x, factor, 0.0f);
}

copse_tensor *copse__divide_by(copse_graph *g, copse_tensor *x, float divisor)
{
    return scaled_divide_by(g, x, divisor, 0.0f);
}

copse_tensor *copse__huber(copse_graph *g, copse_tensor *x, float delta)
{
    return scaled_huber(g, x, delta, 0.0f);
}

/* ---- references ---- */

/* A finite x, limited to +-most, so that functions of it do not overflow or vanish in double. dy
   times such a derivative overflows or vanishes in single precision, as it does for x itself. */
static double within(double x, double most)
{
    return fabs(x) > most && isfinite(x) ? copysign(most, x) : x;
}

/* x sigmoid(u) is gelu with tanh. */
static double gelu_tanh_u(double x)
{
    return 1.5957691216057308 * x * (1 + 0.044715 * x * x);
}

static double gelu_tanh(double x)
{
    return x < -1000 ? 0 : x / (1 + exp(-gelu_tanh_u(x)));
}

static double gelu_tanh_slope(double x)
{
    if (isinf(x))
        return x > 0;
    const double w = within(x, 16), u = gelu_tanh_u(w),
                 du = 1.5957691216057308 * (1 + 3 * 0.044715 * w * w);
    return (1 + w * du / (1 + exp(u))) / (1 + exp(-u));
}

/* x tanh(log(1 + e^x)) = x n / (n + 2) */
static double mish(double x)
{
    const double e = exp(x), n = e * (e + 2);
    return x < -1000 ? 0 : x > 100 ? x : x * n / (n + 2);
}

static double mish_slope(double x)
{
    if (isinf(x))
        return x > 0;
    const double w = within(x, 300), e = exp(w), n = e * (e + 2);
    return n / (n + 2) + w * (2 / (n + 2)) * ((2 * n + 2) / (n + 2)) * (e / (1 + e));
}

static double power(double x, double a)
{
    const double y = pow(x, a);
    if (x == 0 || !isfinite(x) || isnan(y))
        return y;
    return copysign(fmin(fmax(fabs(y), 1e-250), 1e250), y);
}

static void unary_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_unary *p = params;
    const double alpha = p->alpha, beta = p->beta;
    switch (spec[0]) {
#define UNARY(op, number, f, g, reference, ...)        \
    case number:                                       \
        for (size_t i = 0; i < p->n; i++) {            \
            const double x = copse__load(&args[0], i); \
            copse__store(&args[1], i, (reference));    \
        }                                              \
        break;
#define SCALED UNARY
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
    }
}

/* An exact derivative chooses dy or 0: where it is 0, the result is 0 for every dy, also for
   NaN. */
static double elementwise_along(double dy, double slope, double ulp)
{
    return slope == 0 && !(ulp > 0) ? 0 : dy * slope;
}

static void unary_grad_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_unary_grad *p = params;
    const double alpha = p->alpha, beta = p->beta;
    switch (spec[0]) {
#define UNARY(op, number, f, g, reference, slope, low, high, ulp, ulp_g, class)        \
    case number:                                                                       \
        for (size_t i = 0; i < p->n; i++) {                                            \
            const double x = copse__load(&args[0], i);                                 \
            (void)x;                                                                   \
            copse__store(&args[2], i,                                                  \
                         elementwise_along(copse__load(&args[1], i), (slope), ulp_g)); \
        }                                                                              \
        break;
#define SCALED UNARY
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
    }
}

double copse__unary_value(int32_t number, double x)
{
    const struct copse_params_unary p = { 1, 0, 0 };
    double y = x;
    const struct copse_host_arg args[] = { { &x, 1, true }, { &y, 1, true } };
    unary_host(&p, &number, args);
    return y;
}

double copse__unary_slope(int32_t number, double x, double dy)
{
    const struct copse_params_unary_grad p = { 1, 0, 0 };
    double dx = dy;
    const struct copse_host_arg args[] = { { &x, 1, true }, { &dy, 1, true }, { &dx, 1, true } };
    unary_grad_host(&p, &number, args);
    return dx;
}

/* ---- self-tests ---- */

static float unary_slack(int32_t op, bool is_gradient)
{
    switch (op) {
#define UNARY(name, number, f, g, reference, slope, low, high, ulp, ulp_g, class) \
    case number:                                                                  \
        return copse__test_slack(is_gradient ? ulp_g : ulp);
#define SCALED UNARY
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
    }
    return COPSE_SELF_TEST_SLACK;
}

static void unary_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_unary p = { COPSE_TEST_N, 0.5f, 1.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, p.n);
    t->slack = unary_slack(k->spec[0], false);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 0);
}

static void unary_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_unary_grad p = { COPSE_TEST_N, 0.5f, 1.0f };
    COPSE_SELF_TEST(t, p, copse__test_groups(k, p.n), p.n, p.n, p.n);
    t->slack = unary_slack(k->spec[0], true);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 0);
}

/* The first parameters are those of the kernels for all devices. */
static void unary_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_unary_wide p = { COPSE_TEST_N, 0.5f, 1.0f, 48 };
    COPSE_SELF_TEST(t, p, 3, p.n, p.n);
    t->slack = unary_slack(k->spec[0], false);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 0);
}

static void unary_grad_wide_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_unary_grad_wide p = { COPSE_TEST_N, 0.5f, 1.0f, 48 };
    COPSE_SELF_TEST(t, p, 3, p.n, p.n, p.n);
    t->slack = unary_slack(k->spec[0], true);
    if (t->slack > 0.0f)
        copse__test_quarters(t, 0);
}

/* ---- bases of tolerances ---- */

enum {
#define UNARY(name, number, ...)  UNARY_##name = number,
#define SCALED(name, number, ...) UNARY_##name = number,
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};

/* f'(x) = share + x bell, where the derivative is 0 between numbers. False: it is not. */
static bool slope_terms(int32_t op, double x, double *share, double *bell)
{
    const double u = 1.5957691216057308 * x * (1 + 0.044715 * x * x), e = exp(x > 300 ? 300 : x),
                 n = e * (e + 2);
    switch (op) {
    case UNARY_gelu:
        *share = 0.5 * erfc(-x * 0.70710678118654752);
        *bell = exp(-0.5 * x * x) * 0.39894228040143268;
        return true;
    case UNARY_gelu_tanh:
        *share = 1 / (1 + exp(-u));
        *bell = *share / (1 + exp(u)) * 1.5957691216057308 * (1 + 3 * 0.044715 * x * x);
        return true;
    case UNARY_mish:
        *share = n / (n + 2);
        *bell = (2 / (n + 2)) * ((2 * n + 2) / (n + 2)) * (e / (1 + e));
        return true;
    case UNARY_silu:
        *share = 1 / (1 + exp(-x));
        *bell = *share / (1 + exp(x));
        return true;
    default:
        return false;
    }
}

double copse__slope_size(int32_t number, double x)
{
    double share, bell;
    return slope_terms(number, x, &share, &bell) ? share + fabs(x) * bell : 0;
}

/* |dy| times the sum of the magnitudes of the terms of f'(x). */
static void unary_grad_size(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_unary_grad *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i,
                     fabs(copse__load(&args[1], i)) *
                         copse__slope_size(spec[0], copse__load(&args[0], i)));
}

/* ---- laws ---- */

static const struct {
    int32_t number;
    struct copse_unary_ulps of;
} ulps[] = {
#define UNARY(name, number, f, g, ref, ref_g, low, high, ulp, ulp_g, class) \
    { number, { ulp, ulp_g } },
#define SCALED UNARY
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};

bool copse__unary_ulps(int32_t number, struct copse_unary_ulps *out)
{
    for (size_t i = 0; i < COPSE_COUNT(ulps); i++)
        if (ulps[i].number == number) {
            *out = ulps[i].of;
            return true;
        }
    return false;
}

static void unary_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    struct copse_unary_ulps of;
    (void)params;
    if (copse__unary_ulps(spec[0], &of))
        limit->ulp = of.ulp;
}

/* Half of the ULPs are relative to the terms of a slope that is 0 between numbers. */
double copse__slope_ratio(int32_t number)
{
    struct copse_unary_ulps of;
    double share, bell;
    return slope_terms(number, 0, &share, &bell) && copse__unary_ulps(number, &of) ? of.ulp_grad / 2
                                                                                   : 0;
}

static void unary_grad_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    struct copse_unary_ulps of;
    (void)params;
    if (copse__unary_ulps(spec[0], &of))
        limit->ulp = of.ulp_grad;
    limit->ratio = copse__slope_ratio(spec[0]);
}

const struct copse_law copse_law_unary = {
    .host = unary_host,
    .split = copse__split_elements,
    .limit = { .ulp = 1 },
    .limit_of = unary_limit,
    .self_test = unary_test,
};
const struct copse_law copse_law_unary_wide = {
    .host = unary_host,
    .split = copse__split_elements,
    .limit = { .ulp = 1 },
    .limit_of = unary_limit,
    .self_test = unary_wide_test,
};
const struct copse_law copse_law_unary_grad = {
    .host = unary_grad_host,
    .split = copse__split_elements,
    .limit = { .ulp = 1, .size = unary_grad_size },
    .limit_of = unary_grad_limit,
    .self_test = unary_grad_test,
};
const struct copse_law copse_law_unary_grad_wide = {
    .host = unary_grad_host,
    .split = copse__split_elements,
    .limit = { .ulp = 1, .size = unary_grad_size },
    .limit_of = unary_grad_limit,
    .self_test = unary_grad_wide_test,
};
