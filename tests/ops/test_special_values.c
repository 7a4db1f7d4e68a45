/* SPDX-License-Identifier: MIT */
/* NaN, infinities, zeros, overflow and ends of ranges: what each function gives, stated as numbers
   and checked in the reference and on every device found. */
#include <math.h>

#include "copse/ops/functions.h"
#include "tests/rig/conformance/op_harness.h"

#define MANY 16

typedef copse_tensor *build_fn(copse_graph *g, copse_tensor *const *in, const void *user);

/* Within `ulp`; 0 = exactly, where -0 is not taken for an expected 0. */
static void expect(const char *name, build_fn *build, const void *user, const double *x,
                   const double *want, uint32_t n, double ulp)
{
    double rounded[MANY], got[MANY], *in = rounded, *out = got;
    copse_graph *g;
    for (uint32_t k = 0; k < n; k++)
        rounded[k] = (float)x[k];
    OK(copse_graph_create(harness_context(), &g));
    copse_tensor *t = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(n));
    copse_tensor *y = build(g, &t, user);
    for (size_t d = 0; d <= harness_device_count(); d++) {
        const char *where = "reference";
        if (d == 0) {
            harness_in_double(g, &t, &in, 1, &y, 1, NULL, &out);
        } else {
            where = copse_device_describe(harness_device(d - 1))->id;
            harness_on_device(harness_device(d - 1), g, &t, &in, 1, &y, 1, NULL, &out);
        }
        for (uint32_t k = 0; k < copse__elements(y->shape); k++) {
            const double w = want[k], v = (float)got[k];
            const bool ok = isnan(w)   ? isnan(v)
                            : isinf(w) ? v == w
                                       : fabs(v - w) <= ulp * fabs(w) * 0x1p-23;
            if (!ok || (w == 0 && v == 0 && ulp == 0 && !signbit(w) && signbit(v)))
                fail_msg("%s(%g) on %s is %.9g, expected %.9g", name, x[k], where, v, w);
        }
    }
    copse_graph_release(&g);
}

#define UNARY(op, ...)                                                                         \
    static copse_tensor *build_##op(copse_graph *g, copse_tensor *const *in, const void *user) \
    {                                                                                          \
        (void)user;                                                                            \
        return copse_##op(g, in[0]);                                                           \
    }
#define SCALED(...)
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED

#define I INFINITY
#define N NAN
#define EXPECT(op, ulp, n, x, ...) \
    expect(#op, build_##op, NULL, (const double[])x, (const double[])__VA_ARGS__, n, ulp)
#define LIST(...)   \
    {               \
        __VA_ARGS__ \
    }

static void functions_of_one_tensor(void **state)
{
    (void)state;
    EXPECT(relu, 0, 6, LIST(N, I, -I, -0.0, 0, -1), { N, I, 0, 0, 0, 0 });
    EXPECT(neg, 0, 4, LIST(N, I, -I, 1), { N, -I, I, -1 });
    EXPECT(abs, 0, 4, LIST(N, I, -I, -0.0), { N, I, I, 0 });
    EXPECT(square, 0, 4, LIST(N, I, -I, 3e38), { N, I, I, I });
    EXPECT(sqrt, 1, 8, LIST(N, I, -1, 0, 4, 3.4028234e38, -I, 1e-38),
           { N, I, N, 0, 2, 1.8446743e19, N, 9.9999997e-20 });
    EXPECT(rsqrt, 3, 4, LIST(N, I, 0, 4), { N, 0, I, 0.5 });
    EXPECT(exp, 3, 8, LIST(N, I, -I, 0, 88.73, 88.72, -104, -87),
           { N, I, 0, 1, I, 3.3931805e38, 0, 1.6458115e-38 });
    EXPECT(log, 3, 8, LIST(N, I, -I, 0, -0.0, -1, 1, 3.4028234e38),
           { N, I, N, -I, -I, N, 0, 88.722839 });
    EXPECT(sigmoid, 5, 6, LIST(N, I, -I, 0, 100, -80), { N, 1, 0, 0.5, 1, 1.8048514e-35 });
    EXPECT(tanh, 5, 7, LIST(N, I, -I, 1e-7, -1e-7, 100, -100), { N, 1, -1, 1e-7, -1e-7, 1, -1 });
    EXPECT(softplus, 5, 6, LIST(N, I, -I, 100, 3e38, -80), { N, I, 0, 100, 3e38, 1.8048514e-35 });
    EXPECT(silu, 5, 6, LIST(N, I, -I, 3e38, -3e38, -80), { N, I, 0, 3e38, 0, -1.4438811e-33 });
    EXPECT(erf, 16, 6, LIST(N, I, -I, 1e-7, 4, -4),
           { N, 1, -1, 1.1283792e-7, 0.99999998458, -0.99999998458 });
    EXPECT(gelu, 16, 6, LIST(N, I, -I, 3e38, -3e38, -10), { N, I, 0, 3e38, 0, -7.6198530e-23 });
    EXPECT(gelu_tanh, 16, 6, LIST(N, I, -I, 3e38, -3e38, -8),
           { N, I, 0, 3e38, 0, -3.10778294e-21 });
    EXPECT(mish, 16, 6, LIST(N, I, -I, 3e38, -3e38, -80), { N, I, 0, 3e38, 0, -1.44388111e-33 });
    EXPECT(hard_sigmoid, 3, 7, LIST(N, I, -I, -3, 3, 0, -2.9999998),
           { N, 1, 0, 0, 1, 0.5, 3.97364299e-08 });
    EXPECT(hard_swish, 3, 7, LIST(N, I, -I, -3, 3, -1.5, 3e38), { N, I, 0, 0, 3, -0.375, 3e38 });
    EXPECT(selu, 4, 5, LIST(N, I, -I, 0, -1), { N, I, -1.75809934, 0, -1.11133074 });
}

/* Also of numbers of any size, and near the zeros. */
static void trigonometry(void **state)
{
    (void)state;
    EXPECT(sin, 5, 7, LIST(N, I, -I, 1e-7, -3.14159274, 1e22, -3e38),
           { N, N, N, 1e-7, 8.742278e-08, -0.734081535, -0.874904888 });
    EXPECT(cos, 5, 7, LIST(N, I, -I, 0, 1.57079637, 1e22, -3e38),
           { N, N, N, 1, -4.371139e-08, 0.679061337, -0.484294784 });
    EXPECT(tan, 16, 6, LIST(N, I, -I, 1e-7, 1.57079637, 1e22),
           { N, N, N, 1e-7, -22877332.4, -1.0810239 });
    EXPECT(asin, 5, 8, LIST(N, I, -I, 1, -1, 1.0000001, 0.999999, 1e-7),
           { N, N, N, 1.57079633, -1.57079633, N, 1.56937275, 1e-7 });
    EXPECT(acos, 5, 8, LIST(N, I, -I, 1, -1, 0, 0.999999, -2),
           { N, N, N, 0, 3.14159265, 1.57079633, 0.00142357236, N });
    EXPECT(atan, 5, 6, LIST(N, I, -I, 3e38, 1e-7, -1),
           { N, 1.57079633, -1.57079633, 1.57079633, 1e-7, -0.785398163 });
    EXPECT(sinh, 5, 7, LIST(N, I, -I, 89, -89, 1e-7, 90),
           { N, I, -I, 2.24480641e38, -2.24480641e38, 1e-7, I });
    EXPECT(cosh, 5, 6, LIST(N, I, -I, 0, -89, 90), { N, I, I, 1, 2.24480641e38, I });
    EXPECT(asinh, 5, 6, LIST(N, I, -I, 3e38, -1e-7, -1e10),
           { N, I, -I, 89.289993, -1e-7, -23.7189981 });
    EXPECT(acosh, 5, 7, LIST(N, I, -I, 1, 0.9999999, 3e38, 1.00000012),
           { N, I, N, 0, N, 89.289993, 0.000488281245 });
    EXPECT(atanh, 5, 7, LIST(N, I, -I, 1, -1, 1e-7, -0.999999),
           { N, N, N, I, -I, 1e-7, -7.24773283 });
}

/* dx for each pair of x and dy. */
static void expect_gradient(const char *name, build_fn *build, const void *user, const double *x,
                            const double *dy, const double *want, uint32_t n, double ulp)
{
    double rounded[2][MANY], got[MANY], *in[2] = { rounded[0], rounded[1] }, *out = got;
    copse_graph *g;
    copse_tensor *t[2], *y, *dx;
    for (uint32_t k = 0; k < n; k++) {
        rounded[0][k] = (float)x[k];
        rounded[1][k] = (float)dy[k];
    }
    OK(copse_graph_create(harness_context(), &g));
    t[0] = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(n));
    t[1] = copse_graph_input(g, "dy", COPSE_F32, COPSE_SHAPE(n));
    y = build(g, t, user);
    copse_gradients(g, y, t[1], t, 1, &dx);
    for (size_t d = 0; d <= harness_device_count(); d++) {
        if (d == 0)
            harness_in_double(g, t, in, 2, &dx, 1, NULL, &out);
        else
            harness_on_device(harness_device(d - 1), g, t, in, 2, &dx, 1, NULL, &out);
        for (uint32_t k = 0; k < n; k++) {
            const double w = want[k], v = (float)got[k];
            if (!(isnan(w) ? isnan(v) : isinf(w) ? v == w : fabs(v - w) <= ulp * fabs(w) * 0x1p-23))
                fail_msg("derivative of %s at %g, slope %g, on %s is %.9g, expected %.9g", name,
                         x[k], dy[k],
                         d == 0 ? "reference" : copse_device_describe(harness_device(d - 1))->id, v,
                         w);
        }
    }
    copse_graph_release(&g);
}

#define EXPECT_GRADIENT(op, ulp, n, x, dy, ...)                                   \
    expect_gradient(#op, build_##op, NULL, (const double[])x, (const double[])dy, \
                    (const double[])__VA_ARGS__, n, ulp)

/* dy f'(x), where f'(x) is a real number: infinity times a positive number is infinite also where
   that number is too small for f32, infinity times an exact zero is NaN. */
static void infinite_slopes(void **state)
{
    (void)state;
    EXPECT_GRADIENT(exp, 0, 6, LIST(-1, 0.3, -1000, I, -I, N), LIST(I, -I, I, I, I, I),
                    { I, -I, I, I, N, N });
    EXPECT_GRADIENT(sigmoid, 0, 5, LIST(0.3, -1, 3e38, I, -I), LIST(I, -I, I, I, I),
                    { I, -I, I, N, N });
    EXPECT_GRADIENT(tanh, 0, 5, LIST(0.3, -1, 3e38, I, -I), LIST(I, -I, I, I, I),
                    { I, -I, I, N, N });
    EXPECT_GRADIENT(softplus, 0, 5, LIST(0.3, -1, -3e38, I, -I), LIST(I, -I, I, I, I),
                    { I, -I, I, I, N });
    EXPECT_GRADIENT(silu, 0, 5, LIST(0.3, -1, -2, -3e38, -I), LIST(I, I, I, I, I),
                    { I, I, -I, -I, N });
    EXPECT_GRADIENT(gelu, 0, 6, LIST(0.3, -0.5, -2, -3e38, I, -I), LIST(I, I, I, I, I, I),
                    { I, I, -I, -I, I, N });
    EXPECT_GRADIENT(erf, 0, 5, LIST(0.3, -1, 3e38, I, -I), LIST(I, -I, I, I, I),
                    { I, -I, I, N, N });
    EXPECT_GRADIENT(sqrt, 0, 4, LIST(4, 0, I, -1), LIST(I, I, I, I), { I, I, N, N });
    EXPECT_GRADIENT(rsqrt, 0, 4, LIST(4, 0, 3e38, I), LIST(I, I, I, I), { -I, -I, -I, N });
    EXPECT_GRADIENT(exp, 0, 4, LIST(1000, I, -I, 100), LIST(0, 0, 0, 0), { 0, N, 0, 0 });
}

/* Representable products of numbers that are not. */
static void large_and_small_slopes(void **state)
{
    (void)state;
    EXPECT_GRADIENT(exp, 4, 4, LIST(-0.5, -150, 100, 170), LIST(3e38, 3e38, 1e-30, 1e-37),
                    { 1.81959198e38, 2.15252879e-27, 2.68811714e13, 6.76179381e36 });
    EXPECT_GRADIENT(sigmoid, 6, 2, LIST(-120, 0), LIST(3e38, 3e38), { 2.30029442e-14, 7.5e37 });
    EXPECT_GRADIENT(tanh, 6, 3, LIST(0, 0.001, 60), LIST(3e38, 3e38, 3e38),
                    { 3e38, 2.999997e38, 9.20117769e-14 });
    EXPECT_GRADIENT(silu, 6, 1, LIST(-120), LIST(3e38), { -2.73735036e-12 });
    EXPECT_GRADIENT(gelu, 16, 1, LIST(-15), LIST(3e38), { -2.4778064e-10 });
    EXPECT_GRADIENT(erf, 16, 2, LIST(0.25, -10), LIST(3.2e38, 3e38),
                    { 3.39204521e38, 1.25929687e-5 });
    EXPECT_GRADIENT(gelu_tanh, 16, 1, LIST(-10), LIST(3e38), { -827.291421 });
    EXPECT_GRADIENT(mish, 16, 1, LIST(-120), LIST(3e38), { -2.73735037e-12 });
    EXPECT_GRADIENT(selu, 5, 1, LIST(-120), LIST(3e38), { 4.04414611e-14 });
    EXPECT_GRADIENT(sinh, 6, 2, LIST(100, -100), LIST(2e-38, 2e-38), { 268811.716, 268811.716 });
    EXPECT_GRADIENT(cosh, 6, 2, LIST(100, -100), LIST(2e-38, 2e-38), { 268811.716, -268811.716 });
    EXPECT_GRADIENT(atan, 6, 1, LIST(2e19), LIST(3e38), { 0.750000004 });
    EXPECT_GRADIENT(asinh, 6, 1, LIST(2e19), LIST(3e38), { 1.50000001e+19 });
    EXPECT_GRADIENT(acosh, 16, 1, LIST(3e38), LIST(3e38), { 1 });
    EXPECT_GRADIENT(atanh, 6, 1, LIST(2e19), LIST(3e38), { -0.75 });
    EXPECT_GRADIENT(sqrt, 4, 1, LIST(1e-30), LIST(2e-38), { 1e-23 });
    EXPECT_GRADIENT(rsqrt, 6, 2, LIST(1e-20, 1e20), LIST(2e-38, 2e38), { -1e-8, -1e8 });
}

struct scaled {
    copse_tensor *(*one)(copse_graph *g, copse_tensor *x, float alpha);
    float alpha, beta;
};

static copse_tensor *build_scaled(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct scaled *s = user;
    return s->one ? s->one(g, in[0], s->alpha) : copse_clip(g, in[0], s->alpha, s->beta);
}

static void functions_with_settings(void **state)
{
    (void)state;
    static const double x[] = { N, I, -I, -2, 0, -0.0, 1, 4 };
    static const struct {
        const char *name;
        struct scaled s;
        double want[8], ulp;
    } rows[] = {
        { "leaky_relu", { copse_leaky_relu, 0.5f, 0 }, { N, I, -I, -1, 0, -0.0, 1, 4 }, 0 },
        { "elu", { copse_elu, 2.0f, 0 }, { N, I, -2, -1.7293295, 0, 0, 1, 4 }, 4 },
        { "clip", { NULL, -1, 3 }, { N, 3, -1, -1, 0, -0.0, 1, 3 }, 0 },
        { "pow 0", { copse_pow, 0, 0 }, { 1, 1, 1, 1, 1, 1, 1, 1 }, 0 },
        { "pow 2", { copse_pow, 2, 0 }, { N, I, I, 4, 0, 0, 1, 16 }, 2 },
        { "pow 3", { copse_pow, 3, 0 }, { N, I, -I, -8, 0, -0.0, 1, 64 }, 2 },
        { "pow -1", { copse_pow, -1, 0 }, { N, 0, 0, -0.5, I, -I, 1, 0.25 }, 2 },
        { "pow 0.5", { copse_pow, 0.5f, 0 }, { N, I, I, N, 0, 0, 1, 2 }, 2 },
        { "pow 1000", { copse_pow, 1000, 0 }, { N, I, I, I, 0, 0, 1, I }, 0 },
        { "pow -1e30", { copse_pow, -1e30f, 0 }, { N, 0, 0, 0, I, I, 1, 0 }, 0 },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        expect(rows[i].name, build_scaled, &rows[i].s, x, rows[i].want, 8, rows[i].ulp);
}

static void gradients_with_settings(void **state)
{
    (void)state;
    const struct scaled half = { copse_pow, -0.5f, 0 }, twenty = { copse_pow, 20, 0 },
                        elu = { copse_elu, 2, 0 };
    expect_gradient("pow -0.5", build_scaled, &half, (const double[]){ 1e-30, 1e30, 0, I, -1, 4 },
                    (const double[]){ 1e-30, 1e38, 1, I, 1, -I },
                    (const double[]){ -5e14, -5e-8, -I, N, N, I }, 6, 16);
    expect_gradient("pow 20", build_scaled, &twenty, (const double[]){ 100, -100, 0.01, 0, 0.01 },
                    (const double[]){ 1e-30, 1e-30, 1e38, I, I },
                    (const double[]){ 2e9, -2e9, 2e1, N, I }, 5, 16);
    expect_gradient("elu 2", build_scaled, &elu, (const double[]){ -5, -1, -I, -3e38, 1 },
                    (const double[]){ 3e38, I, I, I, -I },
                    (const double[]){ 4.0427682e36, I, N, I, -I }, 5, 4);
}

struct two {
    copse_tensor *(*build)(copse_graph *g, copse_tensor *a, copse_tensor *b);
    float b;
};

static copse_tensor *build_two(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct two *t = user;
    copse_tensor *b = copse_fill(g, COPSE_F32, COPSE_SCALAR, t->b);
    return t->build(g, in[0], b);
}

static void functions_of_two_tensors(void **state)
{
    (void)state;
    static const double x[] = { N, I, -I, 0, 1, -1, 5 };
    static const struct {
        const char *name;
        struct two t;
        double want[7];
    } rows[] = {
        { "maximum 0", { copse_maximum, 0 }, { N, I, 0, 0, 1, 0, 5 } },
        { "maximum NaN", { copse_maximum, N }, { N, N, N, N, N, N, N } },
        { "minimum 0", { copse_minimum, 0 }, { N, 0, -I, 0, 0, -1, 0 } },
        { "minimum NaN", { copse_minimum, N }, { N, N, N, N, N, N, N } },
        { "div 0", { copse_div, 0 }, { N, I, -I, N, I, -I, I } },
        { "equal 1", { copse_equal, 1 }, { 0, 0, 0, 0, 1, 0, 0 } },
        { "equal NaN", { copse_equal, N }, { 0, 0, 0, 0, 0, 0, 0 } },
        { "greater_equal 1", { copse_greater_equal, 1 }, { 0, 1, 0, 0, 1, 0, 1 } },
        { "less 1", { copse_less, 1 }, { 0, 0, 1, 1, 0, 1, 0 } },
    };
    for (size_t i = 0; i < COPSE_COUNT(rows); i++)
        expect(rows[i].name, build_two, &rows[i].t, x, rows[i].want, 7, 0);
}

static copse_tensor *build_max(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_max(g, in[0], NULL, 0, true);
}

static copse_tensor *build_mean(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_mean(g, in[0], NULL, 0, true);
}

static copse_tensor *build_argmax(copse_graph *g, copse_tensor *const *in, const void *user)
{
    (void)user;
    return copse_argmax(g, in[0], 0);
}

static void reductions(void **state)
{
    (void)state;
    expect("max", build_max, NULL, (double[]){ 1, N, 3 }, (double[]){ N }, 3, 0);
    expect("max", build_max, NULL, (double[]){ N, I, 3 }, (double[]){ N }, 3, 0);
    expect("max", build_max, NULL, (double[]){ 1, I, 3 }, (double[]){ I }, 3, 0);
    expect("max", build_max, NULL, (double[]){ -I, -I }, (double[]){ -I }, 2, 0);
    expect("max of nothing", build_max, NULL, (double[]){ 0 }, (double[]){ -I }, 0, 0);
    expect("mean of nothing", build_mean, NULL, (double[]){ 0 }, (double[]){ N }, 0, 0);
    expect("mean", build_mean, NULL, (double[]){ I, -I }, (double[]){ N }, 2, 0);
    expect("argmax", build_argmax, NULL, (double[]){ 1, N, 3, N }, (double[]){ 1 }, 4, 0);
    expect("argmax", build_argmax, NULL, (double[]){ -I, -I }, (double[]){ 0 }, 2, 0);
    expect("argmax", build_argmax, NULL, (double[]){ 1, 3, I, I }, (double[]){ 2 }, 4, 0);
    expect("argmax", build_argmax, NULL, (double[]){ 1, 3, 2, 3 }, (double[]){ 1 }, 4, 0);
}

static void logarithm_of_subnormals(void **state)
{
    (void)state;
    EXPECT(log, 3, 3, LIST(1e-40, 1.4012985e-45, 1.1754942e-38),
           { -92.103415, -103.27893, -87.336545 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_tensor),  cmocka_unit_test(functions_with_settings),
        cmocka_unit_test(functions_of_two_tensors), cmocka_unit_test(reductions),
        cmocka_unit_test(logarithm_of_subnormals),  cmocka_unit_test(trigonometry),
        cmocka_unit_test(infinite_slopes),          cmocka_unit_test(large_and_small_slopes),
        cmocka_unit_test(gradients_with_settings),
    };
    return cmocka_run_group_tests(tests, harness_open, harness_close);
}
