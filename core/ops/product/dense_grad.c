/* SPDX-License-Identifier: MIT */
/* dz = dy f'(z) of the activation f of a dense layer or a convolution, from y = f(z). */
#include "core/device/kernel/launch_split.h"
#include "core/ops/ops.h"
#include "core/ops/product/product.h"
#include "core/ops/self_tests.h"

struct dense_grad_attr {
    copse_activation activation; /* up to COPSE_TANH */
};

static copse_status dense_grad_infer(const copse_tensor *dz, copse_shape *shape, copse_type *type)
{
    *shape = dz->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status dense_grad_lower(struct copse_lowering *l, const copse_tensor *dz)
{
    enum { PER = 32 }; /* elements per invocation */
    const struct dense_grad_attr *d = dz->attr;
    const struct copse_params_dense_grad p = { (uint32_t)copse__elements(dz->shape) };
    const int32_t spec[COPSE_MAX_SPECS] = { PER, copse__limits(l)->has_wide_vectors,
                                            (int32_t)d->activation };
    const uint64_t groups = copse__groups_for(l, COPSE_KERNEL_dense_grad, (p.n + PER - 1) / PER);
    return COPSE_LAUNCH(l, dense_grad, spec, p, groups, copse__of(dz->in[0]), copse__of(dz->in[1]),
                        copse__of(dz));
}

/* By dy it is the same node. By y it is w (1 - 2 y) of sigmoid and -2 w y of tanh, with w = dy times
   the slope of dz. */
static void dense_grad_gradient(copse_graph *g, const copse_tensor *dz, copse_tensor *slope,
                                copse_tensor **out)
{
    const struct dense_grad_attr *d = dz->attr;
    copse_tensor *y = dz->in[0], *dy = dz->in[1], *t, *one;
    if (dy->needs_gradient)
        out[1] = copse__activation_gradient(g, d->activation, y, slope);
    if (!y->needs_gradient || d->activation == COPSE_RELU)
        return;
    t = copse_multiply_by(g, y, -2);
    if (d->activation == COPSE_SIGMOID) {
        one = copse_scalar(g, 1);
        t = copse_add(g, t, one);
    }
    slope = copse_mul(g, slope, dy);
    out[0] = copse_mul(g, slope, t);
}

static const struct copse_op op_dense_grad = {
    .name = "dense_grad",
    .attr_size = sizeof(struct dense_grad_attr),
    .infer = dense_grad_infer,
    .gradient = dense_grad_gradient,
    .lower = dense_grad_lower,
};

copse_tensor *copse__activation_gradient(copse_graph *g, copse_activation activation,
                                         copse_tensor *y, copse_tensor *dy)
{
    const struct dense_grad_attr d = { activation };
    return activation == COPSE_LINEAR ? dy : COPSE_NODE(g, &op_dense_grad, &d, y, dy);
}

bool copse__is_activation_gradient(const copse_tensor *t, copse_activation *out)
{
    if (t->op != &op_dense_grad)
        return false;
    *out = ((const struct dense_grad_attr *)t->attr)->activation;
    return true;
}

/* ---- reference ---- */

double copse__activation_slope(copse_activation activation, double y, double dy)
{
    switch (activation) {
    case COPSE_RELU:
        return y > 0 ? dy : 0;
    case COPSE_SIGMOID:
        return dy * (y * (1 - y));
    case COPSE_TANH:
        return dy * (1 - y * y);
    default:
        return dy;
    }
}

static void dense_grad_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_dense_grad *p = params;
    for (size_t i = 0; i < p->n; i++)
        copse__store(&args[2], i,
                     copse__activation_slope((copse_activation)spec[2], copse__load(&args[0], i),
                                             copse__load(&args[1], i)));
}

/* ---- self-tests ---- */

static void dense_grad_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_dense_grad p = { COPSE_TEST_N };
    const uint64_t each = (uint64_t)COPSE_MAX(k->spec[0], 1);
    COPSE_SELF_TEST(t, p, copse__test_groups(k, (p.n + each - 1) / each), p.n, p.n, p.n);
    copse__test_quarters(t, 0);
}

/* ---- laws ---- */

/* The slope of relu chooses dy or 0. */
double copse__activation_slope_ulp(copse_activation activation)
{
    return activation == COPSE_RELU ? 0 : 4;
}

static void dense_grad_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    limit->ulp = copse__activation_slope_ulp((copse_activation)spec[2]);
}

const struct copse_law copse_law_dense_grad = {
    .host = dense_grad_host,
    .split = copse__split_elements,
    .limit = { .ulp = 4 },
    .limit_of = dense_grad_limit,
    .self_test = dense_grad_test,
};
