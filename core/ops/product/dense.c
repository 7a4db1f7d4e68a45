/* SPDX-License-Identifier: MIT */
/* Dense layer: a matrix product with fused bias and activation, and its derivative. */
#include "core/device/kernel/launch_split.h"
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/ops/product/precision.h"
#include "core/ops/product/product.h"
#include "core/ops/reduce/column_sum.h"
#include "core/ops/self_tests.h"

struct dense_attr {
    copse_activation activation; /* up to COPSE_TANH: the activations of the product's kernels */
};

static copse_status dense_infer(const copse_tensor *y, copse_shape *shape, copse_type *type)
{
    const copse_shape x = y->in[0]->shape, w = y->in[1]->shape;
    for (uint32_t i = 0; i < y->in_count; i++)
        if (!copse__type_is_smooth(y->in[i]->type))
            return copse__shape_error(y, "expected f32 operands");
    if (x.rank < 1 || w.rank != 2)
        return copse__shape_error(y, "expected x of rank 1 or more and w of rank 2");
    if (x.dims[x.rank - 1] != w.dims[0])
        return copse__shape_error(y, "expected w to have %u rows, the last size of x",
                                  (unsigned)x.dims[x.rank - 1]);
    if (y->in_count == 3 && (y->in[2]->shape.rank != 1 || y->in[2]->shape.dims[0] != w.dims[1]))
        return copse__shape_error(y, "expected a bias of %u elements, the columns of w",
                                  (unsigned)w.dims[1]);
    *shape = x;
    shape->dims[x.rank - 1] = w.dims[1];
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status dense_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct dense_attr *d = y->attr;
    const copse_shape s = y->shape, w = y->in[1]->shape;
    struct copse_product p = {
        .a = copse__of(y->in[0]),
        .b = copse__of(y->in[1]),
        .bias = y->in_count == 3 ? y->in[2] : NULL,
        .c = copse__of(y),
        .batch = 1,
        .m = 1,
        .n = w.dims[1],
        .k = w.dims[0],
        .activation = d->activation,
    };
    for (uint32_t i = 0; i + 1 < s.rank; i++)
        p.m *= s.dims[i];
    return copse__lower_product(l, &p);
}

/* ---- dz = dy f'(z), from y ---- */

static copse_status dense_grad_infer(const copse_tensor *dz, copse_shape *shape, copse_type *type)
{
    *shape = dz->in[0]->shape;
    *type = COPSE_F32;
    return COPSE_OK;
}

static copse_status dense_grad_lower(struct copse_lowering *l, const copse_tensor *dz)
{
    enum { PER = 32 }; /* elements per invocation */
    const struct dense_attr *d = dz->attr;
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
    const struct dense_attr *d = dz->attr;
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
    .attr_size = sizeof(struct dense_attr),
    .infer = dense_grad_infer,
    .gradient = dense_grad_gradient,
    .lower = dense_grad_lower,
};

copse_tensor *copse__activation_gradient(copse_graph *g, copse_activation activation,
                                         copse_tensor *y, copse_tensor *dy)
{
    const struct dense_attr d = { activation };
    return activation == COPSE_LINEAR ? dy : COPSE_NODE(g, &op_dense_grad, &d, y, dy);
}

/* ---- the derivative ---- */

static copse_tensor *dense_flatten(copse_graph *g, copse_tensor *x)
{
    const uint32_t last = x->shape.rank - 1;
    uint32_t rows = 1;
    if (copse__is_failed(x) || x->shape.rank == 2)
        return x;
    for (uint32_t i = 0; i < last; i++)
        rows *= x->shape.dims[i];
    return copse_reshape(g, x, COPSE_SHAPE(rows, x->shape.dims[last]));
}

static void dense_gradient(copse_graph *g, const copse_tensor *y, copse_tensor *dy,
                           copse_tensor **dx)
{
    const struct dense_attr *d = y->attr;
    copse_tensor *x = y->in[0], *w = y->in[1], *dz, *narrow, *x2, *flat;
    dz = copse__activation_gradient(g, d->activation, g->nodes.at[y->id], dy);
    dz = dense_flatten(g, dz);
    narrow = copse__narrow_slope(g, y, dz);
    /* The input is not needed after its product, and the derivative by the input is as large. */
    if (w->needs_gradient) {
        x2 = dense_flatten(g, x);
        dx[1] = copse_matmul(g, x2, narrow, true, false);
    }
    if (x->needs_gradient) {
        flat = copse_matmul(g, narrow, w, false, true);
        dx[0] = x->shape.rank == 2 ? flat : copse_reshape(g, flat, x->shape);
    }
    if (y->in_count == 3 && y->in[2]->needs_gradient)
        dx[2] = copse__column_sum(g, dz);
}

static const struct copse_op op_dense = {
    .name = "dense",
    .attr_size = sizeof(struct dense_attr),
    .infer = dense_infer,
    .gradient = dense_gradient,
    .lower = dense_lower,
    .takes_stored = true,
};

copse_tensor *copse_dense(copse_graph *g, copse_tensor *x, copse_tensor *w, copse_tensor *bias,
                          copse_activation activation)
{
    COPSE_LATCH(g, COPSE_CHECK_OPERANDS("dense", g, x, w));
    if ((int)activation < COPSE_LINEAR || activation > COPSE_SILU)
        return copse__refuse(g, COPSE_ERR_ARGUMENT, "dense: %d is no activation", (int)activation);
    const struct dense_attr d = { activation <= COPSE_TANH ? activation : COPSE_LINEAR };
    copse__product_operands(g, &x, &w);
    if (bias)
        COPSE_LATCH(g, COPSE_COMPUTE_IN_F32(g, &bias));
    copse_tensor *z =
        bias ? COPSE_NODE(g, &op_dense, &d, x, w, bias) : COPSE_NODE(g, &op_dense, &d, x, w);
    if (activation == COPSE_GELU)
        return copse_gelu(g, z);
    if (activation == COPSE_SILU)
        return copse_silu(g, z);
    return z;
}

/* ---- reference ---- */

static void dense_grad_host(const void *params, const int32_t *spec,
                            const struct copse_host_arg *args)
{
    const struct copse_params_dense_grad *p = params;
    for (size_t i = 0; i < p->n; i++) {
        const double y = copse__load(&args[0], i), dy = copse__load(&args[1], i);
        const double slope = spec[2] == COPSE_RELU      ? y > 0
                             : spec[2] == COPSE_SIGMOID ? y * (1 - y)
                             : spec[2] == COPSE_TANH    ? 1 - y * y
                                                        : 1;
        copse__store(&args[2], i, spec[2] == COPSE_RELU && slope == 0 ? 0 : dy * slope);
    }
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
static void dense_grad_limit(const void *params, const int32_t *spec, struct copse_limit *limit)
{
    (void)params;
    if (spec[2] == COPSE_RELU)
        limit->ulp = 0;
}

const struct copse_law copse_law_dense_grad = {
    .host = dense_grad_host,
    .split = copse__split_elements,
    .limit = { .ulp = 4 },
    .limit_of = dense_grad_limit,
    .self_test = dense_grad_test,
};
