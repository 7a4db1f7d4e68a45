/* SPDX-License-Identifier: MIT */
/* Dense layer: a matrix product with fused bias and activation. */
#include "core/graph/type.h"
#include "core/ops/ops.h"
#include "core/ops/product/precision.h"
#include "core/ops/product/product_end.h"
#include "core/ops/reduce/column_sum.h"

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

static struct copse_product dense_product(const copse_tensor *y)
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
    return p;
}

static copse_status dense_lower(struct copse_lowering *l, const copse_tensor *y)
{
    const struct copse_product p = dense_product(y);
    return copse__lower_product(l, &p);
}

static bool dense_fuse(struct copse_lowering *l, const copse_tensor *y, uint32_t turn,
                       struct copse_fused *out)
{
    const struct copse_product p = dense_product(y);
    return copse__end_fuse(l, y, &p, turn, out) && copse__product_may_end(l, &p);
}

static copse_status dense_lower_fused(struct copse_lowering *l, const struct copse_fused *f)
{
    struct copse_product p = dense_product(f->at[0]);
    copse__end_set(f, &p);
    return copse__lower_product(l, &p);
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
    if (!copse__is_failed(dz) && dz->shape.rank < 2)
        dz = dense_flatten(g, dz);
    narrow = copse__narrow_slope(g, y, dz);
    flat = dense_flatten(g, narrow);
    /* The input is not needed after its product, and the derivative by the input is as large. */
    if (w->needs_gradient) {
        x2 = dense_flatten(g, x);
        dx[1] = copse_matmul(g, x2, flat, true, false);
    }
    if (x->needs_gradient) {
        dx[0] = copse_matmul(g, narrow, w, false, true);
        if (x->shape.rank < 2)
            dx[0] = copse_reshape(g, dx[0], x->shape);
    }
    if (y->in_count == 3 && y->in[2]->needs_gradient)
        dx[2] = copse__column_sum(g, narrow == dz ? flat : dense_flatten(g, dz));
}

static const struct copse_op op_dense = {
    .name = "dense",
    .attr_size = sizeof(struct dense_attr),
    .infer = dense_infer,
    .gradient = dense_gradient,
    .lower = dense_lower,
    .fuse = dense_fuse,
    .lower_fused = dense_lower_fused,
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
